/**
 * The steps of one clock that is advancing (decision M7): from one window of its time to the next, in each of them round by round,
 * each round a transaction, until the target. Which clock is moved when is the worker's affair (clockWorker.ts).
 */
import { Effect, Schedule } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import { closeWindow, opensAt, openWindow } from "../../base/ids.ts"
import { DAY_MS } from "../../base/time.ts"
import type { LockMode } from "../../db/statementTexts.ts"
import { ofTenant, type Ref, refOf } from "../../db/tenant.ts"
import { unitOfWork } from "../../db/UnitOfWork.ts"
import { ProcessLease } from "../../process/ProcessLease.ts"
import { batchOf, fireBatch, MANY, nextOnClock, ONE_SHARD, type Shard } from "../../runtime/clockBatches.ts"
import type { AfterCommit, TimerHandler } from "../../runtime/fire.ts"
import { type ClockRow, clocks } from "./clock.ts"
import { transitionClock } from "./clocks.ts"

/** How much time a clock goes through at once: one in which each instant has its own number (src/base/ids.ts). */
const WINDOW_MS = DAY_MS - 1
/** An answer of a rail usually takes no longer. */
const LOOK_AGAIN_MS = 20

/**
 * What fires on a clock, what finishes the charges that a dead worker left on it, what sends its nudges, and what is done step
 * by step before it arrives (returns whether there is more of that).
 */
export interface ClockWork<R, E, R2, R3> {
  readonly handlers: ReadonlyArray<TimerHandler<R>>
  readonly recover: (clockId: string) => Effect.Effect<unknown, E, R2>
  readonly send: (clockId: string, lane: Shard) => Effect.Effect<unknown, E, R3>
  readonly arrive: (clock: Ref, at: number) => Effect.Effect<boolean, SqlError.SqlError, SqlClient.SqlClient>
}

/**
 * Time does not move while a rail or a messenger is being talked to: charges and nudges of requests that were under way
 * when the advance began are settled first, by whoever sent them, or by us where that process is dead.
 */
export const awaitSent = Effect.fnUntraced(function* <R, E, R2, R3>(
  { recover, send }: ClockWork<R, E, R2, R3>,
  clock: ClockRow,
) {
  const sql = yield* SqlClient.SqlClient
  const mine = sql`${ofTenant(sql, clock)} AND test_clock_id = ${clock.id}`
  const underWay = Effect.andThen(
    Effect.andThen(recover(clock.id), send(clock.id, ONE_SHARD)),
    sql`
      (SELECT 1 FROM charge WHERE ${mine} AND runner IS NOT NULL LIMIT 1)
      UNION ALL (SELECT 1 FROM nudge WHERE ${mine} AND state = 'sending' LIMIT 1)`,
  )
  yield* Effect.repeat(underWay, { until: (found) => found.length === 0, schedule: Schedule.spaced(LOOK_AGAIN_MS) })
})

/** The clock, locked, as long as this process moves it. */
const lockMine = Effect.fnUntraced(function* (clock: ClockRow, mode: LockMode = "UPDATE") {
  const { id } = yield* ProcessLease
  const [row] = yield* clocks.lock([refOf(clock)], mode)
  return row?.runner === id ? row : undefined
})

/** The window in which `at` falls: the present one, or one that begins with it. */
const windowAt = (row: ClockRow, at: number) => {
  const { frozen_at, window_to_at, window_opened_at } = row
  if (window_to_at !== null && window_opened_at !== null && at <= window_to_at)
    return { frozen_at, window_to_at, window_opened_at }
  const from = Math.max(at, frozen_at)
  return {
    frozen_at: from,
    window_to_at: Math.min(from + WINDOW_MS, row.target_at!),
    window_opened_at: opensAt(window_opened_at),
  }
}

/** IDs of what is made on the clock are in the order of its time, for as long as the run over it lasts that `clock` is of. */
export const numberByClock = (
  clock: ClockRow,
  { frozen_at, window_opened_at }: Pick<ClockRow, "frozen_at" | "window_opened_at"> = clock,
) => {
  if (window_opened_at !== null) openWindow(clock.id, clock, { fromAt: frozen_at, openedAt: window_opened_at })
}

/** What comes after a step: nothing, another one, or the rest of the window in lanes. */
interface Stepped<R> {
  readonly next: "nothing" | "step" | "lanes"
  readonly after: AfterCommit<R>
}

const ARRIVED: Stepped<never> = { next: "nothing", after: Effect.void }

/** The clock stands at its target, once all that is to be done before is done. */
const arriveAt = Effect.fnUntraced(function* <R, E, R2, R3>(
  { arrive }: ClockWork<R, E, R2, R3>,
  clock: ClockRow,
  row: ClockRow,
  target: number,
) {
  if (yield* arrive(refOf(row), target)) return { ...ARRIVED, next: "step" as const }
  closeWindow(row.id, clock)
  const standing = { frozen_at: target, window_to_at: null, window_opened_at: null, runner: null }
  yield* transitionClock(row, { type: "arrived", at: target }, standing)
  return ARRIVED
})

/** Fires what is next in a lane, within the window that is open; returns whether there was anything. */
const laneStep = Effect.fnUntraced(function* <R, E, R2, R3>(
  { handlers, send }: ClockWork<R, E, R2, R3>,
  clock: ClockRow,
  lane: Shard,
) {
  const sql = yield* SqlClient.SqlClient
  const work = Effect.gen(function* () {
    const row = yield* lockMine(clock, "SHARE")
    if (row?.state !== "advancing") return undefined
    const round = batchOf(yield* nextOnClock(refOf(row), row.window_to_at!, lane))
    return round.length === 0 ? undefined : yield* fireBatch(handlers, refOf(row), round)
  })
  const after = yield* sql.withTransaction(work)
  if (after === undefined) return false
  yield* after
  yield* send(clock.id, lane)
  return true
})

/**
 * One step: a round of what is due within the clock's window, or arrival; where much is due, no more than opening the window,
 * which is gone through in lanes.
 */
export const step = Effect.fnUntraced(function* <R, E, R2, R3>(
  clockWork: ClockWork<R, E, R2, R3>,
  clock: ClockRow,
  lanes: number,
) {
  const sql = yield* SqlClient.SqlClient
  const { handlers, send } = clockWork
  const work = Effect.gen(function* () {
    const row = yield* lockMine(clock)
    if (row?.state !== "advancing") return ARRIVED
    const next = yield* nextOnClock(refOf(row), row.target_at!, ONE_SHARD)
    const [first] = next
    if (first === undefined) return yield* arriveAt(clockWork, clock, row, row.target_at!)
    const window = windowAt(row, first.due_at)
    if (row.failed_steps > 0) yield* transitionClock(row, { type: "step.recovered", at: window.frozen_at }, window)
    else if (window.window_opened_at !== row.window_opened_at)
      (yield* unitOfWork).update(clocks, [{ before: row, after: { ...row, ...window } }])
    numberByClock(clock, window)
    const within = next.filter(({ due_at }) => due_at <= window.window_to_at)
    return lanes > 1 && within.length >= MANY && row.failed_steps === 0
      ? { next: "lanes" as const, after: Effect.void }
      : { next: "step" as const, after: yield* fireBatch(handlers, refOf(row), batchOf(within)) }
  })
  const stepped = yield* sql.withTransaction(work)
  yield* stepped.after
  yield* send(clock.id, ONE_SHARD)
  return stepped.next
})

/** Goes through the rest of the window that is open, in lanes, until it is over or `isOver` says so. */
export const inLanes = Effect.fnUntraced(function* <R, E, R2, R3, E4, R4>(
  work: ClockWork<R, E, R2, R3>,
  clock: ClockRow,
  lanes: number,
  isOver: Effect.Effect<boolean, E4, R4>,
) {
  const goThrough = Effect.fnUntraced(function* (no: number) {
    const whole = Effect.uninterruptible(laneStep(work, clock, { no, of: lanes }))
    while ((yield* whole) && !(yield* isOver)) {}
  })
  yield* Effect.forEach(Array.from({ length: lanes }).keys(), goThrough, { concurrency: lanes, discard: true })
})

/** Counts a step that failed; returns whether another is to be tried. */
export const stepFailed = Effect.fnUntraced(function* (clock: ClockRow) {
  const sql = yield* SqlClient.SqlClient
  const work = Effect.gen(function* () {
    const row = yield* lockMine(clock)
    if (row === undefined) return false
    const moved = yield* transitionClock(row, { type: "step.failed", at: row.frozen_at })
    return moved.state === "advancing"
  })
  return yield* sql.withTransaction(work)
})
