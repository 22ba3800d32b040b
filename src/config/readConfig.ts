/**
 * Reads the settings of a process, once, from its environment.
 * A wrong setting stops the start with one line that names it.
 */
import { isIP } from "node:net"
import { resolve } from "node:path"
import { ConfigProvider, Effect } from "effect"
import { DEFAULT_CELL, isCell } from "../base/cell.ts"
import { type Config, ConfigProblem } from "./Config.ts"
import { readDatabaseUrl } from "./database.ts"
import { readEncryptionKeys } from "./encryption.ts"
import { readMessaging } from "./messaging.ts"
import { readObservability } from "./observability.ts"
import { readRails } from "./rails.ts"
import { readSeller } from "./seller.ts"
import { choice, integer, MAX_PORT, text, textLike, webUrl } from "./settings.ts"
import { readInFlight, readRateLimits, readTransport } from "./transport.ts"
import { readWebhooks } from "./webhooks.ts"

type Environment = Readonly<Record<string, string | undefined>>

/** A longer name would make the refusal hard to read. */
const MAX_STRAY_NAME = 64
/** So far only zero or more than zero matters: a larger number is taken for a typing error. */
const MAX_WORKERS = 16
/** Test runners set `test`, which means development. Any other value is taken for a typing error of `production`. */
const ENVIRONMENTS = ["development", "production", "test"] as const
/** 100 %. */
const MAX_VAT_BPS = 10_000

/** Refuses a variable that looks like a setting of the service but has no effect. */
const refuseStray = (env: Environment): Effect.Effect<void, ConfigProblem> => {
  const stray = Object.keys(env).find((name) => name.startsWith("BILLING_"))
  if (stray === undefined) return Effect.void
  return Effect.fail(
    new ConfigProblem({
      message: `${stray.slice(0, MAX_STRAY_NAME)} is not a setting: docs/operating.md lists them.`,
    }),
  )
}

const readHost = Effect.map(
  textLike(
    "HOST",
    (value) => value === "localhost" || isIP(value) !== 0,
    (value) => `HOST must be an IP address or localhost, not "${value}".`,
  ),
  (host = "127.0.0.1") => host,
)

/** Reads the public address. It must have no path: paths are appended to it, and proxies route by them. */
const readPublicUrl = Effect.fnUntraced(function* (production: boolean) {
  const found = (yield* webUrl("PUBLIC_URL", production))?.replace(/\/+$/, "")
  if (found === undefined || /^\w+:\/\/[^/?#@]+$/.test(found)) return found
  return yield* new ConfigProblem({
    message: `PUBLIC_URL must be without a user, a path, a query and a fragment: write ${new URL(found).origin}.`,
  })
})

const readCell = textLike("CELL", isCell, (value) => `CELL must be two characters of 0-9, A-Z and a-z, not "${value}".`)

/** Provides the environment's values without surrounding spaces; an empty value counts as absent. */
const provider = (env: Environment): ConfigProvider.ConfigProvider =>
  ConfigProvider.fromEnvRecord(Object.fromEntries(Object.entries(env).map(([name, value]) => [name, value?.trim()])))

/** The purpose of a process, which changes how its environment is read. */
interface Purpose {
  /** `npm start`'s profile: plain HTTP on loopback is allowed. */
  readonly development: boolean
  /** Whether its databases are named elsewhere: then production needs neither DATABASE_URL nor ENCRYPTION_KEY. */
  readonly elsewhere?: boolean
}

/** Reads and validates the environment. */
export const readConfig = Effect.fnUntraced(
  function* (env: Environment, purpose: Purpose): Effect.fn.Return<Config, ConfigProblem> {
    yield* refuseStray(env)
    const production = (yield* choice("NODE_ENV", ENVIRONMENTS, "development")) === "production"
    const development = purpose.development && !production
    const databaseNeeded = production && purpose.elsewhere !== true
    const host = yield* readHost
    const messaging = yield* readMessaging(production)
    return {
      cell: (yield* readCell) ?? DEFAULT_CELL,
      host,
      databaseUrl: yield* readDatabaseUrl(production, databaseNeeded),
      port: yield* integer("PORT", 0, MAX_PORT, 3000),
      dataDir: resolve((yield* text("DATA_DIR")) ?? ".data"),
      publicUrl: yield* readPublicUrl(production),
      production,
      workers: yield* integer("WORKERS", 0, MAX_WORKERS, 1),
      vatBps: yield* integer("VAT_RATE", 0, MAX_VAT_BPS, 0),
      transport: yield* readTransport(host, development, production),
      observability: yield* readObservability(production),
      webhooks: yield* readWebhooks(development, production),
      messaging,
      rails: yield* readRails(production),
      seller: yield* readSeller(messaging.smtp?.from),
      rateLimits: yield* readRateLimits(development),
      inFlight: yield* readInFlight(development),
      encryptionKeys: yield* readEncryptionKeys(databaseNeeded),
    }
  },
  (reading, env) => Effect.provideService(reading, ConfigProvider.ConfigProvider, provider(env)),
)
