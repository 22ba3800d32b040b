/**
 * Moves clocks that are advancing: from one due instant to the next, each step a transaction, until the target. A worker
 * that dies is noticed by the next one, which finishes its charges and goes on from where the clock stands. Clocks take
 * turns: one that others wait for goes back into the queue after a second or so.
 */
import { Effect, Schedule, Semaphore } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import { isRef, ofTenant, type Ref, refOf, staysHere } from "../db/tenant.ts"
import { releasing, take, takingOf } from "../process/lease.ts"
import { Runner } from "../process/Runner.ts"
import { onNotify, orElseUnlessStopped } from "../process/workers.ts"
import { fireOnClock, nextOnClock, type TimerHandler } from "../runtime/fire.ts"
import { SECOND_MS } from "../time.ts"
import { type ClockRow, clockLease, clocks } from "./clock.ts"
import { CLOCK_CHANNEL, moveClock } from "./clocks.ts"

/** Clocks moved at once by one process: a step is mostly waiting for the database. */
const SLOTS = 8
/** Of these, as many are one account's at most: the others have room at once, and the database has time for requests. */
const SHARE = 3
/** A clock that others wait for makes room after it, between two steps. */
const SLICE_MS = SECOND_MS
/** Finds clocks whose notice was lost or whose worker died. */
const LOOK_EVERY_MS = 5_000
const RETRY_AFTER_MS = 200
/** An answer of a rail usually takes no longer. */
const LOOK_AGAIN_MS = 20

/**
 * What fires on a clock, what finishes the charges that a dead worker left on it, what sends its nudges, and what is done step
 * by step before it arrives (returns whether there is more of that).
 */
export interface ClockWork<R, E, R2, R3> {
  readonly handlers: ReadonlyArray<TimerHandler<R>>
  readonly recover: (clockId: string) => Effect.Effect<unknown, E, R2>
  readonly send: (clockId: string) => Effect.Effect<unknown, E, R3>
  readonly arrive: (clock: Ref, at: number) => Effect.Effect<boolean, SqlError.SqlError, SqlClient.SqlClient>
}

/**
 * Takes up to so many clocks that nobody moves: those of accounts with the fewest moving clocks first, then those that have
 * waited longest. No more than its share of any account.
 */
export const takeClocks = Effect.fnUntraced(function* (free: number) {
  const sql = yield* SqlClient.SqlClient
  return yield* take(
    clockLease,
    ({ runner, isFree }) => sql<ClockRow>`
      WITH advancing AS MATERIALIZED (
        SELECT c.account_id, c.livemode, c.id, c.waiting_since, c.runner, ${isFree("c")} AS free FROM test_clock c
        WHERE c.state = 'advancing' AND ${staysHere(sql, "c")}
      ), queue AS MATERIALIZED (
        SELECT *, row_number() OVER (PARTITION BY account_id, free ORDER BY waiting_since NULLS FIRST) AS place,
          count(*) FILTER (WHERE NOT free) OVER (PARTITION BY account_id) AS moving,
          count(*) FILTER (WHERE NOT free AND runner = ${runner}) OVER (PARTITION BY account_id) AS here
        FROM advancing
      )
      UPDATE test_clock SET runner = ${runner}
      FROM (
        SELECT c.account_id, c.livemode, c.id
        FROM queue q JOIN test_clock c ON (c.account_id, c.livemode, c.id) = (q.account_id, q.livemode, q.id)
        WHERE q.free AND q.here + q.place <= ${SHARE} AND c.state = 'advancing' AND ${isFree("c")}
        ORDER BY q.moving + q.place, q.waiting_since NULLS FIRST LIMIT ${free} FOR UPDATE OF c SKIP LOCKED
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
  const { id } = yield* Runner
  yield* sql`
    UPDATE test_clock SET runner = NULL, waiting_since = clock_timestamp()
    WHERE ${isRef(sql, clock)} AND runner = ${id} AND state = 'advancing'`
})

/**
 * Time does not move while a rail or a messenger is being talked to: charges and nudges of requests that were under way
 * when the advance began are settled first, by whoever sent them, or by us where that process is dead.
 */
const awaitSent = Effect.fnUntraced(function* <R, E, R2, R3>(
  { recover, send }: ClockWork<R, E, R2, R3>,
  clock: ClockRow,
) {
  const sql = yield* SqlClient.SqlClient
  const mine = sql`${ofTenant(sql, clock)} AND test_clock_id = ${clock.id}`
  const underWay = Effect.andThen(
    Effect.andThen(recover(clock.id), send(clock.id)),
    sql`
      (SELECT 1 FROM charge WHERE ${mine} AND runner IS NOT NULL LIMIT 1)
      UNION ALL (SELECT 1 FROM nudge WHERE ${mine} AND state = 'sending' LIMIT 1)`,
  )
  yield* Effect.repeat(underWay, { until: (found) => found.length === 0, schedule: Schedule.spaced(LOOK_AGAIN_MS) })
})

/** The clock, locked, as long as this process moves it. */
const lockMine = Effect.fnUntraced(function* (clock: ClockRow) {
  const { id } = yield* Runner
  const [row] = yield* clocks.lock([refOf(clock)])
  return row?.runner === id ? row : undefined
})

const ARRIVED = { more: false, after: Effect.void }

/** One step: everything due at the next instant, or arrival. Returns whether there is more to do. */
const step = Effect.fnUntraced(function* <R, E, R2, R3>(
  { handlers, arrive }: ClockWork<R, E, R2, R3>,
  clock: ClockRow,
) {
  const sql = yield* SqlClient.SqlClient
  const work = Effect.gen(function* () {
    const row = yield* lockMine(clock)
    if (row?.state !== "advancing") return ARRIVED
    const target = row.target_at!
    const next = yield* nextOnClock(refOf(row), target)
    if (next === undefined) {
      if (yield* arrive(refOf(row), target)) return { more: true, after: Effect.void }
      yield* moveClock(row, { type: "arrived", at: target }, target, null)
      return ARRIVED
    }
    const at = Math.max(next.due_at, row.frozen_at)
    if (row.failed_steps > 0) yield* moveClock(row, { type: "step.recovered", at }, at, row.runner)
    else if (at !== row.frozen_at) yield* clocks.update([{ ...row, frozen_at: at }])
    return { more: true, after: yield* fireOnClock(handlers, refOf(row), next) }
  })
  const { more, after } = yield* sql.withTransaction(work)
  yield* after
  return more
})

const stepFailed = Effect.fnUntraced(function* (clock: ClockRow) {
  const sql = yield* SqlClient.SqlClient
  const work = Effect.gen(function* () {
    const row = yield* lockMine(clock)
    if (row === undefined) return false
    const moved = yield* moveClock(row, { type: "step.failed", at: row.frozen_at }, row.frozen_at, row.runner)
    return moved.state === "advancing"
  })
  return yield* sql.withTransaction(work)
})

/** Moves one clock until it arrives, until a step has failed too often, or until its time is over and others wait. */
const run = Effect.fn("clock.run")(function* <R, E, R2, R3>(work: ClockWork<R, E, R2, R3>, clock: ClockRow) {
  let sliceEndsAt = Date.now() + SLICE_MS
  const isOver = Effect.suspend(() => {
    if (Date.now() < sliceEndsAt) return Effect.succeed(false)
    sliceEndsAt = Date.now() + SLICE_MS
    return isAnyWaiting
  })
  const whole = Effect.uninterruptible(Effect.tap(step(work, clock), () => work.send(clock.id)))
  const steps = Effect.gen(function* () {
    while (yield* whole) if (yield* isOver) return yield* giveBack(clock)
  })
  let more = true
  while (more) {
    more = yield* awaitSent(work, clock).pipe(
      Effect.andThen(steps),
      Effect.as(false),
      orElseUnlessStopped((cause) =>
        Effect.logError("clock step failed", { clock: clock.id }, cause).pipe(
          Effect.andThen(stepFailed(clock)),
          Effect.tap(() => Effect.sleep(RETRY_AFTER_MS)),
        ),
      ),
    )
  }
})

/** Moves clocks for as long as the scope is open: a slot that is free is filled at once. */
export const clockWorker = Effect.fnUntraced(function* <R, E, R2, R3>(work: ClockWork<R, E, R2, R3>) {
  const scope = yield* Effect.scope
  const turn = yield* Semaphore.make(1)
  let free = SLOTS
  const move = (clock: ClockRow): Effect.Effect<void, never, R | R2 | R3 | SqlClient.SqlClient | Runner> =>
    releasing(clockLease, [clock], run(work, clock)).pipe(
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
