/** The timer table: which actor is due when. */
import { PgTypes } from "@effect/sql-pg"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { names, REF_COLUMNS, rowsAsTable } from "../db/rows.ts"
import type { Ref, Tenant } from "../db/tenant.ts"
import type { UnitOfWork } from "../db/UnitOfWork.ts"

export interface TimerRow extends Tenant {
  readonly actor_id: string
  readonly name: string
  readonly actor_kind: string
  readonly generation: number
  /** Milliseconds since the epoch, by the actor's clock. */
  readonly due_at: number
  readonly rank: number
  readonly event: string
  readonly test_clock_id: string | null
  /** On a test clock: the customer whose time decides. */
  readonly customer_id: string | null
}

export type TimerKey = Tenant & Pick<TimerRow, "actor_id" | "name">

const KEY = { account_id: "text", livemode: "boolean", actor_id: "text", name: "text" } as const

const TIMER = {
  ...KEY,
  actor_kind: "text",
  generation: "integer",
  due_at: "timestamptz",
  rank: "smallint",
  event: "text",
  test_clock_id: "text",
  customer_id: "text",
} as const

/** Sets timers; each replaces the actor's timer of the same name. */
export const setTimers = (unit: UnitOfWork, timers: ReadonlyArray<TimerRow>): void => {
  if (timers.length === 0) return
  const { sql } = unit
  const setting = sql`
    INSERT INTO timer (${names(TIMER)}) SELECT * FROM ${rowsAsTable(timers, TIMER)} r
    ON CONFLICT (account_id, livemode, actor_id, name) DO UPDATE
      SET generation = excluded.generation, due_at = excluded.due_at, rank = excluded.rank, event = excluded.event`
  unit.add([["timers_set", setting]])
}

/** Removes timers that exist. */
export const clearTimers = (unit: UnitOfWork, timers: ReadonlyArray<TimerKey>): void => {
  if (timers.length === 0) return
  const { sql } = unit
  const clearing = sql`
    DELETE FROM timer t USING ${rowsAsTable(timers, KEY)} r
    WHERE (t.account_id, t.livemode, t.actor_id, t.name) = (r.account_id, r.livemode, r.actor_id, r.name)`
  unit.add([["timers_cleared", clearing]])
}

/**
 * Takes the first timer due by `until` of each of these actors. A timer is deleted when it fires, in every case. The actors' rows must
 * be locked.
 */
export const takeFirstDue = Effect.fnUntraced(function* (actors: ReadonlyArray<Ref>, until: number) {
  const sql = yield* SqlClient.SqlClient
  return yield* sql<TimerRow>`
    DELETE FROM timer WHERE ctid = ANY (ARRAY(
      SELECT t.place FROM ${rowsAsTable(actors, REF_COLUMNS)} r CROSS JOIN LATERAL (
        SELECT ctid AS place FROM timer
        WHERE (account_id, livemode, actor_id) = (r.account_id, r.livemode, r.id) AND due_at <= ${PgTypes.timestamptz(until)}
        ORDER BY due_at, rank LIMIT 1
      ) t
    )) RETURNING *`
})
