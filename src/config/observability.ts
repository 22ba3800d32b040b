/** Reads the settings of logs, metrics and traces. */
import { Effect } from "effect"
import type { ConfigProblem, Observability } from "./Config.ts"
import { choice, integer, MAX_PORT, text, url } from "./settings.ts"

const LOG_LEVELS = { error: "Error", warn: "Warn", info: "Info", debug: "Debug" } as const

export const readObservability = Effect.fnUntraced(function* (
  production: boolean,
): Effect.fn.Return<Observability, ConfigProblem> {
  const level = yield* choice("LOG_LEVEL", ["error", "warn", "info", "debug"], production ? "info" : "warn")
  return {
    logLevel: LOG_LEVELS[level],
    logFormat: yield* choice("LOG_FORMAT", ["json", "text"], production ? "json" : "text"),
    otlpEndpoint: (yield* url("OTEL_EXPORTER_OTLP_ENDPOINT", ["http:", "https:"]))?.replace(/\/+$/, ""),
    metricsPort: yield* integer("METRICS_PORT", 0, MAX_PORT, undefined),
    metricsHost: (yield* text("METRICS_HOST")) ?? "127.0.0.1",
  }
})
