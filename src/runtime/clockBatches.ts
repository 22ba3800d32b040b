/**
 * Firing what is due on a test clock. Customers of one clock are independent of each other: a window of its time is gone through
 * in rounds, each of which fires what comes next for every customer. Each customer goes through its own time in order.
 */
import { PgTypes } from "@effect/sql-pg"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import type { Fragment } from "effect/sql/Statement"
import { ofTenant, type Ref, tenantOf } from "../db/tenant.ts"
import { isServing } from "../process/loadHint.ts"
import type { AfterCommit, TimerHandler } from "./fire.ts"
import type { TimerRow } from "./timers.ts"

/**
 * Timers that fire in one transaction at most. Larger rounds cost less, and keep requests waiting: so they are only for a clock beside which
 * nobody asks but its own account, in the sandbox.
 */
const MAX_ROUND = 250
const MAX_ROUND_SERVING = 100

/** How many timers of a clock fire in one transaction at present, at most. */
const maxRound = ({ account_id }: Ref): number => (isServing(account_id) ? MAX_ROUND_SERVING : MAX_ROUND)

/** With so many due within a window it is worth more lanes than one: as many as a small round has. */
export const MANY = MAX_ROUND_SERVING

const onClock = (sql: SqlClient.SqlClient, clock: Ref) => sql`${ofTenant(sql, clock)} AND test_clock_id = ${clock.id}`

/** What is next on a clock, as far as the order of what fires depends on it. */
export type NextTimer = Pick<TimerRow, "actor_kind" | "actor_id" | "due_at" | "rank" | "customer_id">

/** Some of a clock's customers: every customer is in one lane. */
export interface Shard {
  readonly no: number
  readonly of: number
}

/** All of them. */
export const ONE_SHARD: Shard = { no: 0, of: 1 }

/** That the customer that `column` names is in the lane. */
export const isInShard = (sql: SqlClient.SqlClient, column: string, { no, of }: Shard): Fragment =>
  of === 1 ? sql`true` : sql`hashtext(${sql(column)}) & ${of - 1} = ${no}`

/** The timers that are due first in a lane of a clock, by `until`: those of a round at most, in order. */
export const nextOnClock = Effect.fnUntraced(function* (clock: Ref, until: number, lane: Shard) {
  const sql = yield* SqlClient.SqlClient
  return yield* sql<NextTimer>`
    SELECT actor_kind, actor_id, due_at, rank, customer_id FROM timer
    WHERE ${onClock(sql, clock)} AND due_at <= ${PgTypes.timestamptz(until)} AND ${isInShard(sql, "customer_id", lane)}
    ORDER BY due_at, rank, actor_id LIMIT ${maxRound(clock)}`
})

/**
 * Of timers in the order in which they are due, those that fire in one round: of each instant those that come first, unless
 * something of one of their customers is due before. Pure.
 */
export const batchOf = (next: ReadonlyArray<NextTimer>): ReadonlyArray<NextTimer> => {
  const busy = new Set<string>()
  return [...Map.groupBy(next, ({ due_at }) => due_at).values()].flatMap((instant) => {
    const [{ rank, actor_kind }] = instant as [NextTimer]
    const first = instant.filter((timer) => timer.rank === rank && timer.actor_kind === actor_kind)
    const isFree = !first.some(({ customer_id }) => busy.has(customer_id!))
    for (const { customer_id } of instant) busy.add(customer_id!)
    return isFree ? first : []
  })
}

/** Fires a round, in the caller's transaction. */
export const fireBatch = Effect.fnUntraced(function* <R>(
  handlers: ReadonlyArray<TimerHandler<R>>,
  clock: Ref,
  round: ReadonlyArray<NextTimer>,
) {
  const until = Math.max(...round.map(({ due_at }) => due_at))
  const after: Array<AfterCommit<R>> = []
  for (const [kind, its] of Map.groupBy(round, ({ actor_kind }) => actor_kind)) {
    const handler = handlers.find((handler) => handler.kind === kind)
    if (handler === undefined) return yield* Effect.die(new Error(`Nothing fires the timers of a ${kind}.`))
    const actors = its.map(({ actor_id: id }) => ({ ...tenantOf(clock), id }))
    after.push(yield* handler.fire(actors, until))
  }
  // Each of them lets go of what it has in hand, whatever becomes of the others.
  return Effect.flatMap(Effect.forEach(after, Effect.exit), (exits) => Effect.all(exits, { discard: true }))
})
