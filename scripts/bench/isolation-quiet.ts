/** The quiet tenant: a few reads and writes a second, whatever the others do, each timed from the moment it was due. */
import { setTimeout as sleep } from "node:timers/promises"
import { Agent, request } from "undici"

const READS_PER_SECOND = 20
const WRITES_PER_SECOND = 10
/** So that the two do not fall on the same instant. */
const WRITES_LATER_MS = 25
/** Fewer than an account may have under way at once, so that it never stands in its own way. */
const CONNECTIONS = 40
/** What has no answer so long after the last one was due, gets none. */
const GRACE_MS = 5_000

/** A tenant's secret keys. */
export interface Keys {
  readonly sk_test: string
  readonly sk_live: string
}

export interface Latency {
  /** Milliseconds; Infinity where a request was refused or got no answer. */
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

/** Sends one request; returns its status, with its body where that is asked for. */
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

/** The path of a new live customer of the tenant, to be read. */
export const createRead = async (agent: Agent, origin: string, { sk_live }: Keys): Promise<string> => {
  const { status, text } = await send(agent, origin, sk_live, "/v1/customers", BODY)
  if (status !== 201) throw new Error(`No customer: ${text}`)
  return `/v1/customers/${JSON.parse(text).data.id}`
}

/**
 * Reads in live and writes in the sandbox, so that each has its rate limit to itself: what waited while the server stood
 * still is sent at once when it goes on.
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
