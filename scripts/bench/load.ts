/** Sends requests as fast as they are answered, from clients that wait for each answer. */
import autocannon from "autocannon"

export interface Load {
  /** The URL of requests without their own path. */
  readonly url: string
  readonly key: string
  readonly method: "GET" | "POST"
  /** The requests that each client sends in turn, each starting at a different one. */
  readonly requests?: ReadonlyArray<{ readonly path?: string; readonly body?: string }>
  readonly connections: number
  readonly seconds: number
}

/** The rate, and the maximum milliseconds of half, and of 99 %, of the requests. */
export interface Loaded {
  readonly perSecond: number
  readonly p50: number
  readonly p99: number
}

/** Runs a load. Fails if a request is refused or not answered. */
export const load = async ({ url, key, method, requests, connections, seconds }: Load): Promise<Loaded> => {
  let clients = 0
  const inTurns = (all: NonNullable<Load["requests"]>) => ({
    requests: all.map((request) => ({ ...request })),
    setupClient: (client: autocannon.Client) => {
      const first = Math.floor((clients++ * all.length) / connections)
      client.setRequests([...all.slice(first), ...all.slice(0, first)].map((request) => ({ ...request })))
    },
  })
  const result = await autocannon({
    url,
    connections,
    duration: seconds,
    method,
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    ...(requests === undefined ? {} : inTurns(requests)),
  })
  if (result.non2xx > 0 || result.errors > 0)
    throw new Error(`${method} ${url}: ${result.non2xx} refused, ${result.errors} errors`)
  return { perSecond: result.requests.average, p50: result.latency.p50, p99: result.latency.p99 }
}
