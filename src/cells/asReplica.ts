import { Effect } from "effect"
import { SqlClient } from "effect/sql"

/** As a replica does: no trigger fires, and no foreign key is looked after, of which all the other rows go as well. */
export const asReplica = <A, E, R>(work: Effect.Effect<A, E, R>) =>
  Effect.flatMap(SqlClient.SqlClient, (sql) =>
    sql.withTransaction(Effect.andThen(sql`SELECT set_config('session_replication_role', 'replica', true)`, work)),
  )
