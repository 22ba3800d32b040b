/**
 * Moves clocks that are advancing: from one due instant to the next, each step a transaction, until the target. A worker
 * that dies is noticed by the next one, which finishes its charges and goes on from where the clock stands.
 */
import { Effect, Schedule } from "effect"
import { SqlClient } from "effect/sql"
import { ofTenant, refOf } from "../db/tenant.ts"
import { releasing, take } from "../process/lease.ts"
import { Runner } from "../process/Runner.ts"
import { onNotify, orElseUnlessStopped } from "../process/workers.ts"
import { fireOnClock, nextOnClock, type TimerHandler } from "../runtime/fire.ts"
import { type ClockRow, clockLease, clocks } from "./clock.ts"
import { CLOCK_CHANNEL, moveClock } from "./clocks.ts"

/** Clocks moved at once by one process: a step is mostly waiting for the database. */
const CLOCKS_AT_ONCE = 4
/** So that a long advance does not keep a short one waiting. */
const FIBERS = 2
/** Finds clocks whose notice was lost or whose worker died. */
const LOOK_EVERY_MS = 5_000
const RETRY_AFTER_MS = 200
/** An answer of a rail usually takes no longer. */
const LOOK_AGAIN_MS = 20

/** What fires on a clock, what finishes the charges that a dead worker left on it, and what sends its nudges. */
export interface ClockWork<R, E, R2, R3> {
  readonly handlers: ReadonlyArray<TimerHandler<R>>
  readonly recover: (clockId: string) => Effect.Effect<unknown, E, R2>
  readonly send: (clockId: string) => Effect.Effect<unknown, E, R3>
}

/** Takes the clocks that nobody moves. */
const takeClocks = Effect.flatMap(SqlClient.SqlClient, (sql) =>
  take(
    clockLease,
    ({ runner, isFree }) => sql<ClockRow>`
      UPDATE test_clock SET runner = ${runner}
      FROM (
        SELECT c.account_id, c.livemode, c.id FROM test_clock c
        WHERE c.state = 'advancing' AND ${isFree("c")}
        ORDER BY c.id LIMIT ${CLOCKS_AT_ONCE} FOR UPDATE SKIP LOCKED
      ) free
      WHERE (test_clock.account_id, test_clock.livemode, test_clock.id) = (free.account_id, free.livemode, free.id)
      RETURNING test_clock.*`,
  ),
)

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
const step = Effect.fnUntraced(function* <R>(handlers: ReadonlyArray<TimerHandler<R>>, clock: ClockRow) {
  const sql = yield* SqlClient.SqlClient
  const work = Effect.gen(function* () {
    const row = yield* lockMine(clock)
    if (row?.state !== "advancing") return ARRIVED
    const target = row.target_at!
    const next = yield* nextOnClock(refOf(row), target)
    if (next === undefined) {
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

/** Moves one clock until it arrives, or until a step has failed too often. */
const run = Effect.fn("clock.run")(function* <R, E, R2, R3>(work: ClockWork<R, E, R2, R3>, clock: ClockRow) {
  const whole = Effect.uninterruptible(Effect.tap(step(work.handlers, clock), () => work.send(clock.id)))
  let more = true
  while (more) {
    more = yield* awaitSent(work, clock).pipe(
      Effect.andThen(Effect.repeat(whole, { until: (again) => !again })),
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

const runAll = Effect.fnUntraced(function* <R, E, R2, R3>(work: ClockWork<R, E, R2, R3>) {
  for (;;) {
    const taken = yield* takeClocks
    if (taken.length === 0) return
    yield* Effect.forEach(taken, (clock) => releasing(clockLease, [clock], run(work, clock)), {
      concurrency: CLOCKS_AT_ONCE,
      discard: true,
    })
  }
})

/** Moves clocks for as long as the scope is open. */
export const clockWorker = <R, E, R2, R3>(work: ClockWork<R, E, R2, R3>) =>
  onNotify("clocks", CLOCK_CHANNEL, LOOK_EVERY_MS, runAll(work), FIBERS)
