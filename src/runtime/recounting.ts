/**
 * Recounting counts the actors of a tenant from their rows (decision R11): at first, after it arrived from another cell, and after actors of
 * its sandbox were deleted. It reads everything in one snapshot; counting.ts then adds what the snapshot did not see.
 */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { MINUTE_MS, SECOND_MS } from "../base/time.ts"
import { rowsAsTable } from "../db/rows.ts"
import { livesHere, ofTenant, staysHere, type Tenant, tenantOf } from "../db/tenant.ts"
import { withFullScans } from "../postgres/fullScan.ts"
import { every } from "../process/workers.ts"
import { AMOUNTS, countJournal, KEPT_ARROWS_MS, PLACE, purgeArrows, TRIGGER } from "./counting.ts"
import { ACTOR_KINDS } from "./lifecycle.ts"

/** Pages are this much behind, and a counting of nothing costs the database about a millisecond. */
const COUNT_EVERY_MS = 2 * SECOND_MS
/** Tenants that are counted in a row; the others follow at the next look. */
const MAX_TENANTS = 50
/** While a deletion runs, each of its batches outdates the counts: they follow at this interval, and when it has ended. */
const DURING_DELETION = "10 seconds"
/** A tenant is counted again after a pause of so many times what counting it took. */
const PAUSE_FACTOR = 10

const STATES = { kind: "text", state: "text", actors: "bigint", kobo: "bigint" } as const
const ARROWS = {
  kind: "text",
  hour: "timestamptz",
  from_state: "text",
  to_state: "text",
  trigger: "text",
  transitions: "bigint",
} as const

interface StateRow {
  readonly kind: string
  readonly state: string
  readonly actors: number
  readonly kobo: number
}

interface ArrowRow {
  readonly kind: string
  readonly hour: number
  readonly from_state: string
  readonly to_state: string
  readonly trigger: string
  readonly transitions: number
}

/** Endpoints are few, and a page counts their rows (counts.ts). */
const COUNTED = ACTOR_KINDS.filter((kind) => kind !== "webhook_endpoint")

/** Counts a tenant's actors and transitions, and returns the snapshot that saw them. */
const readAll = Effect.fnUntraced(function* (tenant: Tenant) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY`.unprepared
  yield* withFullScans
  yield* sql`SELECT set_config('plan_cache_mode', 'force_custom_plan', true)`
  const [seen] = yield* sql<{ snapshot: string; outdated: ReadonlyArray<string> }>`
    SELECT pg_current_snapshot()::text AS snapshot, ARRAY(SELECT xid::text FROM state_outdated WHERE ${ofTenant(sql, tenant)}) AS outdated`
  const states = yield* Effect.forEach(
    COUNTED,
    (kind) => sql<StateRow>`
      SELECT ${kind}::text AS kind, state, count(*)::bigint AS actors, coalesce(sum(${sql.literal(AMOUNTS[kind] ?? "0")}), 0)::bigint AS kobo
      FROM ${sql(kind)} WHERE ${ofTenant(sql, tenant)} AND version > 0 GROUP BY state`,
  )
  const arrows = yield* sql<ArrowRow>`
    SELECT actor_kind AS kind, date_trunc('hour', recorded_at, 'UTC') AS hour, from_state, to_state, ${sql.literal(TRIGGER)} AS trigger,
      count(*)::bigint AS transitions
    FROM lifecycle_journal WHERE ${ofTenant(sql, tenant)} AND recorded_at > now() - ${KEPT_ARROWS_MS} * interval '1 millisecond'
    GROUP BY 1, 2, 3, 4, 5`
  return { ...seen!, states: states.flat(), arrows }
})

/** Replaces a tenant's counts. The position is locked: no counting of the journal runs meanwhile. */
const write = Effect.fnUntraced(function* (
  tenant: Tenant,
  counted: Effect.Success<ReturnType<typeof readAll>>,
  tookMs: number,
) {
  const sql = yield* SqlClient.SqlClient
  const { snapshot, outdated, states, arrows } = counted
  const { account_id, livemode } = tenant
  yield* sql`SELECT 1 FROM journal_position FOR UPDATE`
  const [stays] = yield* sql`SELECT 1 FROM account t WHERE id = ${account_id} AND ${staysHere(sql, "t", "id")}`
  if (stays === undefined) return
  yield* sql`DELETE FROM state_count WHERE ${ofTenant(sql, tenant)}`
  yield* sql`DELETE FROM arrow_count WHERE ${ofTenant(sql, tenant)}`
  yield* sql`
    INSERT INTO state_count (account_id, livemode, kind, state, actors, kobo)
    SELECT ${account_id}, ${livemode}::boolean, r.* FROM ${rowsAsTable(states, STATES)} r`
  yield* sql`
    INSERT INTO arrow_count (account_id, livemode, kind, hour, from_state, to_state, trigger, transitions)
    SELECT ${account_id}, ${livemode}::boolean, r.* FROM ${rowsAsTable(arrows, ARROWS)} r`
  yield* sql`
    INSERT INTO state_counted (account_id, livemode, counted_in, counted_at, took_ms, snapshot)
    VALUES (${account_id}, ${livemode}, ${sql.literal(PLACE)}, now(), ${Math.ceil(tookMs)}::integer, ${snapshot}::text::pg_snapshot)
    ON CONFLICT (account_id, livemode) DO UPDATE SET counted_in = excluded.counted_in, counted_at = excluded.counted_at,
      took_ms = excluded.took_ms, snapshot = excluded.snapshot`
  yield* sql`DELETE FROM state_outdated WHERE ${ofTenant(sql, tenant)} AND xid = ANY(${outdated}::text[]::bigint[])`
})

/** Counts tenants from their rows, one after the other. */
export const recount = Effect.fn("counts.recount")(function* (tenants: ReadonlyArray<Tenant>) {
  const sql = yield* SqlClient.SqlClient
  for (const tenant of tenants.map(tenantOf)) {
    const startedAt = performance.now()
    const counted = yield* sql.withTransaction(readAll(tenant))
    yield* sql.withTransaction(write(tenant, counted, performance.now() - startedAt))
  }
})

/** Counts the sandboxes again in which actors were deleted. */
const recountOutdated = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const outdated = yield* sql<Tenant>`
    SELECT DISTINCT o.account_id, o.livemode FROM state_outdated o LEFT JOIN state_counted c ON (c.account_id, c.livemode) = (o.account_id, o.livemode)
    WHERE ${staysHere(sql, "o")} AND (c.account_id IS NULL OR c.counted_at < now() - ${PAUSE_FACTOR} * c.took_ms * interval '1 millisecond' AND (
      c.counted_at < now() - ${DURING_DELETION}::interval
      OR NOT EXISTS (SELECT 1 FROM deletion d WHERE (d.account_id, d.livemode) = (o.account_id, o.livemode))))
    LIMIT ${MAX_TENANTS}`
  yield* recount(outdated)
})

/** Counts the accounts that were never counted in this database, and those that were skipped while they were moving and stay. */
export const recountNew = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const found = yield* sql<Tenant>`
    SELECT a.id AS account_id, l.livemode FROM account a CROSS JOIN unnest(ARRAY[true, false]) l (livemode) CROSS JOIN journal_position p
    WHERE ${livesHere(sql, "a", "id")} AND ${staysHere(sql, "a", "id")} AND (a.id = ANY(p.skipped) OR NOT EXISTS (
      SELECT 1 FROM state_counted c WHERE (c.account_id, c.livemode, c.counted_in) = (a.id, l.livemode, ${sql.literal(PLACE)})))
    LIMIT ${MAX_TENANTS}`
  yield* recount(found)
  const names = [...new Set(found.map(({ account_id }) => account_id))]
  if (names.length > 0)
    yield* sql.withTransaction(
      sql`UPDATE journal_position SET skipped = ARRAY(SELECT unnest(skipped) EXCEPT SELECT unnest(${names}::text[]))`,
    )
})

/** Keeps all counts while the scope is open. */
export const countsWorker = Effect.gen(function* () {
  yield* every("counts", COUNT_EVERY_MS, Effect.flatMap(countJournal(), recount))
  yield* every("outdated counts", COUNT_EVERY_MS, recountOutdated)
  yield* every("new counts", MINUTE_MS, recountNew)
  yield* every("old counts", MINUTE_MS, purgeArrows)
})
