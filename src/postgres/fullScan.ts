/** Transactions that read whole tables, as no request does. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

/** For the rest of the running transaction: no time limit, and the query plans that suit large parts of a table. */
export const withFullScans = Effect.flatMap(
  SqlClient.SqlClient,
  (sql) =>
    sql`SELECT set_config('statement_timeout', '0', true), set_config('enable_seqscan', 'on', true), set_config('enable_hashjoin', 'on', true)`,
)
