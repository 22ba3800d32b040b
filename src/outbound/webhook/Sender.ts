/** Sends webhooks: one signed POST, to a public address, within 15 seconds. */
import { Resolver } from "node:dns/promises"
import type { LookupFunction } from "node:net"
import { Context, Effect, Layer, type Redacted } from "effect"
import { Agent, type Dispatcher } from "undici"
import { createConnector } from "../../base/connector.ts"
import { invalid, type Problem } from "../../base/problem.ts"
import { retryAfterOf } from "../../base/retryAfter.ts"
import { SECOND_MS } from "../../base/time.ts"
import { currentTime } from "../../base/wallClock.ts"
import { isAllowed, isLocalName, literalAddress } from "./addresses.ts"
import { signedHeaders } from "./signature.ts"

const LIMIT_MS = 15 * SECOND_MS
/** Bytes of a response body that are read, and that are stored. */
const MAX_READ_BYTES = 16_384
const MAX_KEPT_BYTES = 2_048
const USER_AGENT = "RecurringBilling-Webhooks/1.0"
/** The DNS limit while an endpoint is saved. A name that does not resolve now may do so later, so the request does not wait longer. */
const RESOLVE_ON_SAVE_MS = 1_500
const RESOLVE_MS = 5_000
const KEEP_ALIVE_MS = 10_000

export interface Outgoing {
  readonly url: string
  readonly livemode: boolean
  /** The event's ID. Consumers use it to ignore duplicates. */
  readonly id: string
  readonly body: string
  readonly secrets: ReadonlyArray<Redacted.Redacted<string>>
}

/** The result of one try. */
export interface TryResult {
  readonly delivered: boolean
  /** null: there was no answer. */
  readonly status: number | null
  readonly body: string | null
  /** Why it was not delivered, as a code. */
  readonly failure: string | null
  readonly durationMs: number
  /** The response's Retry-After. */
  readonly retryAfterMs: number | null
}

export interface SenderSettings {
  /** Whether sandbox endpoints may be on this machine (`ALLOW_LOOPBACK_WEBHOOKS`). */
  readonly allowLoopback: boolean
  /** DNS servers to ask instead of the system's. */
  readonly dnsServers: ReadonlyArray<string>
}

class AddressRefused extends Error {
  override readonly name = "AddressRefused"
}

/** Resolves a host name to its current IP addresses. */
const resolveWith = (resolver: Resolver) => async (hostname: string) => {
  if (isLocalName(hostname)) return ["127.0.0.1", "::1"]
  const found = await Promise.allSettled([resolver.resolve4(hostname), resolver.resolve6(hostname)])
  const addresses = found.flatMap((answer) => (answer.status === "fulfilled" ? answer.value : []))
  if (addresses.length > 0) return addresses
  throw (found[0] as PromiseRejectedResult).reason
}

/** Resolves names for connections. Refuses the connection if one of the name's addresses is not allowed. */
const guardedLookup =
  (resolve: (hostname: string) => Promise<ReadonlyArray<string>>, allowLoopback: boolean): LookupFunction =>
  (hostname, options, callback) => {
    resolve(hostname).then(
      (addresses) => {
        const refused = addresses.find((address) => !isAllowed(address, allowLoopback))
        if (refused !== undefined) return callback(new AddressRefused(refused), "", 0)
        const found = addresses.map((address) => ({ address, family: address.includes(":") ? 6 : 4 }))
        return options.all === true ? callback(null, found) : callback(null, found[0]!.address, found[0]!.family)
      },
      (error: NodeJS.ErrnoException) => callback(error, "", 0),
    )
  }

/** Translates the error of a failed connection to a failure code that the endpoint's owner can act on. */
const failureOf = (error: unknown): string => {
  const { name, code, cause } = error as { name?: string; code?: string; cause?: unknown }
  if (name === "AddressRefused") return "address_not_allowed"
  if (name === "TimeoutError" || name === "AbortError" || /TIMEOUT|ETIMEDOUT/.test(code ?? "")) return "timeout"
  if (/^(ENOTFOUND|ENODATA|ESERVFAIL|EAI_|EREFUSED|ETIMEOUT|EBADNAME)/.test(code ?? "")) return "name_not_resolved"
  if (code === "ECONNREFUSED") return "connection_refused"
  if (/CERT|TLS|SSL|SELF_SIGNED|ALTNAME/.test(code ?? "")) return "tls_failed"
  return cause === undefined ? "connection_failed" : failureOf(cause)
}

class TimedOut extends Error {
  override readonly name = "TimeoutError"
}

interface Answer {
  readonly status: number
  readonly retryAfter: string | ReadonlyArray<string> | undefined
  /** The first bytes of the body. */
  readonly body: string
}

/**
 * Sends one request and reads the start of its response within the time limit. It uses undici's callbacks directly, since deliveries spend
 * most of their time here. The status line decides: an incomplete body is not an error.
 */
const exchange = (dispatcher: Dispatcher, options: Dispatcher.DispatchOptions): Promise<Answer> =>
  new Promise((resolve, reject) => {
    let [over, status, read] = [false, 0, 0]
    let retryAfter: Answer["retryAfter"]
    let request: Dispatcher.DispatchController | undefined
    const parts: Array<Buffer> = []
    const finish = (failed?: Error) => {
      if (over) return
      over = true
      clearTimeout(limit)
      if (failed !== undefined && status === 0) return reject(failed)
      // Postgres text cannot contain NUL.
      const body = Buffer.concat(parts).subarray(0, MAX_KEPT_BYTES).toString("utf8").replaceAll("\0", "")
      resolve({ status, retryAfter, body })
    }
    const limit = setTimeout(() => {
      const late = new TimedOut()
      finish(late)
      request?.abort(late)
    }, LIMIT_MS)
    dispatcher.dispatch(options, {
      onRequestStart: (controller) => {
        request = controller
        // Connecting used up the time limit. The delivery is retried, so nothing is sent now.
        if (over) controller.abort(new TimedOut())
      },
      onResponseStart: (_, code, headers) => {
        status = code
        retryAfter = headers["retry-after"]
      },
      onResponseData: (controller, part) => {
        parts.push(part)
        read += part.length
        if (read < MAX_READ_BYTES) return
        finish()
        // The rest of the body, and so the connection, is not needed.
        controller.abort(new Error("enough read"))
      },
      onResponseEnd: () => finish(),
      onResponseError: (_, error) => finish(error),
    })
  })

const resolverOf = ({ dnsServers }: SenderSettings, timeout: number) => {
  const resolver = new Resolver({ timeout, tries: 1 })
  if (dnsServers.length > 0) resolver.setServers(dnsServers)
  return resolveWith(resolver)
}

/** Connections to addresses that are allowed, for as long as the scope is open. */
const agentFor = (resolve: ReturnType<typeof resolveWith>, loopback: boolean) =>
  Effect.acquireRelease(
    Effect.sync(
      () =>
        new Agent({
          connect: createConnector({ lookup: guardedLookup(resolve, loopback), timeout: LIMIT_MS }),
          // No limit per origin: many endpoints may share one, and a dead endpoint must not block the others.
          connections: null,
          keepAliveTimeout: KEEP_ALIVE_MS,
          // LIMIT_MS for the whole exchange replaces these.
          headersTimeout: 0,
          bodyTimeout: 0,
        }),
    ),
    (agent) =>
      Effect.ignore(
        Effect.tryPromise(() => agent.destroy()),
        { log: "Warn", message: "cannot close webhook connections" },
      ),
  )

const post = async (agent: Agent, loopback: boolean, { url, id, body, secrets }: Outgoing): Promise<Answer> => {
  const { origin, pathname, search, hostname } = new URL(url)
  const literal = literalAddress(hostname)
  if (literal !== undefined && !isAllowed(literal, loopback)) throw new AddressRefused(literal)
  return exchange(agent, {
    origin,
    path: pathname + search,
    method: "POST",
    headers: {
      "content-type": "application/json",
      "user-agent": USER_AGENT,
      ...signedHeaders(id, currentTime(), body, secrets),
    },
    body,
  })
}

/** Waits for a response and returns the result of the try. */
const resultOf = async (responding: Promise<Answer>): Promise<TryResult> => {
  const startedAt = performance.now()
  const tookMs = () => Math.round(performance.now() - startedAt)
  try {
    const { status, retryAfter, body } = await responding
    const delivered = status >= 200 && status < 300
    return {
      delivered,
      status,
      body,
      failure: delivered ? null : "response_status",
      retryAfterMs: delivered ? null : retryAfterOf(retryAfter, currentTime()),
      durationMs: tookMs(),
    }
  } catch (error) {
    const failure = failureOf(error)
    return { delivered: false, status: null, body: null, failure, retryAfterMs: null, durationMs: tookMs() }
  }
}

export class Sender extends Context.Service<
  Sender,
  {
    /** Makes one try. Never fails: the result has the failure. */
    readonly send: (outgoing: Outgoing) => Promise<TryResult>
    /** Refuses a URL to which no webhook may be sent. It queries DNS, so it must not run in a transaction. */
    readonly check: (url: string, livemode: boolean) => Effect.Effect<void, Problem>
  }
>()("billing/outbound/webhook/Sender") {
  static readonly layer = (settings: SenderSettings): Layer.Layer<Sender> =>
    Layer.effect(
      Sender,
      Effect.gen(function* () {
        const resolve = resolverOf(settings, RESOLVE_MS)
        const resolveOnSave = resolverOf(settings, RESOLVE_ON_SAVE_MS)
        const loopbackFor = (livemode: boolean) => !livemode && settings.allowLoopback
        const agents = {
          live: yield* agentFor(resolve, loopbackFor(true)),
          sandbox: yield* agentFor(resolve, loopbackFor(false)),
        }
        return Sender.of({
          send: (outgoing) =>
            resultOf(post(outgoing.livemode ? agents.live : agents.sandbox, loopbackFor(outgoing.livemode), outgoing)),
          check: Effect.fnUntraced(function* (text, livemode) {
            const { hostname } = new URL(text)
            const literal = literalAddress(hostname)
            const addresses =
              literal === undefined ? yield* Effect.promise(() => resolveOnSave(hostname).catch(() => [])) : [literal]
            if (addresses.every((address) => isAllowed(address, loopbackFor(livemode)))) return
            const where = loopbackFor(livemode) ? "a public address or to this machine" : "a public address"
            return yield* invalid("url", `url must lead to ${where}, not to a private or reserved one.`)
          }),
        })
      }),
    )
}
