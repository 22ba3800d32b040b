/** Deletes what is to be deleted, batch by batch: account after account, and of one account's deletions one after the other. */
import { Cause, Effect } from "effect"
import { SqlClient, SqlError } from "effect/sql"
import type { Fragment } from "effect/sql/Statement"
import { roundRobin } from "../../concurrency/roundRobin.ts"
import { isRef, staysHere } from "../../db/tenant.ts"
import { onNotify } from "../Listener.ts"
import { orElseUnlessStopped } from "../workers.ts"
import { DELETED_CHANNEL, DELETION_CHANNEL, type Deletion, payloadOf, type Step } from "./deletion.ts"

/**
 * Rows that one transaction deletes, beside what hangs on them (deliveries, payment methods): some milliseconds of work. It is
 * more where foreign keys are looked after in an index full of what was deleted before, which nothing can clean while an old
 * transaction is open (a backup, say): then batches get smaller, so that each stays short.
 */
const MAX_ROWS = 1_000
const MIN_ROWS = 10
const SLOW_MS = 250
/** Batches under way at once in a process: deletions are to get done, and to leave the database to others. */
const FIBERS = 2
/** Finds what a lost notice, a dead process or a failure left; a look costs one statement. */
const LOOK_EVERY_MS = 1_000
/** A row that somebody holds longer is left for a later batch, before the database would see a deadlock (after 1 s). */
const LOCK_LIMIT_MS = 500
/** How long a deletion whose batch failed is left alone: until whoever is in its way is through; otherwise longer. */
const BUSY_FOR = "100 milliseconds"
const RESTARTED_FOR = "1 second"
const FAILED_FOR = "10 seconds"

/** The steps of what is deleted: one after the other, so that no foreign key stands in the way. */
export type StepsOf = (deletion: Deletion) => ReadonlyArray<Step>

/** Deletes up to `maxRows` rows of a locked deletion, and the deletion itself once nothing is left. */
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
  if (at < steps.length) {
    yield* sql`
      UPDATE deletion SET step = ${steps[at]!.name}, deleted_to = ${after}, turn_at = now() WHERE ${isRef(sql, deletion)}`
    return
  }
  yield* sql`DELETE FROM deletion WHERE ${isRef(sql, deletion)}`
  yield* sql`SELECT pg_notify(${DELETED_CHANNEL}, ${payloadOf(deletion)})`
})

/**
 * What becomes of a deletion whose batch failed: others come first. Where a worker that was in the middle of something has
 * added to what was deleted already, a foreign key says so, and it begins again.
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
    yield* Effect.logInfo("a deletion begins again", of, cause)
    yield* put(sql`${until(RESTARTED_FOR)}, step = '', deleted_to = ''`)
  } else {
    yield* Effect.logError("a batch of a deletion failed", of, cause)
    yield* put(until(FAILED_FOR))
  }
})

/** How many rows the next batch may have after one of `rows` that took so long. */
export const nextSize = (rows: number, ms: number, maxRows = MAX_ROWS): number =>
  ms > SLOW_MS ? Math.max(Math.ceil(rows / 4), MIN_ROWS) : Math.min(rows * 2, maxRows)

/** A program that deletes one batch, of what is next in turn, and returns whether there was anything to delete. */
export const deletionBatches = (stepsOf: StepsOf, maxRows = MAX_ROWS) => {
  const nextTurn = roundRobin()
  let rows = maxRows
  return Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    let taken: Deletion | undefined
    const startedAt = performance.now()
    const batch = Effect.gen(function* () {
      // Foreign keys are looked after by plans that suit what is left of a table, not what there was.
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

/** Deletes for as long as the scope is open. */
export const deletionWorker = (stepsOf: StepsOf) =>
  onNotify(
    "deletions",
    DELETION_CHANNEL,
    LOOK_EVERY_MS,
    Effect.repeat(deletionBatches(stepsOf), { while: (found) => found }),
    FIBERS,
  )
