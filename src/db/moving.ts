/** Accounts that are on their way between this cell and another (src/cells/standing.ts). */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

/** As many as a message can name. */
const MAX_NAMED = 5

/** Those whose move stands elsewhere than at these: `copying` and `opened` are those at which they are written as ever. */
export const readMoving = Effect.fnUntraced(function* (but: ReadonlyArray<"copying" | "opened">) {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<{ account_id: string }>`
    SELECT account_id FROM account_move WHERE state <> ALL(${but}::text[]) ORDER BY account_id LIMIT ${MAX_NAMED}`
  return rows.map(({ account_id }) => account_id)
})
