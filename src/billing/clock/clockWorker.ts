/**
 * Moves clocks that are advancing (steps.ts). A worker that dies is noticed by the next one, which finishes its charges and goes on
 * within the window. Clocks take turns: one that others wait for goes back into the queue after a second or so.
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
import { awaitSent, type ClockWork, inLanes, numberByClock, step, stepFailed } from "./steps.ts"

/** Clocks moved at once by one process: a step is mostly waiting for the database. */
const SLOTS = 8
/** Of these, as many are one account's at most: the others have room at once, and the database has time for requests. */
const SHARE = 3
/**
 * The lanes that the clocks which one process moves have between them; each has one at least. Where no more is due within a window
 * than fires in one round, one is enough.
 */
const LANES = 4
/** A clock that others wait for makes room after it, between two steps. */
const SLICE_MS = SECOND_MS
/** Finds clocks whose notice was lost or whose worker died. */
const LOOK_EVERY_MS = 5_000
const RETRY_AFTER_MS = 200
/**
 * How often in a row a clock's step may lose its database before that counts as the step's own failure: far longer than a restart takes, and not for
 * ever, should it be the step that brings the database down.
 */
const MAX_LOST = 30
const LOST_AFTER_MS = SECOND_MS

/**
 * Takes up to so many clocks that nobody moves: those of accounts with the fewest moving clocks first, then those that have
 * waited longest. No more than its share of any account, of whose clocks no more are read than those that are moving and as many as may be.
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
        -- By key: written so, no index of those that are advancing stands in for it.
        WHERE q.here + q.place <= ${SHARE} AND c.state || '' = 'advancing' AND ${isFree("c")}
        ORDER BY q.everywhere + q.place, q.waiting_since NULLS FIRST LIMIT ${free} FOR UPDATE OF c SKIP LOCKED
      ) next
      WHERE (test_clock.account_id, test_clock.livemode, test_clock.id) = (next.account_id, next.livemode, next.id)
      RETURNING test_clock.*`,
  )
})

/** Whether a clock is waiting to be moved. */
const isAnyWaiting = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const { isFree } = yield* takingOf(clockLease)
  const waiting = yield* sql`SELECT 1 FROM test_clock c WHERE c.state = 'advancing' AND ${isFree("c")} LIMIT 1`
  return waiting.length > 0
})

/** Puts a clock back into the queue, as the last of its account's. */
const giveBack = Effect.fnUntraced(function* (clock: ClockRow) {
  const sql = yield* SqlClient.SqlClient
  const { id } = yield* ProcessLease
  yield* sql`
    UPDATE test_clock SET runner = NULL, waiting_since = clock_timestamp()
    WHERE ${isRef(sql, clock)} AND runner = ${id} AND state = 'advancing'`
})

/** Moves one clock until it arrives, until a step has failed too often, or until its time is over and others wait. */
const run = Effect.fn("clock.run")(function* <R, E, R2, R3>(
  work: ClockWork<R, E, R2, R3>,
  clock: ClockRow,
  lanesNow: () => number,
) {
  numberByClock(clock)
  let sliceEndsAt = performance.now() + SLICE_MS
  let over = false
  const isOver = Effect.gen(function* () {
    if (!over && performance.now() >= sliceEndsAt) {
      sliceEndsAt = performance.now() + SLICE_MS
      over = yield* isAnyWaiting
    }
    return over
  })
  let lost = 0
  const steps = Effect.gen(function* () {
    for (;;) {
      yield* untilClocksAgree
      const lanes = lanesNow()
      const next = yield* Effect.uninterruptible(step(work, clock, lanes))
      lost = 0
      if (next === "nothing") return
      if (next === "lanes") yield* inLanes(work, clock, lanes, isOver)
      if (yield* isOver) return yield* giveBack(clock)
    }
  })
  // Nothing is wrong with a step whose database went away.
  const failed = (cause: Cause.Cause<unknown>) =>
    isCertainlyRolledBack(cause) || ++lost > MAX_LOST
      ? Effect.logError("clock step failed", { clock: clock.id }, cause).pipe(
          Effect.andThen(stepFailed(clock)),
          Effect.tap(() => Effect.sleep(RETRY_AFTER_MS)),
        )
      : Effect.logWarning("a clock's step lost its database", { clock: clock.id }, cause).pipe(
          Effect.andThen(Effect.sleep(LOST_AFTER_MS)),
          Effect.as(true),
        )
  let more = true
  while (more) {
    more = yield* awaitSent(work, clock).pipe(Effect.andThen(steps), Effect.as(false), orElseUnlessStopped(failed))
  }
})

/** Moves clocks for as long as the scope is open: a slot that is free is filled at once. */
export const clockWorker = Effect.fnUntraced(function* <R, E, R2, R3>(work: ClockWork<R, E, R2, R3>) {
  const scope = yield* Effect.scope
  const turn = yield* Semaphore.make(1)
  let free = SLOTS
  // A power of two: customers are dealt out by their hash (src/runtime/clockBatches.ts).
  const lanesNow = () => 2 ** Math.floor(Math.log2(Math.max(1, LANES / (SLOTS - free))))
  const move = (clock: ClockRow): Effect.Effect<void, never, R | R2 | R3 | SqlClient.SqlClient | ProcessLease> =>
    releasing(clockLease, [clock], run(work, clock, lanesNow)).pipe(
      Effect.ensuring(Effect.sync(() => closeWindow(clock.id, clock))),
      Effect.ensuring(Effect.sync(() => free++)),
      Effect.andThen(Effect.suspend(() => fill)),
      // Whatever is left is found at the next look.
      orElseUnlessStopped((cause) => Effect.logError("a clock is left for later", { clock: clock.id }, cause)),
      Effect.ignoreCause,
    )
  const fill = turn.withPermits(1)(
    Effect.gen(function* () {
      if (free === 0) return
      const taken = yield* takeClocks(free)
      free -= taken.length
      for (const clock of taken) yield* Effect.forkIn(move(clock), scope)
    }),
  )
  yield* onNotify("clocks", CLOCK_CHANNEL, LOOK_EVERY_MS, fill)
})
