/** Which Postgres is used, and that nobody between us and it can listen in. */
import { Effect, Redacted } from "effect"
import { ConfigProblem } from "./Config.ts"
import { isLoopback, url } from "./settings.ts"

/** With each of these, a server that has no TLS, or no certificate that holds, is not talked to: by neither of our clients. */
const TLS_MODES = ["require", "verify-ca", "verify-full"]

/** Whether nothing that goes to the database leaves this machine. A `host` parameter replaces the address's own. */
const isLocal = ({ hostname, searchParams }: URL): boolean => {
  const host = searchParams.getAll("host").at(-1) ?? hostname
  return isLoopback(host) || /^(\/|%2f)/i.test(host)
}

const asksForTls = ({ searchParams }: URL): boolean => {
  const modes = searchParams.getAll("sslmode")
  return modes.length > 0 && modes.every((mode) => TLS_MODES.includes(mode))
}

const PROTOCOLS = ["postgres:", "postgresql:"]

/** Whether a text is the address of a database. */
export const isDatabaseUrl = (written: string): boolean =>
  URL.canParse(written) && PROTOCOLS.includes(new URL(written).protocol)

/** Fails where what is sent to the database could be read on its way, which production refuses; `name` is what gave its address. */
export const requireTls = (name: string, url: string, production: boolean): Effect.Effect<void, ConfigProblem> => {
  const address = new URL(url)
  if (!production || isLocal(address) || asksForTls(address)) return Effect.void
  return Effect.fail(
    new ConfigProblem({
      message: `${name} must ask for TLS where NODE_ENV=production: add ?sslmode=verify-full to it.`,
    }),
  )
}

/** The address that is set; undefined where none is, which is refused where one is `needed`. */
export const readDatabaseUrl = Effect.fnUntraced(function* (
  production: boolean,
  needed: boolean,
): Effect.fn.Return<Redacted.Redacted<string> | undefined, ConfigProblem> {
  const found = yield* url("DATABASE_URL", PROTOCOLS)
  if (found === undefined && needed) {
    return yield* new ConfigProblem({
      message: "DATABASE_URL is needed where NODE_ENV=production: the embedded Postgres is for development.",
    })
  }
  if (found === undefined) return undefined
  yield* requireTls("DATABASE_URL", found, production)
  return Redacted.make(found)
})
