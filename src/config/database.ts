/** Reads the setting of the database, and requires TLS if its traffic could be read on the network. */
import { Effect, Redacted } from "effect"
import { ConfigProblem } from "./Config.ts"
import { isLoopback, url } from "./settings.ts"

/** With each of these, neither of our clients talks to a server that has no TLS or no valid certificate. */
const TLS_MODES = ["require", "verify-ca", "verify-full"]

/** Whether the traffic to the database stays on this machine. A `host` parameter replaces the host of the address. */
const isLocal = ({ hostname, searchParams }: URL): boolean => {
  const host = searchParams.getAll("host").at(-1) ?? hostname
  return isLoopback(host) || /^(\/|%2f)/i.test(host)
}

const asksForTls = ({ searchParams }: URL): boolean => {
  const modes = searchParams.getAll("sslmode")
  return modes.length > 0 && modes.every((mode) => TLS_MODES.includes(mode))
}

const PROTOCOLS = ["postgres:", "postgresql:"]

/** Whether a text is a database address. */
export const isDatabaseUrl = (written: string): boolean =>
  URL.canParse(written) && PROTOCOLS.includes(new URL(written).protocol)

/** Fails in production if the traffic to the database could be read on the network. `name`: the setting with its address. */
export const requireTls = (name: string, url: string, production: boolean): Effect.Effect<void, ConfigProblem> => {
  const address = new URL(url)
  if (!production || isLocal(address) || asksForTls(address)) return Effect.void
  return Effect.fail(
    new ConfigProblem({
      message: `${name} must ask for TLS when NODE_ENV=production: add ?sslmode=verify-full to it.`,
    }),
  )
}

/** Reads the database's address; undefined if it is not set. Fails if it is not set but `needed`. */
export const readDatabaseUrl = Effect.fnUntraced(function* (
  production: boolean,
  needed: boolean,
): Effect.fn.Return<Redacted.Redacted<string> | undefined, ConfigProblem> {
  const found = yield* url("DATABASE_URL", PROTOCOLS)
  if (found === undefined && needed) {
    return yield* new ConfigProblem({
      message: "DATABASE_URL is needed when NODE_ENV=production: the embedded Postgres is for development.",
    })
  }
  if (found === undefined) return undefined
  yield* requireTls("DATABASE_URL", found, production)
  return Redacted.make(found)
})
