/** The quiet tenant sends a few reads and writes a second, at fixed times. Each is timed from the moment it was due. */
import { setTimeout as sleep } from "node:timers/promises"
import { Agent, request } from "undici"

const READS_PER_SECOND = 20
const WRITES_PER_SECOND = 10
/** Keeps reads and writes from being sent at the same instant. */
const WRITES_LATER_MS = 25
/** Fewer than an account's limit of concurrent requests, so that the tenant never limits itself. */
const CONNECTIONS = 40
/** A request without an answer this long after the last one was due counts as unanswered. */
const GRACE_MS = 5_000

/** A tenant's secret keys. */
export interface Keys {
  readonly sk_test: string
  readonly sk_live: string
}

export interface Latency {
  /** Milliseconds; Infinity if a request was refused or got no answer. */
  readonly median: number
  readonly p99: number
}

export interface Quiet {
  readonly read: Latency
  readonly write: Latency
  /** Requests that were refused, by status, or got no answer ("unanswered"). */
  readonly failed: Readonly<Record<string, number>>
}

export const BODY = JSON.stringify({
  name: "Ada Obi",
  email: "ada@example.com",
  phone: "+2348031234567",
  metadata: { tier: "gold" },
})

const percentile = (values: ReadonlyArray<number>, part: number): number =>
  [...values].sort((a, b) => a - b)[Math.min(values.length - 1, Math.floor(values.length * part))]!

/** Sends one request; returns its status and body. */
export const send = async (
  agent: Agent,
  origin: string,
  key: string,
  path: string,
  body: string | null = null,
  signal?: AbortSignal,
) => {
  const answer = await request(`${origin}${path}`, {
    dispatcher: agent,
    method: body === null ? "GET" : "POST",
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    body,
    ...(signal === undefined ? {} : { signal }),
  })
  return { status: answer.statusCode, text: await answer.body.text() }
}

export const createAgent = (): Agent => new Agent({ connections: CONNECTIONS })

/** Creates a live customer of the tenant; returns its path, to be read. */
export const createRead = async (agent: Agent, origin: string, { sk_live }: Keys): Promise<string> => {
  const { status, text } = await send(agent, origin, sk_live, "/v1/customers", BODY)
  if (status !== 201) throw new Error(`No customer: ${text}`)
  return `/v1/customers/${JSON.parse(text).data.id}`
}

/**
 * Measures reads in live and writes in the sandbox, so that each has its own rate limit: after the server was blocked, all waiting requests
 * are sent together.
 */
export const measure = async (
  agent: Agent,
  origin: string,
  keys: Keys,
  readPath: string,
  seconds: number,
): Promise<Quiet> => {
  const signal = AbortSignal.timeout(seconds * 1000 + GRACE_MS)
  const failed: Record<string, number> = {}
  const startedAt = performance.now()
  const series = async (perSecond: number, laterMs: number, key: string, path: string, body: string | null) => {
    const latencies = await Promise.all(
      Array.from({ length: seconds * perSecond }, async (_, n) => {
        const due = startedAt + laterMs + (n * 1000) / perSecond
        await sleep(due - performance.now())
        const status = await send(agent, origin, key, path, body, signal).then(
          (answer) => answer.status,
          () => "unanswered",
        )
        if (status === 200 || status === 201) return performance.now() - due
        failed[status] = (failed[status] ?? 0) + 1
        return Number.POSITIVE_INFINITY
      }),
    )
    return { median: percentile(latencies, 0.5), p99: percentile(latencies, 0.99) }
  }
  const [read, write] = await Promise.all([
    series(READS_PER_SECOND, 0, keys.sk_live, readPath, null),
    series(WRITES_PER_SECOND, WRITES_LATER_MS, keys.sk_test, "/sandbox/v1/customers", BODY),
  ])
  return { read, write, failed }
}
