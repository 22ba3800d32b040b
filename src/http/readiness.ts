/**
 * Checks that this process can work: the database is reachable, migrated and writable, and its clock agrees with this machine's.
 * `GET /readyz` shows the result, and a start waits for it.
 */
import { Data, Effect, Schedule } from "effect"
import { SqlClient } from "effect/sql"
import { isUnwritable, sqlStateOf } from "../postgres/errors.ts"
import { DatabaseClock } from "../process/DatabaseClock.ts"
import { lastAnswer } from "../process/lastAnswer.ts"

/** Callers are machines with their own timeouts. */
const LIMIT = "2 seconds"
const RETRY_MS = 500
/** How long a result is reused: every caller may ask, without a rate limit, and each check is a write. */
const AGE_MS = 1_000

const READ_ONLY = "25006"
/** SQL states of a missing table and a missing function. */
const MISSING = ["42P01", "42883"]

/** The response of `GET /readyz`. */
export interface Readiness {
  readonly status:
    | "ready"
    | "database unreachable"
    | "database not migrated"
    | "database read-only"
    | "database full"
    | "clocks disagree"
  /** The instruction for the operator, if it is not only in the log. */
  readonly message?: string
}

class NotReady extends Data.TaggedError("NotReady")<{ readonly readiness: Readiness; readonly message: string }> {}

const notReady = (status: Readiness["status"], message: string) => new NotReady({ readiness: { status }, message })

const unmigrated = notReady("database not migrated", "The database is not migrated.")
const readOnly = notReady(
  "database read-only",
  "The database takes no writes: it is a standby, or set to be read only.",
)
const full = notReady("database full", "The database takes no writes: its disk or its memory is full.")

/** Tries a write, which is rolled back (migrations/0001_roles.sql). */
const write = Effect.flatMap(
  SqlClient.SqlClient,
  (sql) => sql`SELECT write_probe() FROM schema_migration LIMIT 1`,
).pipe(
  Effect.mapError((error) => {
    if (MISSING.includes(sqlStateOf(error) ?? "")) return unmigrated
    if (sqlStateOf(error) === READ_ONLY) return readOnly
    return isUnwritable(error) ? full : error
  }),
  Effect.filterOrFail(
    (rows) => rows.length > 0,
    () => unmigrated,
  ),
  Effect.timeout(LIMIT),
  Effect.tapError((error) => Effect.logWarning("not ready", error)),
)

/** Checks the clock, which logs its own line. */
const clock = Effect.flatMap(DatabaseClock, ({ disagreement }) =>
  Effect.flatMap(disagreement, (message) =>
    message === undefined
      ? Effect.void
      : Effect.fail(new NotReady({ readiness: { status: "clocks disagree", message }, message })),
  ),
)

const check = Effect.andThen(write, clock)

/** Waits until the process is ready. */
export const becomesReady = Effect.retry(check, Schedule.spaced(RETRY_MS))

/** Makes the readiness check of a process; callers within one second share one check. */
export const createReadiness = lastAnswer(
  AGE_MS,
  Effect.match(check, {
    onSuccess: (): Readiness => ({ status: "ready" }),
    onFailure: (error): Readiness => (error._tag === "NotReady" ? error.readiness : { status: "database unreachable" }),
  }),
)
