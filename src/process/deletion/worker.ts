/** The deletion worker runs deletions batch by batch: account after account, and the deletions of one account one after the other. */
import { Cause, Effect } from "effect"
import { SqlClient, SqlError } from "effect/sql"
import type { Fragment } from "effect/sql/Statement"
import { roundRobin } from "../../concurrency/roundRobin.ts"
import { isRef, staysHere } from "../../db/tenant.ts"
import { onNotify } from "../Listener.ts"
import { orElseUnlessStopped } from "../workers.ts"
import { DELETED_CHANNEL, DELETION_CHANNEL, type Deletion, payloadOf, type Step } from "./deletion.ts"

/**
 * How many rows one transaction deletes, besides dependent rows (deliveries, payment methods): some milliseconds of work. It takes longer when
 * foreign keys are checked in an index full of deleted entries, which cannot be cleaned while an old transaction is open (a backup, for
 * example): then batches get smaller, so that each stays short.
 */
const MAX_ROWS = 1_000
const MIN_ROWS = 10
const SLOW_MS = 250
/** How many batches run in a process at the same time: enough to finish, and few enough to leave the database to others. */
const FIBERS = 2
/** Finds work left by a lost notification, a dead process or a failure; a look costs one statement. */
const LOOK_EVERY_MS = 1_000
/** A row that stays locked for longer is left for a later batch, before the database would see a deadlock (after 1 s). */
const LOCK_LIMIT_MS = 500
/** How long a deletion pauses after a failed batch: shortly if a row was locked, longer after other failures. */
const BUSY_FOR = "100 milliseconds"
const RESTARTED_FOR = "1 second"
const FAILED_FOR = "10 seconds"

/** Returns the steps of a deletion, in an order that violates no foreign key. */
export type StepsOf = (deletion: Deletion) => ReadonlyArray<Step>

/** Deletes up to `maxRows` rows of a locked deletion, and the deletion itself when nothing is left. */
const deleteSome = Effect.fnUntraced(function* (stepsOf: StepsOf, deletion: Deletion, maxRows: number) {
  const sql = yield* SqlClient.SqlClient
  const steps = stepsOf(deletion)
  let at = Math.max(
    steps.findIndex(({ name }) => name === deletion.step),
    0,
  )
  let after = deletion.deleted_to
  for (let left = maxRows; left > 0 && at < steps.length; ) {
    const { rows, to } = yield* steps[at]!.run(deletion, after, left)
    left -= rows
    if (to === null) at++
    after = to ?? ""
  }
  // The counts of states are made again from the rows that are left (src/runtime/recounting.ts).
  const { account_id, livemode } = deletion
  yield* sql`INSERT INTO state_outdated (account_id, livemode) VALUES (${account_id}, ${livemode}) ON CONFLICT DO NOTHING`
  if (at < steps.length) {
    yield* sql`
      UPDATE deletion SET step = ${steps[at]!.name}, deleted_to = ${after}, turn_at = now() WHERE ${isRef(sql, deletion)}`
    return
  }
  yield* sql`DELETE FROM deletion WHERE ${isRef(sql, deletion)}`
  yield* sql`SELECT pg_notify(${DELETED_CHANNEL}, ${payloadOf(deletion)})`
})

/**
 * Postpones a deletion whose batch failed, so that others come first. If a worker has meanwhile added rows to tables already processed, a
 * foreign key fails, and the deletion starts again.
 */
const postpone = Effect.fnUntraced(function* (deletion: Deletion, cause: Cause.Cause<unknown>) {
  const sql = yield* SqlClient.SqlClient
  const error = Cause.squash(cause)
  const reason = SqlError.isSqlError(error) ? error.reason._tag : undefined
  const of = { account: deletion.account_id, deletion: deletion.id, step: deletion.step }
  const until = (wait: string) => sql`turn_at = now() + ${wait}::interval`
  const put = (set: Fragment) => sql`UPDATE deletion SET ${set} WHERE ${isRef(sql, deletion)}`
  if (reason === "LockTimeoutError") {
    yield* put(until(BUSY_FOR))
  } else if (reason === "ConstraintError") {
    yield* Effect.logInfo("a deletion starts again", of, cause)
    yield* put(sql`${until(RESTARTED_FOR)}, step = '', deleted_to = ''`)
  } else {
    yield* Effect.logError("a batch of a deletion failed", of, cause)
    yield* put(until(FAILED_FOR))
  }
})

/** The maximum rows of the next batch, from the size and duration of the last one. */
export const nextSize = (rows: number, ms: number, maxRows = MAX_ROWS): number =>
  ms > SLOW_MS ? Math.max(Math.ceil(rows / 4), MIN_ROWS) : Math.min(rows * 2, maxRows)

/** Creates a program that deletes the next batch in turn, and returns whether there was one. */
export const deletionBatches = (stepsOf: StepsOf, maxRows = MAX_ROWS) => {
  const nextTurn = roundRobin()
  let rows = maxRows
  return Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    let taken: Deletion | undefined
    const startedAt = performance.now()
    const batch = Effect.gen(function* () {
      // Foreign keys are checked with plans for the rows left in a table, not for those that it had.
      yield* sql`
        SELECT set_config('lock_timeout', ${String(LOCK_LIMIT_MS)}, true), set_config('plan_cache_mode', 'auto', true)`
      taken = yield* nextTurn(
        (account) => sql<Deletion>`
          SELECT account_id, livemode, id, step, deleted_to FROM deletion d
          WHERE account_id > ${account} AND (turn_at IS NULL OR turn_at <= now()) AND ${staysHere(sql, "d")}
          ORDER BY account_id, turn_at NULLS FIRST LIMIT 1 FOR UPDATE SKIP LOCKED`,
      )
      if (taken !== undefined) yield* deleteSome(stepsOf, taken, rows)
    })
    yield* sql
      .withTransaction(batch)
      .pipe(orElseUnlessStopped((cause) => (taken === undefined ? Effect.failCause(cause) : postpone(taken, cause))))
    rows = nextSize(rows, performance.now() - startedAt, maxRows)
    return taken !== undefined
  })
}

/** Runs deletions while the scope is open. */
export const deletionWorker = (stepsOf: StepsOf) =>
  onNotify(
    "deletions",
    DELETION_CHANNEL,
    LOOK_EVERY_MS,
    Effect.repeat(deletionBatches(stepsOf), { while: (found) => found }),
    FIBERS,
  )
