/**
 * Moves clocks that are advancing: from one due instant to the next, each step a transaction, until the target. A worker
 * that dies is noticed by the next one, which finishes its charges and goes on from where the clock stands.
 */
import { PgClient } from "@effect/sql-pg"
import { Effect, Queue, Schedule } from "effect"
import { SqlClient } from "effect/sql"
import { refOf } from "../db/tenant.ts"
import { isDead, Runner } from "../lifecycle/Runner.ts"
import { type AnyFiring, fireOnClock, nextOnClock } from "../timers/sweep.ts"
import { orElseUnlessStopped } from "../timers/TimerWorker.ts"
import { CLOCK_CHANNEL, type ClockRow, lockClock, moveClock } from "./Clocks.ts"

/** Clocks moved at once by one process: a step is mostly waiting for the database. */
const CLOCKS_AT_ONCE = 4
/** Finds clocks whose notice was lost or whose worker died. */
const LOOK_EVERY_MS = 5_000
const RETRY_AFTER_MS = 200
/** An answer of a rail usually takes no longer. */
const LOOK_AGAIN_MS = 20

/** What fires on a clock, what finishes the charges that a dead worker left on it, and what sends its nudges. */
export interface ClockWork<R, E, R2, R3> {
  readonly firings: ReadonlyArray<AnyFiring<R>>
  readonly recover: (clockId: string) => Effect.Effect<unknown, E, R2>
  readonly send: (clockId: string) => Effect.Effect<unknown, E, R3>
}

/** Takes the clocks that nobody moves. */
const takeClocks = Effect.gen(function* () {
  const { taking } = yield* Runner
  return yield* taking(take)
})

const take = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const { id: runner, clocks } = yield* Runner
  const taken = yield* sql<ClockRow>`
    UPDATE test_clock SET runner = ${runner}
    FROM (
      SELECT account_id, livemode, id FROM test_clock
      WHERE state = 'advancing' AND (runner IS NULL OR ${isDead(sql, "runner", runner)} OR runner = ${runner} AND NOT id = ANY(${[...clocks]}::text[]))
      ORDER BY id LIMIT ${CLOCKS_AT_ONCE} FOR UPDATE SKIP LOCKED
    ) free
    WHERE (test_clock.account_id, test_clock.livemode, test_clock.id) = (free.account_id, free.livemode, free.id)
    RETURNING test_clock.*`
  for (const { id } of taken) clocks.add(id)
  return taken
})

/**
 * Time does not move while a rail or a messenger is being talked to: charges and nudges of requests that were under way
 * when the advance began are settled first, by whoever sent them, or by us where that process is dead.
 */
const awaitSent = <R, E, R2, R3>({ recover, send }: ClockWork<R, E, R2, R3>, clock: ClockRow) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const mine = sql`account_id = ${clock.account_id} AND livemode = ${clock.livemode} AND test_clock_id = ${clock.id}`
    const underWay = Effect.andThen(
      Effect.andThen(recover(clock.id), send(clock.id)),
      sql`
        (SELECT 1 FROM charge WHERE ${mine} AND sender IS NOT NULL LIMIT 1) UNION ALL (SELECT 1 FROM nudge WHERE ${mine} AND state = 'sending' LIMIT 1)`,
    )
    yield* Effect.repeat(underWay, { until: (found) => found.length === 0, schedule: Schedule.spaced(LOOK_AGAIN_MS) })
  })

/** One step: everything due at the next instant, or arrival. Answers whether there is more to do. */
const step = <R>(firings: ReadonlyArray<AnyFiring<R>>, clock: ClockRow) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const { id: runner } = yield* Runner
    const { more, after } = yield* sql.withTransaction(
      Effect.gen(function* () {
        const row = yield* lockClock(clock, clock.id)
        if (row === undefined || row.state !== "advancing" || row.runner !== runner)
          return { more: false, after: Effect.void }
        const target = row.context.targetAt!
        const next = yield* nextOnClock(refOf(row), target)
        if (next === undefined) {
          yield* moveClock(row, { type: "arrived", at: target }, target, null)
          return { more: false, after: Effect.void }
        }
        const at = Math.max(next.due_at, row.frozen_at)
        if (row.context.failedSteps > 0) yield* moveClock(row, { type: "step.recovered", at }, at, runner)
        else if (at !== row.frozen_at) {
          yield* sql`
            UPDATE test_clock SET frozen_at = ${new Date(at)}
            WHERE account_id = ${row.account_id} AND livemode = ${row.livemode} AND id = ${row.id}`
        }
        return { more: true, after: yield* fireOnClock(firings, refOf(row), next) }
      }),
    )
    yield* after
    return more
  })

const stepFailed = (clock: ClockRow) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const { id: runner } = yield* Runner
    return yield* sql.withTransaction(
      Effect.gen(function* () {
        const row = yield* lockClock(clock, clock.id)
        if (row === undefined || row.runner !== runner) return false
        const moved = yield* moveClock(row, { type: "step.failed", at: row.frozen_at }, row.frozen_at, runner)
        return moved.state === "advancing"
      }),
    )
  })

/** Moves one clock until it arrives, or until a step has failed too often. */
const run = <R, E, R2, R3>(work: ClockWork<R, E, R2, R3>, clock: ClockRow) =>
  Effect.gen(function* () {
    const whole = Effect.uninterruptible(Effect.tap(step(work.firings, clock), () => work.send(clock.id)))
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

const letGo = (clock: ClockRow) => Effect.map(Runner, ({ clocks }) => void clocks.delete(clock.id))

const runAll = <R, E, R2, R3>(work: ClockWork<R, E, R2, R3>) =>
  Effect.gen(function* () {
    for (;;) {
      const clocks = yield* takeClocks
      if (clocks.length === 0) return
      yield* Effect.forEach(clocks, (clock) => run(work, clock).pipe(Effect.ensuring(letGo(clock))), {
        concurrency: CLOCKS_AT_ONCE,
        discard: true,
      })
    }
  })

/** Works for as long as the scope is open. */
export const clockWorker = <R, E, R2, R3>(work: ClockWork<R, E, R2, R3>) =>
  Effect.gen(function* () {
    const pg = yield* PgClient.PgClient
    const wake = yield* Queue.sliding<void>(1)
    const listen = Effect.scoped(
      Effect.gen(function* () {
        const notices = yield* pg.listen(CLOCK_CHANNEL)
        yield* Effect.forever(Effect.andThen(Queue.take(notices), Queue.offer(wake, undefined)))
      }),
    )
    yield* Effect.forkScoped(listen.pipe(Effect.ignore, Effect.repeat(Schedule.spaced(LOOK_EVERY_MS))))
    yield* Effect.forkScoped(Effect.repeat(Queue.offer(wake, undefined), Schedule.spaced(LOOK_EVERY_MS)))
    const attend = Effect.andThen(
      Queue.take(wake),
      runAll(work).pipe(orElseUnlessStopped((cause) => Effect.logError("clock worker", cause))),
    )
    // Two, so that a long advance does not keep a short one waiting.
    yield* Effect.forkScoped(Effect.forever(attend))
    yield* Effect.forkScoped(Effect.forever(attend))
  })
