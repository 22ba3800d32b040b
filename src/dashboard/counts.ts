/**
 * Counts of objects that cost the same for an account of any size: those of machines (decision R11), which a worker keeps
 * (src/runtime/counting.ts), and those that a page counts itself up to a limit.
 */
import { PgTypes } from "@effect/sql-pg"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { statusOfState } from "../../machines/status.ts"
import { HOUR_MS } from "../base/time.ts"
import { currentTime } from "../base/wallClock.ts"
import { ofTenant, type Tenant } from "../db/tenant.ts"
import type { CountedStep } from "../pages/pictures/draw.ts"
import { PIPELINED } from "../postgres/pipelining.ts"
import { AMOUNTS } from "../runtime/counting.ts"
import type { ActorKind } from "../runtime/lifecycle.ts"

/** Actors that no count contains: those without a transition, and endpoints. A list of conditions on their rows, each with an index. */
const UNCOUNTED = {
  charge: "status = 'pending' AND version = 0",
  refund: "version = 0",
  test_clock: "version = 0",
  webhook_endpoint: "true",
} as const satisfies Partial<Record<ActorKind, string>>

/** The most rows that a page counts itself, in 20 ms. More charges than that wait for their first answer for moments only. */
const MAX_ROWS_COUNTED = 20_000

export interface StateCount {
  readonly kind: string
  readonly state: string
  readonly actors: number
  readonly kobo: number
}

const isUncounted = (kind: string): kind is keyof typeof UNCOUNTED => Object.hasOwn(UNCOUNTED, kind)

const readRows = Effect.fnUntraced(function* (tenant: Tenant, kind: keyof typeof UNCOUNTED) {
  const sql = yield* SqlClient.SqlClient
  const amounts: Readonly<Partial<Record<ActorKind, string>>> = AMOUNTS
  return yield* sql<StateCount>`
    SELECT ${kind}::text AS kind, state, count(*)::bigint AS actors, coalesce(sum(kobo), 0)::bigint AS kobo FROM (
      SELECT state, ${sql.literal(amounts[kind] ?? "0")} AS kobo FROM ${sql(kind)}
      WHERE ${ofTenant(sql, tenant)} AND ${sql.literal(UNCOUNTED[kind])} LIMIT ${MAX_ROWS_COUNTED}
    ) a GROUP BY state`
})

/** Adds up counts of the same state. */
const summed = (counts: ReadonlyArray<StateCount>): ReadonlyArray<StateCount> =>
  [...Map.groupBy(counts, ({ kind, state }) => `${kind} ${state}`).values()].map((same) => ({
    kind: same[0]!.kind,
    state: same[0]!.state,
    actors: same.reduce((sum, { actors }) => sum + actors, 0),
    kobo: same.reduce((sum, { kobo }) => sum + kobo, 0),
  }))

/** How many actors of these kinds are in each state now. */
export const readStates = Effect.fn("dashboard.states")(function* (tenant: Tenant, kinds: ReadonlyArray<string>) {
  const sql = yield* SqlClient.SqlClient
  const kept = sql<StateCount>`
    SELECT kind, state, actors, kobo FROM state_count WHERE ${ofTenant(sql, tenant)} AND kind = ANY(${kinds}::text[])`
  const all = yield* Effect.all([kept, ...kinds.filter(isUncounted).map((kind) => readRows(tenant, kind))], PIPELINED)
  return summed(all.flat())
})

/** How many transitions of a kind went from state to state in the hours since then, and in the running one. */
export const readSteps = Effect.fn("dashboard.arrows")(function* (tenant: Tenant, kind: string, hours: number) {
  const sql = yield* SqlClient.SqlClient
  const since = PgTypes.timestamptz(currentTime() - hours * HOUR_MS)
  return yield* sql<CountedStep>`
    SELECT from_state AS from, to_state AS to, trigger, sum(transitions)::bigint AS transitions FROM arrow_count
    WHERE ${ofTenant(sql, tenant)} AND kind = ${kind} AND hour >= ${since} GROUP BY 1, 2, 3 ORDER BY 4 DESC`
})

/** When everything was counted last; null: this tenant was not counted yet. */
export const readCountedAt = Effect.fn("dashboard.countedAt")(function* (tenant: Tenant) {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<{ counted_at: number }>`
    SELECT p.counted_at FROM journal_position p, state_counted c WHERE ${ofTenant(sql, tenant, "c")}`
  return row?.counted_at ?? null
})

/** Counting this many index entries takes some milliseconds. */
export const MAX_COUNTED = 10_000

const COUNTED = ["active", "past_due", "trialing", "paused"] as const

export type StatusCounts = Readonly<Record<(typeof COUNTED)[number], number>>

/** Counts the subscriptions of these states that have one status whatever their context is. */
const countedStates = (states: ReadonlyArray<StateCount>, status: string): number =>
  states.filter(({ state }) => statusOfState(state) === status).reduce((sum, { actors }) => sum + actors, 0)

/**
 * Counts the subscriptions of an environment by status. Up to {@link MAX_COUNTED} they are counted now; more are those of their states, as
 * the worker counted them last.
 */
export const statusCounts = Effect.fnUntraced(function* (tenant: Tenant) {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<{ status: (typeof COUNTED)[number]; count: number }>`
    SELECT w.status, n.count FROM unnest(${COUNTED}::text[]) AS w (status)
    CROSS JOIN LATERAL (
      SELECT count(*)::integer AS count FROM (
        SELECT 1 FROM subscription s WHERE s.status = w.status AND ${ofTenant(sql, tenant, "s")} LIMIT ${MAX_COUNTED + 1}
      ) o
    ) n`
  const isLarge = rows.some(({ count }) => count > MAX_COUNTED)
  const states = isLarge ? yield* readStates(tenant, ["subscription"]) : []
  const counts: Record<string, number> = {}
  for (const { status, count } of rows)
    counts[status] = count > MAX_COUNTED ? Math.max(count, countedStates(states, status)) : count
  return counts as StatusCounts
})
