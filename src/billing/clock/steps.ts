/**
 * Runs the steps of one advancing clock (decision M7): window by window of its time, and in each window batch by batch, each a transaction,
 * until the target. clockWorker.ts decides which clock advances when.
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

/** Length of a window of clock time: each instant in it has its own number in IDs (src/base/ids.ts). */
const WINDOW_MS = DAY_MS - 1
/** A rail usually answers within this time. */
const LOOK_AGAIN_MS = 20

/**
 * The work on a clock: the handlers of its timers; `recover` finishes charges that a dead worker left; `send` sends its nudges; `arrive`
 * runs step by step before the clock arrives, and returns whether more is left.
 */
export interface ClockWork<R, E, R2, R3> {
  readonly handlers: ReadonlyArray<TimerHandler<R>>
  readonly recover: (clockId: string) => Effect.Effect<unknown, E, R2>
  readonly send: (clockId: string, shard: Shard) => Effect.Effect<unknown, E, R3>
  readonly arrive: (clock: Ref, at: number) => Effect.Effect<boolean, SqlError.SqlError, SqlClient.SqlClient>
}

/**
 * Waits until no charge or nudge on the clock is in flight: time does not advance during a call to a rail or messenger. The process that
 * sent them settles them, or this process if that one is dead.
 */
export const awaitSent = Effect.fnUntraced(function* <R, E, R2, R3>(
  { recover, send }: ClockWork<R, E, R2, R3>,
  clock: ClockRow,
) {
  const sql = yield* SqlClient.SqlClient
  const ofClock = sql`${ofTenant(sql, clock)} AND test_clock_id = ${clock.id}`
  const inFlight = Effect.andThen(
    Effect.andThen(recover(clock.id), send(clock.id, ONE_SHARD)),
    sql`
      (SELECT 1 FROM charge WHERE ${ofClock} AND runner IS NOT NULL LIMIT 1)
      UNION ALL (SELECT 1 FROM nudge WHERE ${ofClock} AND state = 'sending' LIMIT 1)`,
  )
  yield* Effect.repeat(inFlight, { until: (found) => found.length === 0, schedule: Schedule.spaced(LOOK_AGAIN_MS) })
})

/** Locks the clock; undefined if this process no longer advances it. */
const lockMine = Effect.fnUntraced(function* (clock: ClockRow, mode: LockMode = "UPDATE") {
  const { id } = yield* ProcessLease
  const [row] = yield* clocks.lock([refOf(clock)], mode)
  return row?.runner === id ? row : undefined
})

/** Returns the window that contains `at`: the current one, or a new one that begins at `at`. */
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

/** Makes new IDs on the clock sort by its time, until the run that `clock` belongs to ends. */
export const numberByClock = (
  clock: ClockRow,
  { frozen_at, window_opened_at }: Pick<ClockRow, "frozen_at" | "window_opened_at"> = clock,
) => {
  if (window_opened_at !== null) openWindow(clock.id, clock, { fromAt: frozen_at, openedAt: window_opened_at })
}

/** The result of a step: what runs next (nothing, another step, or the rest of the window in shards), and the work after the commit. */
interface Stepped<R> {
  readonly next: "nothing" | "step" | "shards"
  readonly after: AfterCommit<R>
}

const ARRIVED: Stepped<never> = { next: "nothing", after: Effect.void }

/** Ends the advance at the target, or runs one more step of the work before it. */
const arriveAt = Effect.fnUntraced(function* <R, E, R2, R3>(
  { arrive }: ClockWork<R, E, R2, R3>,
  clock: ClockRow,
  row: ClockRow,
  target: number,
) {
  if (yield* arrive(refOf(row), target)) return { ...ARRIVED, next: "step" as const }
  closeWindow(row.id, clock)
  const atTarget = { frozen_at: target, window_to_at: null, window_opened_at: null, runner: null }
  yield* transitionClock(row, { type: "arrived", at: target }, atTarget)
  return ARRIVED
})

/** Fires the next batch of a shard within the open window; returns whether it fired one. */
const shardStep = Effect.fnUntraced(function* <R, E, R2, R3>(
  { handlers, send }: ClockWork<R, E, R2, R3>,
  clock: ClockRow,
  shard: Shard,
) {
  const sql = yield* SqlClient.SqlClient
  const work = Effect.gen(function* () {
    const row = yield* lockMine(clock, "SHARE")
    if (row?.state !== "advancing") return undefined
    const batch = batchOf(yield* nextOnClock(refOf(row), row.window_to_at!, shard))
    return batch.length === 0 ? undefined : yield* fireBatch(handlers, refOf(row), batch)
  })
  const after = yield* sql.withTransaction(work)
  if (after === undefined) return false
  yield* after
  yield* send(clock.id, shard)
  return true
})

/**
 * Runs one step: fires a batch of timers due in the clock's window, or arrives. If many timers are due, it only opens the window, which
 * then runs in shards.
 */
export const step = Effect.fnUntraced(function* <R, E, R2, R3>(
  clockWork: ClockWork<R, E, R2, R3>,
  clock: ClockRow,
  shards: number,
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
    return shards > 1 && within.length >= MANY && row.failed_steps === 0
      ? { next: "shards" as const, after: Effect.void }
      : { next: "step" as const, after: yield* fireBatch(handlers, refOf(row), batchOf(within)) }
  })
  const stepped = yield* sql.withTransaction(work)
  yield* stepped.after
  yield* send(clock.id, ONE_SHARD)
  return stepped.next
})

/** Runs the rest of the open window in shards, until it is done or `isOver` returns true. */
export const runInShards = Effect.fnUntraced(function* <R, E, R2, R3, E4, R4>(
  work: ClockWork<R, E, R2, R3>,
  clock: ClockRow,
  shards: number,
  isOver: Effect.Effect<boolean, E4, R4>,
) {
  const runShard = Effect.fnUntraced(function* (no: number) {
    const fireNext = Effect.uninterruptible(shardStep(work, clock, { no, of: shards }))
    while ((yield* fireNext) && !(yield* isOver)) {}
  })
  yield* Effect.forEach(Array.from({ length: shards }).keys(), runShard, { concurrency: shards, discard: true })
})

/** Counts a failed step; returns whether to try another. */
export const stepFailed = Effect.fnUntraced(function* (clock: ClockRow) {
  const sql = yield* SqlClient.SqlClient
  const work = Effect.gen(function* () {
    const row = yield* lockMine(clock)
    if (row === undefined) return false
    const changed = yield* transitionClock(row, { type: "step.failed", at: row.frozen_at })
    return changed.state === "advancing"
  })
  return yield* sql.withTransaction(work)
})
