import { Effect } from "effect"
import { SqlClient } from "effect/sql"

/** Runs `work` in a transaction without triggers and foreign key checks, as a replica does. The caller writes all related rows too. */
export const asReplica = <A, E, R>(work: Effect.Effect<A, E, R>) =>
  Effect.flatMap(SqlClient.SqlClient, (sql) =>
    sql.withTransaction(Effect.andThen(sql`SELECT set_config('session_replication_role', 'replica', true)`, work)),
  )
