/**
 * Advances test clocks (steps.ts). If a worker dies, another takes its clock over, finishes its charges and continues within the window.
 * Clocks take turns: a clock that others wait for returns to the queue after about a second.
 */
import { type Cause, Effect, Semaphore } from "effect"
import { SqlClient } from "effect/sql"
import { closeWindow } from "../../base/ids.ts"
import { SECOND_MS } from "../../base/time.ts"
import { isRef, staysHere } from "../../db/tenant.ts"
import { isCertainlyRolledBack } from "../../postgres/rollback.ts"
import { onNotify } from "../../process/Listener.ts"
import { releasing, take, takingOf } from "../../process/lease.ts"
import { ProcessLease } from "../../process/ProcessLease.ts"
import { orElseUnlessStopped, untilClocksAgree } from "../../process/workers.ts"
import { type ClockRow, clockLease } from "./clock.ts"
import { CLOCK_CHANNEL } from "./clocks.ts"
import { awaitSent, type ClockWork, numberByClock, runInShards, step, stepFailed } from "./steps.ts"

/** Clocks that one process advances concurrently: a step mostly waits for the database. */
const SLOTS = 8
/** Limit of one account's clocks among these: other accounts get a slot immediately, and the database has time for requests. */
const SHARE = 3
/**
 * Shards that all clocks of one process divide among them; each clock has at least one. One shard is enough if the timers due within a
 * window fit in one batch.
 */
const SHARDS = 4
/** After this time, a clock that others wait for makes room, between two steps. */
const SLICE_MS = SECOND_MS
/** Finds clocks whose notification was lost or whose worker died. */
const LOOK_EVERY_MS = 5_000
const CLOCK_RETRY_MS = 200
/**
 * Limit of consecutive steps of a clock that lose the database before the loss counts as a failure of the step. Far longer than a restart
 * takes; finite, in case the step itself brings the database down.
 */
const MAX_LOSSES = 30
const RETRY_LOSS_AFTER_MS = SECOND_MS

/**
 * Takes up to `free` clocks that no process advances: first those of accounts with the fewest advancing clocks, then those that have waited
 * longest. Takes at most SHARE clocks of one account, and reads no more of its clocks than those being advanced plus SHARE.
 */
export const takeClocks = Effect.fnUntraced(function* (free: number) {
  const sql = yield* SqlClient.SqlClient
  return yield* take(
    clockLease,
    ({ runner, isFree }) => sql<ClockRow>`
      WITH RECURSIVE whose AS (
        (SELECT account_id FROM test_clock WHERE state = 'advancing' ORDER BY account_id LIMIT 1)
        UNION ALL
        SELECT (
          SELECT c.account_id FROM test_clock c WHERE c.state = 'advancing' AND c.account_id > w.account_id ORDER BY c.account_id LIMIT 1
        ) FROM whose w WHERE w.account_id IS NOT NULL
      ), moving AS MATERIALIZED (
        SELECT c.account_id, count(*) AS everywhere, count(*) FILTER (WHERE c.runner = ${runner}) AS here FROM test_clock c
        WHERE c.state = 'advancing' AND c.runner IS NOT NULL AND NOT ${isFree("c")} GROUP BY c.account_id
      ), queue AS MATERIALIZED (
        SELECT w.account_id, f.*, coalesce(m.everywhere, 0) AS everywhere, coalesce(m.here, 0) AS here,
          row_number() OVER (PARTITION BY w.account_id ORDER BY f.waiting_since NULLS FIRST) AS place
        FROM whose w LEFT JOIN moving m USING (account_id) CROSS JOIN LATERAL (
          SELECT c.livemode, c.id, c.waiting_since FROM test_clock c
          WHERE c.account_id = w.account_id AND c.state = 'advancing' AND ${isFree("c")}
          ORDER BY c.waiting_since NULLS FIRST LIMIT ${SHARE}
        ) f
        WHERE ${staysHere(sql, "w")}
      )
      UPDATE test_clock SET runner = ${runner}
      FROM (
        SELECT c.account_id, c.livemode, c.id
        FROM queue q JOIN test_clock c ON (c.account_id, c.livemode, c.id) = (q.account_id, q.livemode, q.id)
        -- By key: the concatenation keeps the planner from using an index of advancing clocks.
        WHERE q.here + q.place <= ${SHARE} AND c.state || '' = 'advancing' AND ${isFree("c")}
        ORDER BY q.everywhere + q.place, q.waiting_since NULLS FIRST LIMIT ${free} FOR UPDATE OF c SKIP LOCKED
      ) next
      WHERE (test_clock.account_id, test_clock.livemode, test_clock.id) = (next.account_id, next.livemode, next.id)
      RETURNING test_clock.*`,
  )
})

/** Whether a clock is waiting to be advanced. */
const isAnyWaiting = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const { isFree } = yield* takingOf(clockLease)
  const waiting = yield* sql`SELECT 1 FROM test_clock c WHERE c.state = 'advancing' AND ${isFree("c")} LIMIT 1`
  return waiting.length > 0
})

/** Returns a clock to the queue, behind its account's other clocks. */
const giveBack = Effect.fnUntraced(function* (clock: ClockRow) {
  const sql = yield* SqlClient.SqlClient
  const { id } = yield* ProcessLease
  yield* sql`
    UPDATE test_clock SET runner = NULL, waiting_since = clock_timestamp()
    WHERE ${isRef(sql, clock)} AND runner = ${id} AND state = 'advancing'`
})

/** Advances one clock until it arrives, until a step has failed too often, or until its slice is over and others wait. */
const run = Effect.fn("clock.run")(function* <R, E, R2, R3>(
  work: ClockWork<R, E, R2, R3>,
  clock: ClockRow,
  shardsNow: () => number,
) {
  numberByClock(clock)
  let sliceEndsAt = performance.now() + SLICE_MS
  let sliceOver = false
  const isOver = Effect.gen(function* () {
    if (!sliceOver && performance.now() >= sliceEndsAt) {
      sliceEndsAt = performance.now() + SLICE_MS
      sliceOver = yield* isAnyWaiting
    }
    return sliceOver
  })
  let losses = 0
  const steps = Effect.gen(function* () {
    for (;;) {
      yield* untilClocksAgree
      const shards = shardsNow()
      const next = yield* Effect.uninterruptible(step(work, clock, shards))
      losses = 0
      if (next === "nothing") return
      if (next === "shards") yield* runInShards(work, clock, shards, isOver)
      if (yield* isOver) return yield* giveBack(clock)
    }
  })
  // The loss of the database is not the step's own failure.
  const failed = (cause: Cause.Cause<unknown>) =>
    isCertainlyRolledBack(cause) || ++losses > MAX_LOSSES
      ? Effect.logError("clock step failed", { clock: clock.id }, cause).pipe(
          Effect.andThen(stepFailed(clock)),
          Effect.tap(() => Effect.sleep(CLOCK_RETRY_MS)),
        )
      : Effect.logWarning("a clock step lost the database", { clock: clock.id }, cause).pipe(
          Effect.andThen(Effect.sleep(RETRY_LOSS_AFTER_MS)),
          Effect.as(true),
        )
  let more = true
  while (more) {
    more = yield* awaitSent(work, clock).pipe(Effect.andThen(steps), Effect.as(false), orElseUnlessStopped(failed))
  }
})

/** Advances clocks for as long as the scope is open; fills a free slot immediately. */
export const clockWorker = Effect.fnUntraced(function* <R, E, R2, R3>(work: ClockWork<R, E, R2, R3>) {
  const scope = yield* Effect.scope
  const fillLock = yield* Semaphore.make(1)
  let free = SLOTS
  // A power of two: customers are assigned to shards by their hash (src/runtime/clockBatches.ts).
  const shardsNow = () => 2 ** Math.floor(Math.log2(Math.max(1, SHARDS / (SLOTS - free))))
  const advanceOne = (clock: ClockRow): Effect.Effect<void, never, R | R2 | R3 | SqlClient.SqlClient | ProcessLease> =>
    releasing(clockLease, [clock], run(work, clock, shardsNow)).pipe(
      Effect.ensuring(Effect.sync(() => closeWindow(clock.id, clock))),
      Effect.ensuring(Effect.sync(() => free++)),
      Effect.andThen(Effect.suspend(() => fill)),
      // The next look finds the clock again.
      orElseUnlessStopped((cause) =>
        Effect.logError("a clock cannot be advanced now and is retried later", { clock: clock.id }, cause),
      ),
      Effect.ignoreCause,
    )
  const fill = fillLock.withPermits(1)(
    Effect.gen(function* () {
      if (free === 0) return
      const taken = yield* takeClocks(free)
      free -= taken.length
      for (const clock of taken) yield* Effect.forkIn(advanceOne(clock), scope)
    }),
  )
  yield* onNotify("clocks", CLOCK_CHANNEL, LOOK_EVERY_MS, fill)
})
