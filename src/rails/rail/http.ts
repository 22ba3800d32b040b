/** HTTP client of rails' APIs. It also decides what a call without a readable answer means (decisions P3, P9). */
import { Effect, Redacted, type Scope } from "effect"
import { type Dispatcher, Pool } from "undici"
import { createConnector } from "../../base/connector.ts"
import { parseExactly } from "../../base/json.ts"
import { retryAfterOf } from "../../base/retryAfter.ts"
import { SECOND_MS } from "../../base/time.ts"
import { currentTime } from "../../base/wallClock.ts"
import type { NoAnswer } from "./Rail.ts"

/** The limit of calls in flight to a rail (decision P11), so that no call waits for a connection. */
const MAX_CONNECTIONS = 20
/** A usual answer has a few KiB. */
const MAX_ANSWER_BYTES = 1024 * 1024
/** Shorter than the timeout of the call: an unreachable rail must not look like a rail that does not answer. */
const CONNECT_MS = 10 * SECOND_MS
/** Statuses below 500 after which the call may have been executed: timeout, conflict, too early. */
const UNDECIDED = new Set([408, 409, 425])
export const UNAUTHORIZED = 401
/** Characters that a header value may have. */
const HEADER_VALUE = /^[\x21-\x7e]+$/

export interface Call {
  readonly method: "GET" | "POST"
  /** Path below the rail's base URL, with the query. */
  readonly path: string
  /** The bearer token; undefined: the account has none. */
  readonly secret: Redacted.Redacted<string> | undefined
  readonly body?: object
}

/** An answer of status 2xx or 4xx with its JSON body. With status 401 the body may be null. */
export interface Answer {
  readonly kind: "answer"
  readonly status: number
  readonly body: unknown
}

export interface RailClient {
  /** Sends a call once. It never retries. */
  readonly call: (call: Call) => Effect.Effect<Answer | NoAnswer>
}

export const unclear = (message: string, reached: boolean): NoAnswer => ({ kind: "unclear", message, reached })

interface Response {
  readonly status: number
  readonly retryAfter: string | ReadonlyArray<string> | undefined
  readonly text: string
}

/** Interprets an HTTP response, the same for all rails. */
const resultOf = ({ status, retryAfter, text }: Response): Answer | NoAnswer => {
  if (status === 429) return { kind: "rate_limited", retryAfterMs: retryAfterOf(retryAfter, currentTime()) }
  const body = parseExactly(text)
  // Status 401 decides, even without JSON.
  if (body === undefined && status === UNAUTHORIZED) return { kind: "answer", status, body: null }
  if (body === undefined) return unclear(`HTTP ${status} without JSON`, false)
  const decided = (status >= 200 && status < 300) || (status >= 400 && status < 500 && !UNDECIDED.has(status))
  return decided ? { kind: "answer", status, body } : unclear(`HTTP ${status}`, status < 500)
}

/** Returns the code of an error. Its message may have details that must not be stored. */
const codeOf = (error: unknown): string => {
  const { code, name } = error as { readonly code?: string; readonly name?: string }
  return code ?? name ?? "error"
}

/**
 * Sends one request and reads its answer, within the limit. Until undici has a connection and starts to write, nothing is
 * sent; after that the rail may have received it. So no error code is needed to distinguish the two.
 */
const exchange = (pool: Pool, options: Dispatcher.DispatchOptions, limitMs: number): Effect.Effect<Answer | NoAnswer> =>
  Effect.callback<Answer | NoAnswer>((resume) => {
    let [finished, sent, status, read] = [false, false, 0, 0]
    let retryAfter: Response["retryAfter"]
    let request: Dispatcher.DispatchController | undefined
    const parts: Array<Buffer> = []
    const finish = (result: Answer | NoAnswer) => {
      if (finished) return
      finished = true
      clearTimeout(limit)
      resume(Effect.succeed(result))
    }
    const fail = (message: string) => finish(sent ? unclear(message, false) : { kind: "not_sent", message })
    const giveUp = (message: string) => {
      fail(message)
      request?.abort(new Error(message))
    }
    const limit = setTimeout(() => giveUp(`no answer within ${limitMs / SECOND_MS} s`), limitMs)
    pool.dispatch(options, {
      onRequestStart: (controller) => {
        // Too late, or a second attempt: send nothing.
        if (finished || sent) return controller.abort(new Error("not to be sent"))
        sent = true
        request = controller
      },
      onResponseStart: (_, code, headers) => {
        status = code
        retryAfter = headers["retry-after"]
      },
      onResponseData: (_, part) => {
        parts.push(part)
        read += part.length
        if (read > MAX_ANSWER_BYTES) giveUp("an answer of over 1 MiB")
      },
      onResponseEnd: () => finish(resultOf({ status, retryAfter, text: Buffer.concat(parts).toString("utf8") })),
      onResponseError: (_, error) => fail(`connection failed: ${codeOf(error)}`),
    })
    return Effect.sync(() => giveUp("interrupted"))
  })

/** Opens a client of one rail. Its connections close with the scope. */
export const openRailClient = Effect.fnUntraced(function* (
  url: string,
  timeoutMs: number,
): Effect.fn.Return<RailClient, never, Scope.Scope> {
  const { origin, pathname } = new URL(url)
  const base = pathname.replace(/\/$/, "")
  const pool = yield* Effect.acquireRelease(
    Effect.sync(
      () =>
        new Pool(origin, {
          connections: MAX_CONNECTIONS,
          pipelining: 1,
          connect: createConnector({ timeout: Math.min(CONNECT_MS, timeoutMs / 2) }),
          // The timeout of the whole call replaces these.
          headersTimeout: 0,
          bodyTimeout: 0,
        }),
    ),
    (open) =>
      Effect.ignore(
        Effect.tryPromise(() => open.destroy()),
        { log: "Warn", message: "connections to a rail did not close" },
      ),
  )
  return {
    call: ({ method, path, secret, body }) => {
      const bearer = secret === undefined ? "" : Redacted.value(secret)
      if (!HEADER_VALUE.test(bearer))
        return Effect.succeed({
          kind: "refused",
          code: "rail_misconfigured",
          message: "The account's secret key is missing, or cannot be one.",
        })
      const headers = { accept: "application/json", authorization: `Bearer ${bearer}` }
      return exchange(
        pool,
        body === undefined
          ? { method, path: base + path, headers }
          : {
              method,
              path: base + path,
              headers: { ...headers, "content-type": "application/json" },
              body: JSON.stringify(body),
            },
        timeoutMs,
      )
    },
  }
})
