/** Test clocks: the verbs of the API, and the time of a clock's customers (decisions M1, M3). */
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
import { CLOCK_NOUN, type ClockRow, clockLifecycle, clocks, knownClocks, renderClock } from "./clock.ts"

const LIFETIME_DAYS = 30
/** How far ahead a clock can be sent in one go (decision M1). */
const MAX_ADVANCE_MONTHS = 12
const MAX_CUSTOMERS = 10_000
/** What tells the workers of every process that a clock is to be moved. */
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
 * Now for a customer: its clock's time, or the wall's. Holds the clock still until the transaction ends; a clock that
 * is moving or broken refuses (422).
 */
export const standingTime = Effect.fnUntraced(function* (tenant: Tenant, clockId: string | null) {
  if (clockId === null) return currentTime()
  const times = yield* standingTimes(tenant, [clockId])
  return yield* times.get(clockId)!
})

/**
 * When the actor `actor` stands on its clock `clock`, of a query that joins both, as SQL; null of none. While the clock moves, its
 * customers may be ahead of it.
 */
export const standingAt = (sql: SqlClient.SqlClient, actor: string, clock: string) => {
  const [a, k] = [sql(actor), sql(clock)]
  return sql`
    CASE WHEN ${k}.id IS NOT NULL THEN greatest(${k}.frozen_at, ${a}.created_at, (
      SELECT at FROM lifecycle_journal j
      WHERE (j.account_id, j.livemode, j.actor_id, j.version) = (${a}.account_id, ${a}.livemode, ${a}.id, ${a}.version))) END`
}

/** Whether another process moves the clock `clock`, as SQL. It waits for what was under way on it when it began. */
export const movesElsewhere = (sql: SqlClient.SqlClient, clock: string, runner: number) => {
  const k = sql(clock)
  return sql`(${k}.state = 'advancing' AND ${k}.runner IS DISTINCT FROM ${runner}::integer)`
}

/** When a clock stands, as far as it does. */
const timeOf = (id: string, row: ClockRow | undefined): Exit.Exit<number, Problem> => {
  if (row === undefined || row.state === "deleting")
    return Exit.fail(
      problem("resource_missing", `The customer's test clock ${id} was deleted, and the customer goes with it.`),
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
 * The time of each of these clocks, as {@link standingTime} tells it; they are locked in the order of their IDs. Of one that somebody
 * else holds, where that is not to be waited for, `lock_timeout`.
 */
export const standingTimes = Effect.fnUntraced(function* (tenant: Tenant, clockIds: ReadonlyArray<string>) {
  const waits = yield* WaitForLocks
  const ids = [...new Set(clockIds)]
  const refs = ids.map((id): Ref => ({ ...tenantOf(tenant), id }))
  const rows = yield* clocks.lock(refs, waits ? "SHARE" : "SHARE SKIP LOCKED")
  const known = new Map(rows.map((row) => [row.id, row]))
  return new Map(ids.map((id) => [id, waits || known.has(id) ? timeOf(id, known.get(id)) : Exit.fail(LOCKED)] as const))
})

/**
 * Takes a place for one more customer on a clock for each of these, which may name one twice; returns the clock's time for each
 * (decision C6). Of one that somebody else holds, where that is not to be waited for, `lock_timeout`.
 */
export const joinClocks = Effect.fnUntraced(function* (tenant: Tenant, clockIds: ReadonlyArray<string>, param: string) {
  if (clockIds.length === 0) return []
  const ids = [...new Set(clockIds)]
  const waits = yield* WaitForLocks
  // One that is advancing is not waited for.
  const lockReady = Effect.map(
    clocks.read(
      "c",
      (sql, columns) => sql`
        SELECT ${columns} FROM test_clock c WHERE ${ofTenant(sql, tenant)} AND id = ANY(${ids}::text[]) AND state = 'ready'
        ORDER BY id FOR UPDATE ${sql.literal(waits ? "" : "SKIP LOCKED")}`,
    ),
    (rows) => new Map(rows.map((row) => [row.id, row])),
  )
  const atFirst = yield* lockReady
  const others = atFirst.size === ids.length ? new Map<string, ClockRow>() : yield* knownClocks.find(tenant, ids)
  const becameReady = [...others.values()].some(({ id, state }) => state === "ready" && !atFirst.has(id))
  const locked = waits && becameReady ? yield* lockReady : atFirst
  const known = new Map([...others, ...locked])
  const changed = new Map<string, ClockRow>()
  const joined = yield* Effect.forEach(clockIds, (id) =>
    Effect.exit(
      Effect.gen(function* () {
        const clock = changed.get(id) ?? known.get(id)
        if (clock === undefined) return yield* noSuchReference(CLOCK_NOUN, id, param)
        if (clock.state !== "ready")
          return yield* problem(
            "test_clock_not_ready",
            `The test clock is ${clock.state}: only a ready one takes customers.`,
          )
        if (!locked.has(id)) return yield* LOCKED
        if (clock.customer_count >= MAX_CUSTOMERS)
          return yield* problem("test_clock_full", "The test clock holds 10,000 customers already.")
        changed.set(id, { ...clock, customer_count: clock.customer_count + 1 })
        return clock.frozen_at
      }),
    ),
  )
  ;(yield* unitOfWork).update(
    clocks,
    [...changed.values()].map((after) => ({ before: known.get(after.id)!, after })),
  )
  return joined
})

/** Applies an event to a locked clock, on which `changes` are made too, and writes what follows from it. */
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

/** Refuses what a clock cannot be sent to. */
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

/** Sends a clock on its way; a worker moves it (decision M1). */
export const advanceClock = Effect.fn("clock.advance")(function* (
  tenant: Tenant,
  id: string,
  input: { readonly frozen_time: string },
) {
  const sql = yield* SqlClient.SqlClient
  const targetAt = parseInstant(input.frozen_time)!
  // Of one that is advancing it is said without waiting for a moment at which nobody holds it.
  yield* mayAdvance(yield* knownClocks.get(tenant, id), targetAt)
  const clock = yield* knownClocks.lockOne(tenant, id)
  yield* mayAdvance(clock, targetAt)
  const moved = yield* transitionClock(
    clock,
    { type: "advance", at: clock.frozen_at, targetAt },
    { runner: null, waiting_since: currentTime() },
  )
  yield* sql`SELECT pg_notify(${CLOCK_CHANNEL}, ${id})`
  return moved
})
