/**
 * Fires the due timers of a test clock. Customers of one clock are independent: a window of the clock's time is processed in batches, and
 * each batch fires the next timer of every customer. Each customer goes through its own time in order.
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
 * How many timers fire in one transaction. Larger batches cost less but delay requests: they are used only while all requests come from the
 * clock's own account, in the sandbox.
 */
const MAX_BATCH = 250
const MAX_BATCH_SERVING = 100

/** How many timers of a clock may fire in one transaction at present. */
const maxBatch = ({ account_id }: Ref): number => (isServing(account_id) ? MAX_BATCH_SERVING : MAX_BATCH)

/** With so many timers due in a window, several shards are faster than one: as many as a small batch has. */
export const MANY = MAX_BATCH_SERVING

const onClock = (sql: SqlClient.SqlClient, clock: Ref) => sql`${ofTenant(sql, clock)} AND test_clock_id = ${clock.id}`

/** A due timer of a clock: the fields that decide the order of firing. */
export type NextTimer = Pick<TimerRow, "actor_kind" | "actor_id" | "due_at" | "rank" | "customer_id">

/** A shard is a part of a clock's customers: every customer is in exactly one. */
export interface Shard {
  readonly no: number
  readonly of: number
}

/** The shard with all customers. */
export const ONE_SHARD: Shard = { no: 0, of: 1 }

/** Returns the predicate that the customer in `column` is in the shard. */
export const isInShard = (sql: SqlClient.SqlClient, column: string, { no, of }: Shard): Fragment =>
  of === 1 ? sql`true` : sql`hashtext(${sql(column)}) & ${of - 1} = ${no}`

/** Reads the first due timers of a clock's shard by `until`, in order: at most one batch. */
export const nextOnClock = Effect.fnUntraced(function* (clock: Ref, until: number, shard: Shard) {
  const sql = yield* SqlClient.SqlClient
  return yield* sql<NextTimer>`
    SELECT actor_kind, actor_id, due_at, rank, customer_id FROM timer
    WHERE ${onClock(sql, clock)} AND due_at <= ${PgTypes.timestamptz(until)} AND ${isInShard(sql, "customer_id", shard)}
    ORDER BY due_at, rank, actor_id LIMIT ${maxBatch(clock)}`
})

/**
 * Selects the timers that fire in one batch, from timers in due order: the first group of each instant, unless one of its customers has an
 * earlier timer. Pure.
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

/** Fires a batch, in the caller's transaction. Returns the work after the commit. */
export const fireBatch = Effect.fnUntraced(function* <R>(
  handlers: ReadonlyArray<TimerHandler<R>>,
  clock: Ref,
  batch: ReadonlyArray<NextTimer>,
) {
  const until = Math.max(...batch.map(({ due_at }) => due_at))
  const after: Array<AfterCommit<R>> = []
  for (const [kind, timers] of Map.groupBy(batch, ({ actor_kind }) => actor_kind)) {
    const handler = handlers.find((handler) => handler.kind === kind)
    if (handler === undefined) return yield* Effect.die(new Error(`Nothing fires the timers of a ${kind}.`))
    const actors = timers.map(({ actor_id: id }) => ({ ...tenantOf(clock), id }))
    after.push(yield* handler.fire(actors, until))
  }
  // Runs all of them even if one fails: each releases its rows.
  return Effect.flatMap(Effect.forEach(after, Effect.exit), (exits) => Effect.all(exits, { discard: true }))
})
