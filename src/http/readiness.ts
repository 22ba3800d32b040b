/** Whether the database can be reached and is migrated: what `GET /readyz` tells, and what a start waits for. */
import { Effect, Schedule } from "effect"
import { SqlClient } from "effect/sql"

/** Who asks is a machine with a time limit of its own. */
const LIMIT = "2 seconds"
const ASK_AGAIN_MS = 500

/** Fails where the process is not ready. */
export const isReady = Effect.flatMap(SqlClient.SqlClient, (sql) => sql`SELECT 1 FROM schema_migration LIMIT 1`).pipe(
  Effect.timeout(LIMIT),
  Effect.asVoid,
)

/** Done as soon as the process is ready. */
export const becomesReady = isReady.pipe(
  Effect.tapError((error) => Effect.logWarning("not ready", error)),
  Effect.retry(Schedule.spaced(ASK_AGAIN_MS)),
)
