/** The cell that a database belongs to (decision O1). Keys and links name it, so a process with another CELL must not start. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { Cell } from "../base/cell.ts"
import { ConfigProblem } from "../config/Config.ts"

export interface Identity {
  readonly id: string
  readonly joined: boolean
}

/** Reads the identity stored in the database; undefined before its first start. */
export const readIdentity = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<Identity>`SELECT id, joined FROM cell`
  return row
})

/** Fails if the database has joined a deployment as another cell than this process's CELL. */
export const requireCell = Effect.gen(function* () {
  const cell = yield* Cell
  const identity = yield* readIdentity
  if (identity?.joined === true && identity.id !== cell)
    return yield* new ConfigProblem({
      message: `CELL is ${cell}, and this database is the cell ${identity.id}: set CELL=${identity.id}.`,
    })
})

/** Stores this process's CELL as the database's cell. `joined` makes it permanent. */
export const nameCell = Effect.fnUntraced(function* (joined = false) {
  yield* requireCell
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    INSERT INTO cell (id, joined) VALUES (${yield* Cell}, ${joined})
    ON CONFLICT (only_row) DO UPDATE SET id = excluded.id, joined = cell.joined OR excluded.joined`
})
