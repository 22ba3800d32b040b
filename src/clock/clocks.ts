/** Test clocks: the verbs of the API, and the time of a clock's customers (decisions M1, M3). */
import { Effect, Exit } from "effect"
import { SqlClient } from "effect/sql"
import { addMonths } from "../../machines/calendar.ts"
import type { ClockEvent } from "../../machines/clock.ts"
import { allParamsOf } from "../../machines/decide.ts"
import { isRef, type Tenant, tenantOf } from "../db/tenant.ts"
import { newId } from "../ids.ts"
import { invalid, noSuch, noSuchReference, type Problem, problem } from "../problem.ts"
import { commit } from "../runtime/commit.ts"
import { advance } from "../runtime/lifecycle.ts"
import { amended, moved } from "../runtime/outcome.ts"
import { DAY_MS, formatInstant, parseInstant } from "../time.ts"
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
  const now = Date.now()
  const row: ClockRow = {
    ...tenantOf(tenant),
    id: newId("test_clock"),
    name: input.name ?? null,
    frozen_at: parseInstant(input.frozen_time)!,
    version: 0,
    runner: null,
    waiting_since: null,
    customer_count: 0,
    created_at: now,
    deletes_at: now + LIFETIME_DAYS * DAY_MS,
    ...clocks.snapshotColumns("ready", { targetAt: null, failedSteps: 0 }),
  }
  yield* clocks.insert([row])
  return row
})

/**
 * Now for a customer: its clock's time, or the wall's. Holds the clock still until the transaction ends; a clock that
 * is moving or broken refuses (422).
 */
export const standingTime = Effect.fnUntraced(function* (tenant: Tenant, clockId: string | null) {
  if (clockId === null) return Date.now()
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<Pick<ClockRow, "frozen_at" | "state">>`
    SELECT frozen_at, state FROM test_clock WHERE ${isRef(sql, { ...tenantOf(tenant), id: clockId })} FOR SHARE`
  // Being deleted, and its customers with it.
  if (row === undefined || row.state === "deleting") return yield* noSuch(CLOCK_NOUN, clockId)
  if (row.state === "advancing")
    return yield* problem(
      "test_clock_advancing",
      `The customer's test clock ${clockId} is advancing: wait for test_clock.ready.`,
    )
  if (row.state !== "ready")
    return yield* problem("test_clock_not_ready", `The customer's test clock ${clockId} is not ready.`)
  return row.frozen_at
})

/** The time of each of these clocks, as {@link standingTime} tells it; they are locked in the order of their IDs. */
export const standingTimes = Effect.fnUntraced(function* (tenant: Tenant, clockIds: ReadonlyArray<string>) {
  const times = new Map<string, Exit.Exit<number, Problem>>()
  for (const id of [...new Set(clockIds)].sort()) {
    const time = standingTime(tenant, id).pipe(
      Effect.map((at): Exit.Exit<number, Problem> => Exit.succeed(at)),
      Effect.catchTag("Problem", (refusal) => Effect.succeed(Exit.fail(refusal))),
    )
    times.set(id, yield* time)
  }
  return times
})

/**
 * Takes a place for one more customer on a clock for each of these, which may name one twice; returns the clock's time for each
 * (decision C6).
 */
export const joinClocks = Effect.fnUntraced(function* (tenant: Tenant, clockIds: ReadonlyArray<string>, param: string) {
  const refs = [...new Set(clockIds)].map((id) => ({ ...tenantOf(tenant), id }))
  const locked = new Map((yield* knownClocks.lock(refs)).map((clock) => [clock.id, clock]))
  const changed = new Map<string, ClockRow>()
  const joined = yield* Effect.forEach(clockIds, (id) =>
    Effect.exit(
      Effect.gen(function* () {
        const clock = changed.get(id) ?? locked.get(id)
        if (clock === undefined) return yield* noSuchReference(CLOCK_NOUN, id, param)
        if (clock.state !== "ready")
          return yield* problem(
            "test_clock_not_ready",
            `The test clock is ${clock.state}: only a ready one takes customers.`,
          )
        if (clock.customer_count >= MAX_CUSTOMERS)
          return yield* problem("test_clock_full", "The test clock holds 10,000 customers already.")
        changed.set(id, { ...clock, customer_count: clock.customer_count + 1 })
        return clock.frozen_at
      }),
    ),
  )
  yield* clocks.update([...changed.values()])
  return joined
})

/** Applies an event to a locked clock, which stands at `frozenAt` from then on, and writes what follows from it. */
export const moveClock = Effect.fnUntraced(function* (
  clock: ClockRow,
  event: ClockEvent,
  frozenAt: number,
  runner: number | null,
) {
  const [transition] = advance(clockLifecycle, [{ row: clock, event }])
  const standing = { ...clock, frozen_at: frozenAt, runner }
  if (transition === undefined) {
    yield* commit([amended(clockLifecycle, standing)])
    return standing
  }
  const { to, version, decision } = transition
  const row: ClockRow = { ...clocks.withSnapshot(standing, to, decision.snapshot.context), version }
  const events = allParamsOf(decision, "emit").map(({ type }) => ({
    ...tenantOf(clock),
    type,
    object: renderClock(row),
    previous: { status: clock.state },
    test_clock_id: clock.id,
    at: frozenAt,
  }))
  yield* commit([moved(clockLifecycle, transition, row, { events })])
  return row
})

/** Sends a clock on its way; a worker moves it (decision M1). */
export const advanceClock = Effect.fn("clock.advance")(function* (
  tenant: Tenant,
  id: string,
  input: { readonly frozen_time: string },
) {
  const sql = yield* SqlClient.SqlClient
  const clock = yield* knownClocks.lockOne(tenant, id)
  const targetAt = parseInstant(input.frozen_time)!
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
  const waiting = { ...clock, waiting_since: Date.now() }
  const moved = yield* moveClock(waiting, { type: "advance", at: clock.frozen_at, targetAt }, clock.frozen_at, null)
  yield* sql`SELECT pg_notify(${CLOCK_CHANNEL}, ${id})`
  return moved
})
