/** Request bodies (decision A3): read up to their limit, as UTF-8 JSON. */
import type { IncomingMessage } from "node:http"
import { Effect } from "effect"
import { type Problem, problem } from "../problem.ts"
import { parseBody } from "./parseBody.ts"

const MAX_BODY_BYTES = 256 * 1024

const TOO_LARGE = problem("request_too_large", "The body may hold at most 256 KiB.")

/**
 * The body as it was sent; refused before it is read whole where it is too large, or where `hold`, which is told of each part
 * that arrives, says why not.
 */
export const readBytes = (
  request: IncomingMessage,
  hold: (bytes: number) => Problem | undefined = () => undefined,
): Effect.Effect<Buffer, Problem> =>
  Effect.callback<Buffer, Problem>((resume) => {
    const refuse = (refusal: Problem) => {
      request.pause()
      request.removeAllListeners("data")
      resume(Effect.fail(refusal))
    }
    if (Number(request.headers["content-length"] ?? 0) > MAX_BODY_BYTES) return refuse(TOO_LARGE)
    const chunks: Array<Buffer> = []
    let size = 0
    request.on("data", (chunk: Buffer) => {
      size += chunk.length
      const refusal = size > MAX_BODY_BYTES ? TOO_LARGE : hold(chunk.length)
      if (refusal !== undefined) return refuse(refusal)
      chunks.push(chunk)
    })
    request.on("end", () => resume(Effect.succeed(Buffer.concat(chunks))))
    request.on("error", () => resume(Effect.fail(problem("request_timeout", "The body did not arrive whole."))))
  })

/** The body as JSON. `hold`: as in {@link readBytes}. */
export const readJson = Effect.fnUntraced(function* (
  request: IncomingMessage,
  hold?: (bytes: number) => Problem | undefined,
) {
  const type = request.headers["content-type"]
  const bytes = yield* readBytes(request, hold)
  const text = bytes.toString("utf8")
  if (!Buffer.from(text, "utf8").equals(bytes)) return yield* problem("json_invalid", "The body is not valid UTF-8.")
  if (text !== "" && !/^application\/json\s*(;|$)/i.test(type ?? "")) {
    return yield* problem("content_type_invalid", "A body needs the header Content-Type: application/json.")
  }
  return yield* parseBody(text)
})
