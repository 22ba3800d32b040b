/** Calls of messengers' HTTP interfaces: what is known of a message after one that went wrong. */
import { Effect } from "effect"
import { Agent, request } from "undici"
import { createConnector } from "../../base/connector.ts"
import { parseExactly } from "../../base/json.ts"
import { retryAfterOf } from "../../base/retryAfter.ts"
import { SECOND_MS } from "../../base/time.ts"
import { currentTime } from "../../base/wallClock.ts"
import { Busy, NoAnswer, type SendError } from "./Messenger.ts"

const LIMIT_MS = 10 * SECOND_MS
/** Messengers answer with some hundred bytes. */
const MAX_ANSWER_BYTES = 64 * 1024
const agent = new Agent({
  // Less than the limit: so that a connection that fails is not taken for a response that does not come.
  connect: createConnector({ timeout: 5 * SECOND_MS }),
})

export interface Answer {
  readonly status: number
  readonly body: Readonly<Record<string, unknown>>
}

/** Errors of a connection that never came to be: nothing was sent. */
const NOT_CONNECTED = new Set([
  "ECONNREFUSED",
  "ENOTFOUND",
  "EAI_AGAIN",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "UND_ERR_CONNECT_TIMEOUT",
])

/** Messages have IDs of up to 64 bits, as numbers too. What is no object says nothing. */
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
    if (read > MAX_ANSWER_BYTES) throw new Error(`an answer of over ${MAX_ANSWER_BYTES} bytes`)
    parts.push(part)
  }
  return Buffer.concat(parts).toString("utf8")
}

/** Posts JSON; returns whatever status came back that says something about the message itself. */
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
          headers: answered,
          body: stream,
        } = await request(url, {
          method: "POST",
          dispatcher: agent,
          headers: { "content-type": "application/json", ...headers },
          body: JSON.stringify(body),
          signal: AbortSignal.timeout(LIMIT_MS),
        })
        return { status: statusCode, retryAfter: answered["retry-after"], text: await readText(stream) }
      },
      catch: failureOf,
    })
    if (answer.status === 429 || answer.status === 503)
      return yield* new Busy({ retryAfterMs: retryAfterOf(answer.retryAfter, currentTime()) })
    if (answer.status >= 500) return yield* new NoAnswer({ cause: answer.status })
    return { status: answer.status, body: asObject(answer.text) }
  })
