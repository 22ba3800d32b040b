/**
 * Logs, traces and metrics of a process: structured logs, OTLP export if an endpoint is configured, and Prometheus metrics on a
 * separate port.
 */
import { createServer } from "node:http"
import { Effect, Layer, Logger, Metric, References } from "effect"
import { FetchHttpClient } from "effect/http"
import { Otlp, PrometheusMetrics } from "effect/observability"
import { SqlClient } from "effect/sql"
import type { ConfigProblem, Observability } from "../config/Config.ts"
import { cannotListen } from "../http/listener.ts"

const SERVICE = "recurring-billing"

/** Logs to standard error, one line each, as JSON or logfmt. Also exports traces, metrics and logs by OTLP if that is configured. */
export const observabilityLayer = ({ logLevel, logFormat, otlpEndpoint }: Observability) => {
  const json = Logger.withConsoleError(Logger.formatJson)
  const loggers = Logger.layer([logFormat === "json" ? json : Logger.withConsoleError(Logger.formatLogFmt)])
  const level = Layer.succeed(References.MinimumLogLevel, logLevel)
  const base = Layer.merge(loggers, level)
  if (otlpEndpoint === undefined) return base
  const otlp = Otlp.layerJson({
    baseUrl: otlpEndpoint,
    resource: { serviceName: SERVICE },
    loggerMergeWithExisting: true,
  }).pipe(Layer.provide(FetchHttpClient.layer))
  return otlp.pipe(Layer.provideMerge(base))
}

const overdueTimers = Metric.gauge("billing_timers_overdue", {
  description: "Wall-clock timers that are due and have not fired",
})
const timerLag = Metric.gauge("billing_timer_lag_seconds", { description: "How long the oldest timer is overdue" })
const pendingCharges = Metric.gauge("billing_charges_pending", {
  description: "Pending charges on the wall clock: the rail has no result yet",
})
const oldestPending = Metric.gauge("billing_charge_pending_seconds", {
  description: "Age of the oldest pending charge",
})
const waitingCalls = Metric.gauge("billing_rail_calls_waiting", {
  description: "Calls to external rails without an answer yet",
})
const oldestCall = Metric.gauge("billing_rail_call_waiting_seconds", { description: "Age of the oldest such call" })
const unsentEmails = Metric.gauge("billing_letters_waiting", {
  description: "E-mails to owners and members of accounts not sent",
})
const unsentNudges = Metric.gauge("billing_nudges_waiting", { description: "Nudges that no messenger accepted yet" })
const failingEndpoints = Metric.gauge("billing_webhook_endpoints_failing", {
  description: "Webhook endpoints whose last delivery attempt failed",
})
const exceptions = Metric.gauge("billing_reconciliation_exceptions", {
  description: "Answers of rails that do not match the ledger",
})

interface DatabaseGauges {
  readonly overdue: number
  readonly lag: number
  readonly pending: number
  readonly oldest: number
  readonly calls: number
  readonly oldest_call: number
  readonly emails: number
  readonly nudges: number
  readonly failing: number
  readonly exceptions: number
}

/** Reads the gauges that only the database knows. Each subquery uses an index. */
const readGauges = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<DatabaseGauges>`
    SELECT t.n AS overdue, coalesce(extract(epoch FROM now() - t.oldest), 0)::float8 AS lag,
      c.n AS pending, coalesce(extract(epoch FROM now() - c.oldest), 0)::float8 AS oldest,
      q.n AS calls, greatest(coalesce(extract(epoch FROM now() - q.oldest), 0), 0)::float8 AS oldest_call,
      (SELECT count(*) FROM letter WHERE sent_at IS NULL AND failure_reason IS NULL) AS emails,
      (SELECT count(*) FROM nudge WHERE state = 'sending') AS nudges,
      (SELECT count(*) FROM webhook_endpoint WHERE failures > 0 AND state = 'enabled') AS failing,
      (SELECT count(*) FROM finance.reconciliation_exceptions) AS exceptions
    FROM (
      SELECT count(*) AS n, min(due_at) AS oldest FROM timer
      WHERE actor_kind IN ('subscription', 'charge', 'invoice', 'nudge', 'refund') AND test_clock_id IS NULL AND due_at <= now()
    ) t, (SELECT count(*) AS n, min(sent_at) AS oldest FROM charge WHERE status = 'pending' AND test_clock_id IS NULL) c,
      (SELECT count(*) AS n, min(queued_at) AS oldest FROM rail_call) q`
  yield* Metric.update(overdueTimers, row!.overdue)
  yield* Metric.update(timerLag, row!.lag)
  yield* Metric.update(pendingCharges, row!.pending)
  yield* Metric.update(oldestPending, row!.oldest)
  yield* Metric.update(waitingCalls, row!.calls)
  yield* Metric.update(oldestCall, row!.oldest_call)
  yield* Metric.update(unsentEmails, row!.emails)
  yield* Metric.update(unsentNudges, row!.nudges)
  yield* Metric.update(failingEndpoints, row!.failing)
  yield* Metric.update(exceptions, row!.exceptions)
})

/** Serves `GET /metrics` on a separate port until the scope closes. The address must not be reachable from outside. */
export const serveMetrics = Effect.fn("metrics.serve")(function* (port: number, host: string) {
  const context = yield* Effect.context<SqlClient.SqlClient>()
  const scrape = Effect.andThen(
    readGauges.pipe(Effect.catchCause((cause) => Effect.logWarning("cannot read the database metrics", cause))),
    PrometheusMetrics.format(),
  )
  const server = createServer((request, response) => {
    if (request.method !== "GET" || request.url?.split("?")[0] !== "/metrics") {
      response.writeHead(404).end()
      return
    }
    void Effect.runPromiseWith(context)(scrape).then((text) => {
      response.writeHead(200, { "content-type": "text/plain; version=0.0.4; charset=utf-8" }).end(text)
    })
  })
  yield* Effect.acquireRelease(
    Effect.callback<void, ConfigProblem>((resume) => {
      server.once("error", (error) => resume(Effect.fail(cannotListen("METRICS_", host, port, error))))
      server.listen(port, host, () => resume(Effect.void))
    }),
    () => Effect.sync(() => server.closeAllConnections()).pipe(Effect.andThen(Effect.sync(() => server.close()))),
  )
})
