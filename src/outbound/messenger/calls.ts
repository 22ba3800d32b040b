/** Calls the HTTP APIs of messengers, and classifies failures by whether the message may have been sent. */
import { Effect } from "effect"
import { Agent, request } from "undici"
import { createConnector } from "../../base/connector.ts"
import { parseExactly } from "../../base/json.ts"
import { retryAfterOf } from "../../base/retryAfter.ts"
import { SECOND_MS } from "../../base/time.ts"
import { currentTime } from "../../base/wallClock.ts"
import { Busy, NoAnswer, type SendError } from "./Messenger.ts"

const LIMIT_MS = 10 * SECOND_MS
/** Answers of messengers have some hundred bytes. */
const MAX_ANSWER_BYTES = 64 * 1024
const agent = new Agent({
  // Less than the limit, so that a failed connection is not mistaken for a missing response.
  connect: createConnector({ timeout: 5 * SECOND_MS }),
})

export interface Answer {
  readonly status: number
  readonly body: Readonly<Record<string, unknown>>
}

/** Error codes of failed connections: nothing was sent. */
const NOT_CONNECTED = new Set([
  "ECONNREFUSED",
  "ENOTFOUND",
  "EAI_AGAIN",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "UND_ERR_CONNECT_TIMEOUT",
])

/** Parses an answer exactly: message IDs may be 64-bit numbers. Anything but an object becomes `{}`. */
const asObject = (text: string): Answer["body"] => {
  const value = parseExactly(text)
  return typeof value === "object" && value !== null ? (value as Answer["body"]) : {}
}

const failureOf = (error: unknown): SendError =>
  NOT_CONNECTED.has((error as { readonly code?: string }).code ?? "")
    ? new Busy({ retryAfterMs: null })
    : new NoAnswer({ cause: error })

const readText = async (stream: AsyncIterable<Uint8Array>): Promise<string> => {
  const parts: Array<Uint8Array> = []
  let read = 0
  for await (const part of stream) {
    read += part.length
    if (read > MAX_ANSWER_BYTES) throw new Error(`the answer exceeds ${MAX_ANSWER_BYTES} bytes`)
    parts.push(part)
  }
  return Buffer.concat(parts).toString("utf8")
}

/** Posts JSON. Returns the answer if its status is about the message itself; 429 and 5xx fail with Busy or NoAnswer. */
export const postJson = (
  url: string,
  body: object,
  headers: Readonly<Record<string, string>> = {},
): Effect.Effect<Answer, SendError> =>
  Effect.gen(function* () {
    const answer = yield* Effect.tryPromise({
      try: async () => {
        const {
          statusCode,
          headers: responseHeaders,
          body: stream,
        } = await request(url, {
          method: "POST",
          dispatcher: agent,
          headers: { "content-type": "application/json", ...headers },
          body: JSON.stringify(body),
          signal: AbortSignal.timeout(LIMIT_MS),
        })
        return { status: statusCode, retryAfter: responseHeaders["retry-after"], text: await readText(stream) }
      },
      catch: failureOf,
    })
    if (answer.status === 429 || answer.status === 503)
      return yield* new Busy({ retryAfterMs: retryAfterOf(answer.retryAfter, currentTime()) })
    if (answer.status >= 500) return yield* new NoAnswer({ cause: answer.status })
    return { status: answer.status, body: asObject(answer.text) }
  })
