/** Which cell a database is (decision O1). Keys and links say so: a process that says another would send callers astray. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { Cell } from "../base/cell.ts"
import { ConfigProblem } from "../config/Config.ts"

export interface Identity {
  readonly id: string
  readonly joined: boolean
}

/** What the database of the running transaction, or of this client, says it is; undefined before its first start. */
export const readIdentity = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<Identity>`SELECT id, joined FROM cell`
  return row
})

/** Fails where the database has joined a deployment as another cell than this process says. */
export const requireCell = Effect.gen(function* () {
  const cell = yield* Cell
  const identity = yield* readIdentity
  if (identity?.joined === true && identity.id !== cell)
    return yield* new ConfigProblem({
      message: `CELL is ${cell}, and this database is the cell ${identity.id}: set CELL=${identity.id}.`,
    })
})

/** Notes which cell the database is, as the process that starts on it says; `joined`: for good. */
export const nameCell = Effect.fnUntraced(function* (joined = false) {
  yield* requireCell
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    INSERT INTO cell (id, joined) VALUES (${yield* Cell}, ${joined})
    ON CONFLICT (only_row) DO UPDATE SET id = excluded.id, joined = cell.joined OR excluded.joined`
})
