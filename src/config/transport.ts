/** Reads the settings of how requests reach the service, and of their limits. */
import { BlockList, isIP } from "node:net"
import { createSecureContext, type SecureContextOptions } from "node:tls"
import { Effect, Redacted } from "effect"
import { ConfigProblem, type RateLimits, type Transport } from "./Config.ts"
import { file, flag, integer, isLoopback, text, textLike } from "./settings.ts"

/** More than one process can serve: a higher limit would have no effect. */
const MAX_RATE = 100_000
/** High enough that an engineer who tries the service on one machine never meets it. */
const DEVELOPMENT_RATE = 10_000
/** More than a merchant's workers have under way, and little compared with the memory of a process (decision J6). */
const IN_FLIGHT = 50
const DEVELOPMENT_IN_FLIGHT = 1_000
const MAX_IN_FLIGHT = 100_000

/** Fails with `message` if this certificate or key cannot be used. */
const usable = (context: SecureContextOptions, message: string): Effect.Effect<unknown, ConfigProblem> =>
  Effect.try({ try: () => createSecureContext(context), catch: () => new ConfigProblem({ message }) })

/** Reads the certificate and the key of TLS, or undefined if the process does not terminate TLS. */
const tls = Effect.gen(function* () {
  const cert = yield* file("TLS_CERT")
  const key = yield* file("TLS_KEY")
  if (cert === undefined && key === undefined) return undefined
  if (cert === undefined || key === undefined)
    return yield* new ConfigProblem({ message: "TLS_CERT and TLS_KEY go together: set both or neither." })
  yield* usable({ cert }, "TLS_CERT must name a file with a certificate in PEM.")
  yield* usable(
    { cert, key },
    "TLS_KEY must name a file with the private key of TLS_CERT's certificate, in PEM, without a passphrase.",
  )
  return { cert, key: Redacted.make(key) }
})

/** Whether plain HTTP is accepted: on a loopback address only, and never in production (decision A2). */
const insecureHttp = Effect.fnUntraced(function* (host: string, development: boolean, production: boolean) {
  const allowed = yield* flag("ALLOW_INSECURE_HTTP", development && isLoopback(host))
  if (allowed && production)
    return yield* new ConfigProblem({ message: "ALLOW_INSECURE_HTTP is refused when NODE_ENV=production." })
  if (allowed && !isLoopback(host)) {
    return yield* new ConfigProblem({
      message: `ALLOW_INSECURE_HTTP is refused when HOST (${host}) is not a loopback address.`,
    })
  }
  return allowed
})

/** An address, or a network in CIDR notation. */
const NETWORK = /^([0-9a-f.:]+)(?:\/(\d{1,3}))?$/i

/** Parses networks separated by commas; undefined if one of them is not a network. */
const networksIn = (value: string): BlockList | undefined => {
  const networks = new BlockList()
  for (const network of value.split(",")) {
    const [, address = "", prefix] = NETWORK.exec(network.trim()) ?? []
    const family = isIP(address)
    const bits = family === 4 ? 32 : 128
    if (family === 0 || Number(prefix ?? bits) > bits) return undefined
    networks.addSubnet(address, Number(prefix ?? bits), family === 4 ? "ipv4" : "ipv6")
  }
  return networks
}

/** The proxies whose X-Forwarded headers are trusted (decision A2). */
const trustProxy = Effect.gen(function* () {
  const value = yield* text("TRUST_PROXY")
  if (value === undefined || value === "false") return false
  if (value === "true") return true
  return (
    networksIn(value) ??
    (yield* new ConfigProblem({
      message: `TRUST_PROXY must be true, false, or networks such as 10.0.0.0/8,fd00::/8, not "${value}".`,
    }))
  )
})

/** A name or an address as in a request's `Host` header, without the port. */
const HOST = /^(?:\[[0-9a-f:.]+\]|[a-z0-9_](?:[a-z0-9_-]|\.(?!\.))*)$/i

const hostName = (name: string) =>
  Effect.map(
    textLike(
      name,
      (value) => HOST.test(value) && !/[.-]$/.test(value),
      () => `${name} must be a host name such as api.example.com, without a scheme, a port and a path.`,
    ),
    (host) => host?.toLowerCase(),
  )

/** Reads the host names of both environments. */
const hosts = Effect.gen(function* () {
  const liveHost = yield* hostName("LIVE_HOST")
  const sandboxHost = yield* hostName("SANDBOX_HOST")
  if (liveHost !== undefined && liveHost === sandboxHost)
    return yield* new ConfigProblem({ message: `LIVE_HOST and SANDBOX_HOST must differ: both are ${liveHost}.` })
  return { liveHost, sandboxHost }
})

export const readTransport = Effect.fnUntraced(function* (
  host: string,
  development: boolean,
  production: boolean,
): Effect.fn.Return<Transport, ConfigProblem> {
  return {
    tls: yield* tls,
    allowInsecureHttp: yield* insecureHttp(host, development, production),
    trustProxy: yield* trustProxy,
    ...(yield* hosts),
  }
})

export const readRateLimits = Effect.fnUntraced(function* (
  development: boolean,
): Effect.fn.Return<RateLimits, ConfigProblem> {
  return {
    live: yield* integer("RATE_LIMIT_LIVE", 1, MAX_RATE, development ? DEVELOPMENT_RATE : 100),
    sandbox: yield* integer("RATE_LIMIT_SANDBOX", 1, MAX_RATE, development ? DEVELOPMENT_RATE : 50),
    public: yield* integer("RATE_LIMIT_PUBLIC", 1, MAX_RATE, development ? DEVELOPMENT_RATE : 10),
    instalmentPlans: yield* integer("RATE_LIMIT_INSTALMENT_PLANS", 1, MAX_RATE, development ? DEVELOPMENT_RATE : 10),
  }
})

export const readInFlight = (development: boolean): Effect.Effect<number, ConfigProblem> =>
  integer("IN_FLIGHT", 1, MAX_IN_FLIGHT, development ? DEVELOPMENT_IN_FLIGHT : IN_FLIGHT)
