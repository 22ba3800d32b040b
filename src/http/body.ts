/** Request bodies (decision A3): read up to their limit, as UTF-8 JSON. */
import type { IncomingMessage } from "node:http"
import { Effect } from "effect"
import { type Problem, problem } from "../base/problem.ts"
import { isJson } from "./page.ts"
import { parseBody } from "./parseBody.ts"

const MAX_BODY_BYTES = 256 * 1024

const NOT_WHOLE = problem("request_timeout", "The body did not arrive whole.")
const TOO_LARGE = problem("request_too_large", "The body may hold at most 256 KiB.")

/** Room for a body whose parts are being put together, at first. */
const FIRST_ROOM_BYTES = 4 * 1024

/**
 * The body as it was sent; refused before it is read whole where it is too large, or where `hold`, which is told of each
 * growth of the memory that it takes, says why not. It takes no more for coming in many parts.
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
    // Who hung up before anybody asked for the body: nothing is told of it any more.
    if (request.destroyed) return resume(Effect.fail(NOT_WHOLE))
    const told = Number(request.headers["content-length"] ?? 0)
    if (told > MAX_BODY_BYTES) return refuse(TOO_LARGE)
    let body: Buffer = Buffer.alloc(0)
    let size = 0
    /** Makes room for `needed` bytes in all; says why there is none. */
    const grow = (needed: number): Problem | undefined => {
      if (needed <= body.length) return undefined
      if (needed > MAX_BODY_BYTES) return TOO_LARGE
      const room = Math.min(MAX_BODY_BYTES, Math.max(needed, 2 * body.length, FIRST_ROOM_BYTES))
      const refusal = hold(room - body.length)
      if (refusal !== undefined) return refusal
      const larger = Buffer.allocUnsafe(room)
      body.copy(larger, 0, 0, size)
      body = larger
      return undefined
    }
    request.on("data", (part: Buffer) => {
      // Most come whole, and are taken as they are.
      const isWhole = size === 0 && part.length === told
      const refusal = isWhole ? hold(part.length) : grow(size + part.length)
      if (refusal !== undefined) return refuse(refusal)
      if (isWhole) body = part
      else part.copy(body, size)
      size += part.length
    })
    request.on("end", () => resume(Effect.succeed(body.subarray(0, size))))
    // After its end nobody listens any more.
    for (const broken of ["error", "close"]) request.on(broken, () => resume(Effect.fail(NOT_WHOLE)))
  })

/** What a Content-Type says that the text is written in. */
const CHARSET = /;\s*charset\s*=\s*"?([^\s;"]*)/i

/** The body as JSON. `hold`: as in {@link readBytes}. */
export const readJson = Effect.fnUntraced(function* (
  request: IncomingMessage,
  hold?: (bytes: number) => Problem | undefined,
) {
  const { "content-type": type, "content-encoding": encoding = "identity" } = request.headers
  const bytes = yield* readBytes(request, hold)
  if (bytes.length > 0 && !/^identity$/i.test(encoding))
    return yield* problem("content_type_invalid", "A body is sent as it is, without a Content-Encoding.")
  const text = bytes.toString("utf8")
  if (!Buffer.from(text, "utf8").equals(bytes)) return yield* problem("json_invalid", "The body is not valid UTF-8.")
  if (text !== "" && !isJson(type)) {
    return yield* problem("content_type_invalid", "A body needs the header Content-Type: application/json.")
  }
  const [, charset = "utf-8"] = CHARSET.exec(type ?? "") ?? []
  if (text !== "" && !/^(?:utf-?8|us-ascii)$/i.test(charset))
    return yield* problem(
      "content_type_invalid",
      "A body is sent as UTF-8: say so by charset=utf-8, or leave the charset out.",
    )
  return yield* parseBody(text)
})
