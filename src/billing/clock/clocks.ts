/** Implements the API's operations on test clocks, and reads the time of a clock's customers (decisions M1, M3). */
import { Effect, Exit } from "effect"
import { SqlClient } from "effect/sql"
import { addMonths } from "../../../machines/calendar.ts"
import type { ClockEvent } from "../../../machines/clock.ts"
import { allParamsOf } from "../../../machines/decide.ts"
import { newId } from "../../base/ids.ts"
import { invalid, noSuchReference, type Problem, problem } from "../../base/problem.ts"
import { DAY_MS, formatInstant, parseInstant } from "../../base/time.ts"
import { currentTime } from "../../base/wallClock.ts"
import { ofTenant, type Ref, type Tenant, tenantOf } from "../../db/tenant.ts"
import { unitOfWork } from "../../db/UnitOfWork.ts"
import { previousAttributes } from "../../outbound/event/events.ts"
import { LOCKED, WaitForLocks } from "../../postgres/lockWait.ts"
import { commit } from "../../runtime/commit.ts"
import { advance, rowAfter } from "../../runtime/lifecycle.ts"
import { amended, transitioned } from "../../runtime/outcome.ts"
import { CLOCK_NOUN, type ClockRow, clockLifecycle, clocks, renderClock, visibleClocks } from "./clock.ts"

const LIFETIME_DAYS = 30
/** Limit of one advance (decision M1). */
const MAX_ADVANCE_MONTHS = 12
const MAX_CUSTOMERS = 10_000
/** The channel that notifies the workers of every process of a clock to advance. */
export const CLOCK_CHANNEL = "test_clock_advancing"

export const createClock = Effect.fn("clock.create")(function* (
  tenant: Tenant,
  input: { readonly frozen_time: string; readonly name?: string | null },
) {
  const now = currentTime()
  const row: ClockRow = {
    ...tenantOf(tenant),
    id: newId("test_clock"),
    name: input.name ?? null,
    frozen_at: parseInstant(input.frozen_time)!,
    window_to_at: null,
    window_opened_at: null,
    version: 0,
    runner: null,
    waiting_since: null,
    customer_count: 0,
    created_at: now,
    deletes_at: now + LIFETIME_DAYS * DAY_MS,
    ...clocks.snapshotColumns("ready", { targetAt: null, failedSteps: 0 }),
  }
  ;(yield* unitOfWork).insert(clocks, [row])
  return row
})

/**
 * Returns the time of a customer: its clock's, or the wall clock's. Locks the clock against changes until the transaction ends. Fails (422)
 * if the clock is advancing or has failed.
 */
export const clockTime = Effect.fnUntraced(function* (tenant: Tenant, clockId: string | null) {
  if (clockId === null) return currentTime()
  const times = yield* clockTimes(tenant, [clockId])
  return yield* times.get(clockId)!
})

/**
 * SQL for the time of `actor` on its clock `clock`, for a query that joins both; null without a clock. While the clock advances, its
 * customers may be ahead of it.
 */
export const clockTimeSql = (sql: SqlClient.SqlClient, actor: string, clock: string) => {
  const [a, k] = [sql(actor), sql(clock)]
  return sql`
    CASE WHEN ${k}.id IS NOT NULL THEN greatest(${k}.frozen_at, ${a}.created_at, (
      SELECT at FROM lifecycle_journal j
      WHERE (j.account_id, j.livemode, j.actor_id, j.version) = (${a}.account_id, ${a}.livemode, ${a}.id, ${a}.version))) END`
}

/** SQL for whether another process advances `clock`; that process waits for the work in flight when it began. */
export const movesElsewhere = (sql: SqlClient.SqlClient, clock: string, runner: number) => {
  const k = sql(clock)
  return sql`(${k}.state = 'advancing' AND ${k}.runner IS DISTINCT FROM ${runner}::integer)`
}

/** Returns a clock's time; fails unless the clock is ready. */
const timeOf = (id: string, row: ClockRow | undefined): Exit.Exit<number, Problem> => {
  if (row === undefined || row.state === "deleting")
    return Exit.fail(
      problem("resource_missing", `The customer's test clock ${id} was deleted, and the customer is deleted with it.`),
    )
  if (row.state === "advancing")
    return Exit.fail(
      problem("test_clock_advancing", `The customer's test clock ${id} is advancing: wait for test_clock.ready.`),
    )
  return row.state === "ready"
    ? Exit.succeed(row.frozen_at)
    : Exit.fail(problem("test_clock_not_ready", `The customer's test clock ${id} is not ready.`))
}

/**
 * Returns the time of each of these clocks like {@link clockTime}, by ID; locks them in ID order. Without {@link WaitForLocks}, a clock
 * that another transaction has locked gives `lock_timeout`.
 */
export const clockTimes = Effect.fnUntraced(function* (tenant: Tenant, clockIds: ReadonlyArray<string>) {
  const waits = yield* WaitForLocks
  const ids = [...new Set(clockIds)]
  const refs = ids.map((id): Ref => ({ ...tenantOf(tenant), id }))
  const rows = yield* clocks.lock(refs, waits ? "SHARE" : "SHARE SKIP LOCKED")
  const locked = new Map(rows.map((row) => [row.id, row]))
  return new Map(
    ids.map((id) => [id, waits || locked.has(id) ? timeOf(id, locked.get(id)) : Exit.fail(LOCKED)] as const),
  )
})

/**
 * Takes a place for one more customer on the clock of each of these IDs, which may repeat; returns the clock's time for each (decision C6).
 * Without {@link WaitForLocks}, a clock that another transaction has locked gives `lock_timeout`.
 */
export const joinClocks = Effect.fnUntraced(function* (tenant: Tenant, clockIds: ReadonlyArray<string>, param: string) {
  if (clockIds.length === 0) return []
  const ids = [...new Set(clockIds)]
  const waits = yield* WaitForLocks
  // Does not wait for a clock that is advancing.
  const lockReady = Effect.map(
    clocks.read(
      "c",
      (sql, columns) => sql`
        SELECT ${columns} FROM test_clock c WHERE ${ofTenant(sql, tenant)} AND id = ANY(${ids}::text[]) AND state = 'ready'
        ORDER BY id FOR UPDATE ${sql.literal(waits ? "" : "SKIP LOCKED")}`,
    ),
    (rows) => new Map(rows.map((row) => [row.id, row])),
  )
  const lockedFirst = yield* lockReady
  const others = lockedFirst.size === ids.length ? new Map<string, ClockRow>() : yield* visibleClocks.find(tenant, ids)
  const becameReady = [...others.values()].some(({ id, state }) => state === "ready" && !lockedFirst.has(id))
  const locked = waits && becameReady ? yield* lockReady : lockedFirst
  const byId = new Map([...others, ...locked])
  const changed = new Map<string, ClockRow>()
  const joined = yield* Effect.forEach(clockIds, (id) =>
    Effect.exit(
      Effect.gen(function* () {
        const clock = changed.get(id) ?? byId.get(id)
        if (clock === undefined) return yield* noSuchReference(CLOCK_NOUN, id, param)
        if (clock.state !== "ready")
          return yield* problem(
            "test_clock_not_ready",
            `The test clock is ${clock.state}: only a ready clock takes customers.`,
          )
        if (!locked.has(id)) return yield* LOCKED
        if (clock.customer_count >= MAX_CUSTOMERS)
          return yield* problem("test_clock_full", "The test clock already has 10,000 customers.")
        changed.set(id, { ...clock, customer_count: clock.customer_count + 1 })
        return clock.frozen_at
      }),
    ),
  )
  ;(yield* unitOfWork).update(
    clocks,
    [...changed.values()].map((after) => ({ before: byId.get(after.id)!, after })),
  )
  return joined
})

/** Applies an event and `changes` to a locked clock and commits the outcome; returns the clock's new row. */
export const transitionClock = Effect.fnUntraced(function* (
  clock: ClockRow,
  event: ClockEvent,
  changes: Partial<ClockRow> = {},
) {
  const [transition] = advance(clockLifecycle, [{ row: clock, event }])
  const changed = { ...clock, ...changes }
  if (transition === undefined) {
    yield* commit([amended(clockLifecycle, clock, changed)])
    return changed
  }
  const row = rowAfter(clockLifecycle, transition, changed)
  const object = renderClock(row)
  const events = allParamsOf(transition.decision, "emit").map(({ type }) => ({
    ...tenantOf(clock),
    type,
    object,
    previous: previousAttributes(renderClock(clock), object),
    test_clock_id: clock.id,
    at: event.at,
  }))
  yield* commit([transitioned(clockLifecycle, transition, row, { events })])
  return row
})

/** Fails if the clock cannot advance to `targetAt`. */
const mayAdvance = Effect.fnUntraced(function* (clock: ClockRow, targetAt: number) {
  if (targetAt <= clock.frozen_at)
    return yield* invalid(
      "frozen_time",
      `frozen_time must be later than the clock's present time, ${formatInstant(clock.frozen_at)}.`,
    )
  const latest = addMonths(clock.frozen_at, MAX_ADVANCE_MONTHS)
  if (targetAt > latest)
    return yield* invalid("frozen_time", `frozen_time may be at most one year ahead: ${formatInstant(latest)}.`)
  if (clock.state === "advancing")
    return yield* problem("test_clock_advancing", "The test clock is advancing already: wait for test_clock.ready.")
  if (clock.state !== "ready")
    return yield* problem("test_clock_not_ready", "The test clock is in internal_failure: it can only be deleted.")
})

/** Starts the advance of a clock; a worker carries it out (decision M1). */
export const advanceClock = Effect.fn("clock.advance")(function* (
  tenant: Tenant,
  id: string,
  input: { readonly frozen_time: string },
) {
  const sql = yield* SqlClient.SqlClient
  const targetAt = parseInstant(input.frozen_time)!
  // Refuses an advancing clock before locking it, without waiting for its worker's lock.
  yield* mayAdvance(yield* visibleClocks.get(tenant, id), targetAt)
  const clock = yield* visibleClocks.lockOne(tenant, id)
  yield* mayAdvance(clock, targetAt)
  const advancing = yield* transitionClock(
    clock,
    { type: "advance", at: clock.frozen_at, targetAt },
    { runner: null, waiting_since: currentTime() },
  )
  yield* sql`SELECT pg_notify(${CLOCK_CHANNEL}, ${id})`
  return advancing
})
