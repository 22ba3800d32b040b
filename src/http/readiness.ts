/** Whether the database can be reached and written, and is migrated: what `GET /readyz` tells, and what a start waits for. */
import { Data, Effect, Schedule } from "effect"
import { SqlClient } from "effect/sql"
import { sqlStateOf } from "../db/sqlState.ts"

/** Who asks is a machine with a time limit of its own. */
const LIMIT = "2 seconds"
const ASK_AGAIN_MS = 500
/** For how long what was found is said again: anybody may ask, as often as they like. */
const AGE_MS = 1_000

const UNDEFINED_TABLE = "42P01"

/** What `GET /readyz` says. */
export type Readiness = "ready" | "database unreachable" | "database not migrated" | "database read-only"

class NotReady extends Data.TaggedError("NotReady")<{
  readonly readiness: Exclude<Readiness, "ready">
  readonly message: string
}> {}

const unmigrated = new NotReady({ readiness: "database not migrated", message: "The database is not migrated." })
const readOnly = new NotReady({
  readiness: "database read-only",
  message: "The database takes no writes: it is a standby, or set to be read only.",
})

const look = Effect.flatMap(
  SqlClient.SqlClient,
  (sql) => sql<{ writable: boolean }>`
    SELECT current_setting('transaction_read_only') = 'off' AS writable FROM schema_migration LIMIT 1`,
).pipe(
  Effect.catchIf(
    (error) => sqlStateOf(error) === UNDEFINED_TABLE,
    () => Effect.succeed([]),
  ),
  Effect.flatMap(([row]) =>
    row === undefined ? Effect.fail(unmigrated) : row.writable ? Effect.void : Effect.fail(readOnly),
  ),
  Effect.timeout(LIMIT),
  Effect.tapError((error) => Effect.logWarning("not ready", error)),
)

/** Done as soon as the process is ready. */
export const becomesReady = Effect.retry(look, Schedule.spaced(ASK_AGAIN_MS))

/** Makes what tells how ready the process is; it looks once for all who ask within a second. */
export const createReadiness = Effect.gen(function* () {
  const context = yield* Effect.context<SqlClient.SqlClient>()
  const readiness = Effect.match(look, {
    onSuccess: (): Readiness => "ready",
    onFailure: (error) => (error._tag === "NotReady" ? error.readiness : "database unreachable"),
  })
  let [askedAt, asked] = [Number.NEGATIVE_INFINITY, Promise.resolve<Readiness>("database unreachable")]
  // Of its own fiber: who hangs up takes nothing from the others.
  return Effect.promise(() => {
    const now = performance.now()
    if (now - askedAt >= AGE_MS) [askedAt, asked] = [now, Effect.runPromiseWith(context)(readiness)]
    return asked
  })
})
