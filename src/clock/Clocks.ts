/** Test clocks (spec 2.11, 3.3; decisions M1, M3). */
import { PgTypes } from "@effect/sql-pg"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { addMonths } from "../../machines/calendar.ts"
import { type ClockContext, type ClockEvent, clockMachine } from "../../machines/clock.ts"
import { begin, stateName } from "../../machines/decide.ts"
import { refOf, type Tenant } from "../db/tenant.ts"
import { appendEvents } from "../event/Events.ts"
import { newId } from "../ids.ts"
import { type ActorRow, advance, type Lifecycle } from "../lifecycle/advance.ts"
import { recordTransitions } from "../lifecycle/commit.ts"
import { invalid, noSuch, noSuchReference, problem } from "../problem.ts"
import { DAY_MS, formatInstant, parseInstant } from "../time.ts"

export interface ClockRow extends ActorRow {
  readonly name: string | null
  readonly frozen_at: number
  readonly state: "ready" | "advancing" | "internal_failure"
  readonly context: ClockContext
  readonly runner: number | null
  readonly customer_count: number
  readonly created_at: number
  readonly deletes_at: number
}

const LIFETIME_DAYS = 30
const FARTHEST_MONTHS = 12
/** What tells the workers of every process that a clock is to be moved. */
export const CLOCK_CHANNEL = "test_clock_advancing"

export const clockLifecycle: Lifecycle<typeof clockMachine, ClockRow> = {
  kind: "test_clock",
  machine: clockMachine,
  machineVersion: 1,
  ranks: {},
  contextOf: (row) => row.context,
}

export const renderClock = (row: ClockRow) => ({
  id: row.id,
  object: "test_clock" as const,
  livemode: row.livemode,
  created_at: formatInstant(row.created_at),
  name: row.name,
  frozen_time: formatInstant(row.frozen_at),
  status: row.state,
  customer_count: row.customer_count,
  deletes_at: formatInstant(row.deletes_at),
})

const columns = (sql: SqlClient.SqlClient) => sql.literal("c.*, NULL::text AS test_clock_id")

export const findClocks = (tenant: Tenant, ids: ReadonlyArray<string>) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const rows = yield* sql<ClockRow>`
      SELECT ${columns(sql)} FROM test_clock c
      WHERE account_id = ${tenant.account_id} AND livemode = ${tenant.livemode} AND id = ANY(${ids}::text[])`
    return new Map(rows.map((row) => [row.id, row]))
  })

export const getClock = (tenant: Tenant, id: string) =>
  Effect.gen(function* () {
    return (yield* findClocks(tenant, [id])).get(id) ?? (yield* noSuch("test clock", id))
  })

/** Locks a clock: nobody can write to its customers or move it meanwhile. */
export const lockClock = (tenant: Tenant, id: string) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const [row] = yield* sql<ClockRow>`
      SELECT ${columns(sql)} FROM test_clock c
      WHERE account_id = ${tenant.account_id} AND livemode = ${tenant.livemode} AND id = ${id} FOR UPDATE`
    return row
  })

export const createClock = (tenant: Tenant, input: { readonly frozen_time: string; readonly name?: string | null }) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const now = Date.now()
    const { snapshot } = begin(clockMachine, { at: now })
    const [row] = yield* sql<ClockRow>`
      INSERT INTO test_clock AS c ${sql.insert({
        ...tenantOf(tenant),
        id: newId("test_clock"),
        name: input.name ?? null,
        frozen_at: new Date(parseInstant(input.frozen_time)!),
        state: stateName(snapshot),
        context: PgTypes.jsonb(snapshot.context),
        version: 0,
        created_at: new Date(now),
        deletes_at: new Date(now + LIFETIME_DAYS * DAY_MS),
      })} RETURNING ${columns(sql)}`
    return row!
  })

const tenantOf = ({ account_id, livemode }: Tenant): Tenant => ({ account_id, livemode })

/**
 * Now for a customer: its clock's time, or the wall's. Holds the clock still until the transaction ends; a clock that
 * is moving or broken refuses (422).
 */
export const standingTime = (tenant: Tenant, clockId: string | null) =>
  Effect.gen(function* () {
    if (clockId === null) return Date.now()
    const sql = yield* SqlClient.SqlClient
    const [row] = yield* sql<Pick<ClockRow, "frozen_at" | "state">>`
      SELECT frozen_at, state FROM test_clock
      WHERE account_id = ${tenant.account_id} AND livemode = ${tenant.livemode} AND id = ${clockId} FOR SHARE`
    // Deleted this instant, and its customers with it.
    if (row === undefined) return yield* noSuch("test clock", clockId)
    if (row.state === "advancing")
      return yield* problem(
        "test_clock_advancing",
        `The customer's test clock ${clockId} is advancing: wait for test_clock.ready.`,
      )
    if (row.state !== "ready")
      return yield* problem("test_clock_not_ready", `The customer's test clock ${clockId} is not ready.`)
    return row.frozen_at
  })

/** Takes a place for one more customer on a clock and answers its time (decision C6). */
export const joinClock = (tenant: Tenant, clockId: string, param: string) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const clock = yield* lockClock(tenant, clockId)
    if (clock === undefined) return yield* noSuchReference("test clock", clockId, param)
    if (clock.state !== "ready")
      return yield* problem(
        "test_clock_not_ready",
        `The test clock is ${clock.state}: only a ready one takes customers.`,
      )
    const taken = yield* sql`
      UPDATE test_clock SET customer_count = customer_count + 1
      WHERE account_id = ${tenant.account_id} AND livemode = ${tenant.livemode} AND id = ${clockId} AND customer_count < 10000 RETURNING 1`
    if (taken.length === 0) return yield* problem("test_clock_full", "The test clock holds 10,000 customers already.")
    return clock.frozen_at
  })

/** Applies an event to a locked clock and writes what follows from it. */
export const moveClock = (clock: ClockRow, event: ClockEvent, frozenAt: number, runner: number | null) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const transitions = advance(clockLifecycle, [{ row: clock, event }])
    const [transition] = transitions
    const state = (transition?.to ?? clock.state) as ClockRow["state"]
    const context = transition?.decision.snapshot.context ?? clock.context
    const row: ClockRow = {
      ...clock,
      state,
      context,
      frozen_at: frozenAt,
      runner,
      version: transition?.version ?? clock.version,
    }
    yield* sql`
      UPDATE test_clock SET state = ${state}, context = ${PgTypes.jsonb(context)}, version = ${row.version}, frozen_at = ${PgTypes.timestamptz(frozenAt)}, runner = ${runner}
      WHERE account_id = ${clock.account_id} AND livemode = ${clock.livemode} AND id = ${clock.id}`
    yield* recordTransitions(clockLifecycle, transitions)
    const emitted = transition?.decision.effects.filter(({ type }) => type === "emit") ?? []
    yield* appendEvents(
      emitted.map(({ params }) => ({
        ...tenantOf(clock),
        type: params.type as string,
        object: renderClock(row),
        previous: { status: clock.state },
        test_clock_id: clock.id,
        at: frozenAt,
      })),
    )
    return row
  })

/** Sends a clock on its way; a worker moves it (decision M1). */
export const advanceClock = (tenant: Tenant, id: string, input: { readonly frozen_time: string }) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const clock = (yield* lockClock(tenant, id)) ?? (yield* noSuch("test clock", id))
    const targetAt = parseInstant(input.frozen_time)!
    if (targetAt <= clock.frozen_at)
      return yield* invalid(
        "frozen_time",
        `frozen_time must be later than the clock's present time, ${formatInstant(clock.frozen_at)}.`,
      )
    if (targetAt > addMonths(clock.frozen_at, FARTHEST_MONTHS)) {
      return yield* invalid(
        "frozen_time",
        `frozen_time may be at most one year ahead: ${formatInstant(addMonths(clock.frozen_at, FARTHEST_MONTHS))}.`,
      )
    }
    if (clock.state === "advancing")
      return yield* problem("test_clock_advancing", "The test clock is advancing already: wait for test_clock.ready.")
    if (clock.state !== "ready")
      return yield* problem("test_clock_not_ready", "The test clock is in internal_failure: it can only be deleted.")
    const moved = yield* moveClock(clock, { type: "advance", at: clock.frozen_at, targetAt }, clock.frozen_at, null)
    yield* sql`SELECT pg_notify(${CLOCK_CHANNEL}, ${id})`
    return moved
  })

/** Deletes a clock with its customers and all that is theirs, silently. The books keep their entries: they are append-only. */
export const deleteClock = (tenant: Tenant, id: string) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const clock = (yield* lockClock(tenant, id)) ?? (yield* noSuch("test clock", id))
    if (clock.state === "advancing")
      return yield* problem("test_clock_advancing", "The test clock is advancing: wait for test_clock.ready.")
    const { account_id, livemode } = refOf(clock)
    const mine = sql`account_id = ${account_id} AND livemode = ${livemode}`
    // In the order in which everybody locks: whoever is settling one of them is through, or finds it gone.
    yield* sql`SELECT 1 FROM subscription WHERE ${mine} AND test_clock_id = ${id} ORDER BY id FOR UPDATE`
    yield* sql`SELECT 1 FROM charge WHERE ${mine} AND test_clock_id = ${id} ORDER BY id FOR UPDATE`
    // By customer: there is no index of all nudges by clock, lest it be taken for that of the few that are to be sent.
    const nudges = sql`${mine} AND customer_id IN (SELECT id FROM customer WHERE ${mine} AND test_clock_id = ${id})`
    yield* sql`SELECT 1 FROM nudge WHERE ${nudges} ORDER BY id FOR UPDATE`
    const actors = sql`SELECT id FROM subscription WHERE ${mine} AND test_clock_id = ${id} UNION ALL SELECT id FROM charge WHERE ${mine} AND test_clock_id = ${id} UNION ALL SELECT id FROM nudge WHERE ${nudges} UNION ALL SELECT ${id}`
    yield* sql`DELETE FROM lifecycle_journal WHERE ${mine} AND actor_id IN (${actors})`
    yield* sql`DELETE FROM nudge WHERE ${nudges}`
    for (const table of ["timer", "event", "simulator_attempt", "unit_record", "charge", "subscription"]) {
      yield* sql`DELETE FROM ${sql(table)} WHERE ${mine} AND test_clock_id = ${id}`
    }
    yield* sql`UPDATE customer SET default_payment_method_id = NULL WHERE ${mine} AND test_clock_id = ${id}`
    yield* sql`DELETE FROM customer WHERE ${mine} AND test_clock_id = ${id}`
    yield* sql`DELETE FROM test_clock WHERE ${mine} AND id = ${id}`
    return { id, object: "test_clock" as const, livemode, deleted: true }
  })

/** Clocks deleted in one go: each takes its customers with it. */
const EXPIRY_BATCH = 20

/** Deletes the clocks whose time is over (`deletes_at`, decision M1). */
export const deleteExpiredClocks = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const expired = yield* sql<Pick<ClockRow, "account_id" | "livemode" | "id">>`
    SELECT account_id, livemode, id FROM test_clock WHERE deletes_at < now() AND state <> 'advancing' ORDER BY deletes_at LIMIT ${EXPIRY_BATCH}`
  for (const clock of expired) yield* sql.withTransaction(deleteClock(clock, clock.id))
})
