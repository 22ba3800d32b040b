/** Starts a server and creates a merchant, in a new installation or in that of `npm start`. */
import { Effect } from "effect"
import { ConfigProblem } from "../src/config/Config.ts"
import { readConfig } from "../src/config/readConfig.ts"
import { databaseUrl, poolLayer } from "../src/db/database.ts"
import { createAccount } from "../src/merchants/account/accounts.ts"
import { DEMO_EMAIL, demoKey } from "../src/merchants/account/demo.ts"
import { migrate } from "../src/postgres/migrate.ts"
import { temporaryDataDir } from "./dataDir.ts"
import { startServer } from "./server.ts"

type Environment = Readonly<Record<string, string | undefined>>

/** Opens the installation in `env`, and creates a merchant in it. */
const withMerchant = Effect.fnUntraced(function* (env: Environment, isKept: boolean) {
  const config = yield* readConfig(env, { development: true })
  if (config.production)
    return yield* new ConfigProblem({ message: "The demo's data is for development: NODE_ENV is production." })
  const url = yield* databaseUrl(config)
  const pool = poolLayer(url, 2)
  yield* Effect.provide(migrate, pool)
  // `npm start` creates its demo account only if there is no account at all.
  if (isKept) yield* Effect.provide(demoKey(config.dataDir), pool)
  const { account, keys } = yield* Effect.provide(
    createAccount({ businessName: "Fit Lagos", ...(isKept ? { email: DEMO_EMAIL } : {}) }),
    pool,
  )
  return { url, pool, account: account.id, key: keys.sk_test }
})

const serve = (env: Readonly<Record<string, string>>) =>
  Effect.acquireRelease(
    Effect.promise(() => startServer(env)),
    ({ stop }) => Effect.promise(stop),
  )

/** A complete instance: a Postgres, a server and an account, while the scope is open. `of` is a part of its folder's name. */
export const ownInstance = Effect.fnUntraced(function* (of: string) {
  const dataDir = yield* Effect.acquireRelease(
    Effect.sync(() => temporaryDataDir(of)),
    ({ remove }) => Effect.sync(remove),
  )
  const { DATABASE_URL: _, ...env } = process.env
  const merchant = yield* withMerchant({ ...env, DATA_DIR: dataDir.path }, false)
  const { origin } = yield* serve({ DATA_DIR: dataDir.path })
  return { ...merchant, origin }
})

/** The settings that select the installation of `npm start`. */
const INSTALLATION = ["DATA_DIR", "DATABASE_URL", "CELL", "ENCRYPTION_KEY", "ENCRYPTION_KEY_FILE"] as const

/** The installation of `npm start` with a server while the scope is open, and a new account, which stays. */
export const installedInstance = Effect.fnUntraced(function* () {
  const merchant = yield* withMerchant(process.env, true)
  const named = INSTALLATION.flatMap((name) => {
    const value = process.env[name]
    return value === undefined ? [] : [[name, value] as const]
  })
  // With an empty ENCRYPTION_KEY the server uses the key in DATA_DIR.
  const { origin } = yield* serve({ ENCRYPTION_KEY: "", ...Object.fromEntries(named) })
  return { ...merchant, origin }
})
