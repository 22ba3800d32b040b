/** Settings of how requests reach us, and of how many may. */
import { Effect, Redacted } from "effect"
import { ConfigProblem, type RateLimits, type Transport } from "./Config.ts"
import { file, flag, integer, text } from "./settings.ts"

/** More than one process can serve, so that a higher limit would limit nobody. */
const MAX_RATE = 100_000
/** Nobody is to be slowed down who tries the service on a machine of their own. */
const DEVELOPMENT_RATE = 10_000

const isLoopback = (host: string): boolean => host === "localhost" || host === "::1" || /^127(\.\d{1,3}){3}$/.test(host)

/** What TLS is terminated with here, or undefined where it is not. */
const tls = Effect.gen(function* () {
  const cert = yield* file("TLS_CERT")
  const key = yield* file("TLS_KEY")
  if (cert === undefined && key === undefined) return undefined
  if (cert === undefined || key === undefined)
    return yield* new ConfigProblem({ message: "TLS_CERT and TLS_KEY go together: set both or neither." })
  return { cert, key: Redacted.make(key) }
})

/** Whether plain HTTP is taken: on a loopback address only, and never in production (decision A2). */
const insecureHttp = Effect.fnUntraced(function* (host: string, development: boolean, production: boolean) {
  const allowed = yield* flag("ALLOW_INSECURE_HTTP", development && isLoopback(host))
  if (allowed && production)
    return yield* new ConfigProblem({ message: "ALLOW_INSECURE_HTTP is refused where NODE_ENV=production." })
  if (allowed && !isLoopback(host)) {
    return yield* new ConfigProblem({
      message: `ALLOW_INSECURE_HTTP is refused where HOST (${host}) is not a loopback address.`,
    })
  }
  return allowed
})

export const readTransport = Effect.fnUntraced(function* (
  host: string,
  development: boolean,
  production: boolean,
): Effect.fn.Return<Transport, ConfigProblem> {
  return {
    tls: yield* tls,
    allowInsecureHttp: yield* insecureHttp(host, development, production),
    trustProxy: yield* flag("TRUST_PROXY", false),
    liveHost: (yield* text("LIVE_HOST"))?.toLowerCase(),
    sandboxHost: (yield* text("SANDBOX_HOST"))?.toLowerCase(),
  }
})

export const readRateLimits = Effect.fnUntraced(function* (
  development: boolean,
): Effect.fn.Return<RateLimits, ConfigProblem> {
  return {
    live: yield* integer("RATE_LIMIT_LIVE", 1, MAX_RATE, development ? DEVELOPMENT_RATE : 100),
    sandbox: yield* integer("RATE_LIMIT_SANDBOX", 1, MAX_RATE, development ? DEVELOPMENT_RATE : 50),
    public: yield* integer("RATE_LIMIT_PUBLIC", 1, MAX_RATE, development ? DEVELOPMENT_RATE : 10),
  }
})
