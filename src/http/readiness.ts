/**
 * Whether this process can do its work: the database is reached, migrated and takes writes, and its clock agrees with this machine's.
 * `GET /readyz` tells it, and a start waits for it.
 */
import { Data, Effect, Schedule } from "effect"
import { SqlClient } from "effect/sql"
import { isUnwritable, sqlStateOf } from "../postgres/errors.ts"
import { DatabaseClock } from "../process/DatabaseClock.ts"
import { lastAnswer } from "../process/lastAnswer.ts"

/** Who asks is a machine with a time limit of its own. */
const LIMIT = "2 seconds"
const ASK_AGAIN_MS = 500
/** For how long what was found is said again: anybody may ask, as often as they like, and each look is a write. */
const AGE_MS = 1_000

const READ_ONLY = "25006"
/** There is no table, or no function, of that name. */
const NOT_THERE = ["42P01", "42883"]

/** What `GET /readyz` says. */
export interface Readiness {
  readonly status:
    | "ready"
    | "database unreachable"
    | "database not migrated"
    | "database read-only"
    | "database full"
    | "clocks disagree"
  /** What the operator is to do, where the log is not the only place that says it. */
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

/** Tries a write, which is rolled back (migrations/0049). */
const write = Effect.flatMap(
  SqlClient.SqlClient,
  (sql) => sql`SELECT write_probe() FROM schema_migration LIMIT 1`,
).pipe(
  Effect.mapError((error) => {
    if (NOT_THERE.includes(sqlStateOf(error) ?? "")) return unmigrated
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

/** The clock has its own line in the log. */
const clock = Effect.flatMap(DatabaseClock, ({ disagreement }) =>
  Effect.flatMap(disagreement, (message) =>
    message === undefined
      ? Effect.void
      : Effect.fail(new NotReady({ readiness: { status: "clocks disagree", message }, message })),
  ),
)

const look = Effect.andThen(write, clock)

/** Done as soon as the process is ready. */
export const becomesReady = Effect.retry(look, Schedule.spaced(ASK_AGAIN_MS))

/** Makes what tells how ready the process is; it looks once for all who ask within a second. */
export const createReadiness = lastAnswer(
  AGE_MS,
  Effect.match(look, {
    onSuccess: (): Readiness => ({ status: "ready" }),
    onFailure: (error): Readiness => (error._tag === "NotReady" ? error.readiness : { status: "database unreachable" }),
  }),
)
