/**
 * The books by day (table day_total). Each statement that writes lines or movements adds its totals as rows of its own to day_total_new, so
 * that no transaction waits for another. This worker merges them into day_total, one row a day. Sums over months then read some thousand
 * rows, however many payments they are of. Readers use the view day_total_all.
 */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { ofTenant, staysHere, type Tenant } from "../db/tenant.ts"
import { LOCKS } from "../postgres/advisoryLocks.ts"
import type { LedgerAccount } from "./chart.ts"

/** Rows merged by one statement: it takes some 50 ms. */
const MAX_MERGED = 5_000

/** A busy account writes some thousand rows in this time. */
export const MERGE_EVERY_MS = 5_000

/** Merges the new totals of all accounts, in batches, until a batch is not full. One process does it at a time. */
export const mergeDayTotals: Effect.Effect<void, never, SqlClient.SqlClient> = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const batch = Effect.gen(function* () {
    const [lock] = yield* sql<{ taken: boolean }>`SELECT pg_try_advisory_xact_lock(${LOCKS.dayTotals}, 0) AS taken`
    if (!lock!.taken) return 0
    const [merged] = yield* sql<{ rows: number }>`
      WITH gone AS (
        DELETE FROM day_total_new WHERE ctid = ANY(ARRAY(
          SELECT d.ctid FROM day_total_new d WHERE ${staysHere(sql, "d")} LIMIT ${MAX_MERGED})) RETURNING *
      ), merged AS (
        INSERT INTO day_total (account_id, livemode, measure, event, day, debit_kobo, credit_kobo, count)
        SELECT account_id, livemode, measure, event, day, sum(debit_kobo), sum(credit_kobo), sum(count) FROM gone
        GROUP BY account_id, livemode, measure, event, day
        ON CONFLICT ON CONSTRAINT day_total_pkey DO UPDATE
        SET debit_kobo = day_total.debit_kobo + excluded.debit_kobo, credit_kobo = day_total.credit_kobo + excluded.credit_kobo,
          count = day_total.count + excluded.count
      ) SELECT count(*)::integer AS rows FROM gone`
    return merged!.rows
  })
  let rows = MAX_MERGED
  while (rows === MAX_MERGED) rows = yield* sql.withTransaction(batch)
}).pipe(Effect.orDie)

/** What a day moved. */
export interface DayTotal {
  /** `YYYY-MM-DD`. */
  readonly day: string
  /** The rule of the entries, or the kind of the movements. */
  readonly event: string
  readonly debit_kobo: number
  readonly credit_kobo: number
  /** The number of lines or movements. */
  readonly count: number
}

export type Measure = LedgerAccount | "mrr"

/** Reads the days of a measure from one day to another, both included, in their order. */
export const readDays = Effect.fnUntraced(function* (tenant: Tenant, measure: Measure, from: string, to: string) {
  const sql = yield* SqlClient.SqlClient
  return yield* sql<DayTotal>`
    SELECT day::text AS day, event, sum(debit_kobo)::bigint AS debit_kobo, sum(credit_kobo)::bigint AS credit_kobo, sum(count)::bigint AS count
    FROM day_total_all WHERE ${ofTenant(sql, tenant)} AND measure = ${measure} AND day >= ${from}::date AND day <= ${to}::date
    GROUP BY day, event HAVING sum(count) <> 0 ORDER BY day, event`
})

export interface Balance {
  readonly measure: Measure
  readonly debit_kobo: number
  readonly credit_kobo: number
}

/** Reads the sums of measures up to the end of a day: of some, or of all. */
export const readBalances = Effect.fnUntraced(function* (
  tenant: Tenant,
  through: string,
  measures?: ReadonlyArray<Measure>,
) {
  const sql = yield* SqlClient.SqlClient
  return yield* sql<Balance>`
    SELECT measure, sum(debit_kobo)::bigint AS debit_kobo, sum(credit_kobo)::bigint AS credit_kobo
    FROM day_total_all WHERE ${ofTenant(sql, tenant)} AND day <= ${through}::date
      AND ${measures === undefined ? sql`true` : sql`measure = ANY(${measures}::text[])`}
    GROUP BY measure HAVING sum(count) <> 0`
})

/** Reads the newest day of a measure; an empty text: it has none. */
export const newestDay = Effect.fnUntraced(function* (tenant: Tenant, measure: Measure) {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<{ readonly day: string | null }>`
    SELECT max(day)::text AS day FROM day_total_all WHERE ${ofTenant(sql, tenant)} AND measure = ${measure} AND count > 0`
  return row?.day ?? ""
})
