/** Reads request bodies (decision A3): up to their limit, as UTF-8 JSON. */
import type { IncomingMessage } from "node:http"
import { Effect } from "effect"
import { type Problem, problem } from "../base/problem.ts"
import { isJson } from "./page.ts"
import { parseBody } from "./parseBody.ts"

const MAX_BODY_BYTES = 256 * 1024

const NOT_WHOLE = problem("request_timeout", "The body did not arrive completely.")
const TOO_LARGE = problem("request_too_large", "The body may have at most 256 KiB.")

/** The first size of the buffer for a body that comes in parts. */
const FIRST_ROOM_BYTES = 4 * 1024

/**
 * Reads the body as sent bytes. A body that is too large is refused before all of it is read. `hold` gets each growth of the buffer
 * in bytes, and may return a refusal. Many small parts take no more memory than one.
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
    // The client closed the connection before this read: no event follows.
    if (request.destroyed) return resume(Effect.fail(NOT_WHOLE))
    const contentLength = Number(request.headers["content-length"] ?? 0)
    if (contentLength > MAX_BODY_BYTES) return refuse(TOO_LARGE)
    let body: Buffer = Buffer.alloc(0)
    let size = 0
    /** Makes room for `needed` bytes in all; returns the refusal if there is none. */
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
      // Most bodies come in one part, which is used without a copy.
      const isWhole = size === 0 && part.length === contentLength
      const refusal = isWhole ? hold(part.length) : grow(size + part.length)
      if (refusal !== undefined) return refuse(refusal)
      if (isWhole) body = part
      else part.copy(body, size)
      size += part.length
    })
    request.on("end", () => resume(Effect.succeed(body.subarray(0, size))))
    // After the end of the body these resume nothing.
    for (const event of ["error", "close"]) request.on(event, () => resume(Effect.fail(NOT_WHOLE)))
  })

/** The charset in a Content-Type. */
const CHARSET = /;\s*charset\s*=\s*"?([^\s;"]*)/i

/** Reads the body as JSON. `hold`: as in {@link readBytes}. */
export const readJson = Effect.fnUntraced(function* (
  request: IncomingMessage,
  hold?: (bytes: number) => Problem | undefined,
) {
  const { "content-type": type, "content-encoding": encoding = "identity" } = request.headers
  const bytes = yield* readBytes(request, hold)
  if (bytes.length > 0 && !/^identity$/i.test(encoding))
    return yield* problem("content_type_invalid", "Send the body without a Content-Encoding.")
  const text = bytes.toString("utf8")
  if (!Buffer.from(text, "utf8").equals(bytes)) return yield* problem("json_invalid", "The body is not valid UTF-8.")
  if (text !== "" && !isJson(type)) {
    return yield* problem("content_type_invalid", "A body needs the header Content-Type: application/json.")
  }
  const [, charset = "utf-8"] = CHARSET.exec(type ?? "") ?? []
  if (text !== "" && !/^(?:utf-?8|us-ascii)$/i.test(charset))
    return yield* problem("content_type_invalid", "Send the body as UTF-8, with charset=utf-8 or without a charset.")
  return yield* parseBody(text)
})
