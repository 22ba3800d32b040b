/** Accounts that are moving between this cell and another (src/cells/moveState.ts). */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

/** How many accounts a message names. */
const MAX_NAMED = 5

/** Reads the moving accounts whose move is not in these states. In `copying` and `opened` an account is written as usual. */
export const readMoving = Effect.fnUntraced(function* (except: ReadonlyArray<"copying" | "opened">) {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<{ account_id: string }>`
    SELECT account_id FROM account_move WHERE state <> ALL(${except}::text[]) ORDER BY account_id LIMIT ${MAX_NAMED}`
  return rows.map(({ account_id }) => account_id)
})
