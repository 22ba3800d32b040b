/** Databases of other cells. */
import { Context, Effect, Layer, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { requireTls } from "../config/database.ts"
import { poolLayer } from "../db/database.ts"
import { requireAgreement } from "../process/DatabaseClock.ts"
import { unusableDatabase } from "./failures.ts"
import { Installation } from "./Installation.ts"

/** One for a lock, one for a transaction, one for statements outside it. */
const MAX_CONNECTIONS = 3

/** Opens a client of a database while the scope is open; `option` is the option that gave its address. */
export const openDatabase = Effect.fnUntraced(function* (
  option: string,
  url: Redacted.Redacted<string>,
  settings: Readonly<Record<string, string>> = {},
) {
  const { config } = yield* Installation
  yield* requireTls(option, Redacted.value(url), config.production)
  const refuse = unusableDatabase(`${option}: the database`)
  const client = Context.get(
    yield* Effect.mapError(Layer.build(poolLayer(url, MAX_CONNECTIONS, settings)), refuse),
    SqlClient.SqlClient,
  )
  yield* Effect.mapError(client`SELECT id FROM cell`, refuse)
  // Commands open other databases to write to them.
  yield* Effect.provideService(Effect.mapError(requireAgreement, refuse), SqlClient.SqlClient, client)
  return client
})
