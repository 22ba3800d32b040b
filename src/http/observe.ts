/** Writes one log line and two metrics for each request, by route, never by object. */
import type { IncomingMessage } from "node:http"
import { Effect, LogLevel, Metric, References } from "effect"
import type { KnownKey } from "../security/key/Keys.ts"

const requests = Metric.counter("http_requests_total", {
  description: "Requests that got a response, by method, route, status and environment",
  incremental: true,
})
/** Seconds: a write takes a few milliseconds; a request of seconds waits for a rail. */
const BOUNDARIES = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]
const durations = Metric.histogram("http_request_duration_seconds", {
  description: "Time from a request's head to its response, by method and route",
  boundaries: BOUNDARIES,
})

export interface Observed {
  readonly requestId: string
  /** The declared path of the route; undefined if there is no such route. */
  readonly route: string | undefined
  readonly status: number
  readonly key: KnownKey | undefined
  /** `performance.now()` when its head arrived. */
  readonly startedAt: number
}

/** The metrics by their attributes: as many as there are routes, methods and statuses. */
const metrics = new Map<string, { readonly count: typeof requests; readonly time: typeof durations }>()

const metricsOf = (method: string, route: string, status: string, environment: string) => {
  const name = `${method} ${route} ${status} ${environment}`
  let found = metrics.get(name)
  if (found === undefined) {
    found = {
      count: Metric.withAttributes(requests, { method, route, status, environment }),
      time: Metric.withAttributes(durations, { method, route }),
    }
    metrics.set(name, found)
  }
  return found
}

export const observe = Effect.fnUntraced(function* (
  node: IncomingMessage,
  { requestId, route = "none", status, key, startedAt }: Observed,
) {
  const method = node.method ?? ""
  const seconds = (performance.now() - startedAt) / 1000
  const environment = key?.kind !== "account" ? "none" : key.livemode ? "live" : "sandbox"
  const { count, time } = metricsOf(method, route, String(status), environment)
  yield* Metric.update(count, 1)
  yield* Metric.update(time, seconds)
  if (!LogLevel.isGreaterThanOrEqualTo("Info", yield* References.MinimumLogLevel)) return
  const span = yield* Effect.option(Effect.currentSpan)
  yield* Effect.logInfo("request").pipe(
    Effect.annotateLogs({
      request_id: requestId,
      ...(span._tag === "Some" ? { trace_id: span.value.traceId, span_id: span.value.spanId } : {}),
      ...(node.headers["x-request-id"] === undefined ? {} : { caller_request_id: node.headers["x-request-id"] }),
      ...(key?.kind === "account" ? { account: key.account_id } : {}),
      method,
      route,
      status,
      duration_ms: Math.round(seconds * 1_000_000) / 1000,
    }),
  )
})
