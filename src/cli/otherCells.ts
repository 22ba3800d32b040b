/** Databases beside the installation's own: those of other cells. */
import { Context, Effect, Layer, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { requireTls } from "../config/database.ts"
import { poolLayer } from "../db/database.ts"
import { requireAgreement } from "../process/DatabaseClock.ts"
import { unusableDatabase } from "./failures.ts"
import { Installation } from "./Installation.ts"

/** One that holds a lock, one for a transaction, one for what is done beside it. */
const MAX_CONNECTIONS = 3

/** A client of a database for as long as the scope is open; `option` names what gave its address. */
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
  // Commands open databases beside their own in order to move something there.
  yield* Effect.provideService(Effect.mapError(requireAgreement, refuse), SqlClient.SqlClient, client)
  return client
})
