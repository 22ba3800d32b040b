/** A whole instance of one's own: a Postgres, a server and an account, for as long as the scope is open. */
import { Effect } from "effect"
import { createAccount } from "../src/account/accounts.ts"
import { readConfig } from "../src/config/readConfig.ts"
import { databaseUrl, poolLayer } from "../src/db/database.ts"
import { migrate } from "../src/db/migrate.ts"
import { temporaryDataDir } from "./dataDir.ts"
import { startServer } from "./server.ts"

/** `of` is a part of its folder's name. */
export const ownInstance = Effect.fnUntraced(function* (of: string) {
  const dataDir = yield* Effect.acquireRelease(
    Effect.sync(() => temporaryDataDir(of)),
    ({ remove }) => Effect.sync(remove),
  )
  const { DATABASE_URL: _, ...env } = process.env
  const url = yield* databaseUrl(yield* readConfig({ ...env, DATA_DIR: dataDir.path }, { development: true }))
  const pool = poolLayer(url, 2)
  yield* Effect.provide(migrate, pool)
  const { account, keys } = yield* Effect.provide(createAccount({ businessName: "Fit Lagos" }), pool)
  const { origin } = yield* Effect.acquireRelease(
    Effect.promise(() => startServer({ DATA_DIR: dataDir.path })),
    ({ stop }) => Effect.promise(stop),
  )
  return { url, pool, account: account.id, key: keys.sk_test, origin }
})
