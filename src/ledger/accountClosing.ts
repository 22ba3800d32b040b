/**
 * Closes months of one account and opens them again, without touching the books of others. A closing holds from a moment after its commit on:
 * statements that begin then are refused entries in the month, or book them as corrections on the first open day (ledger.ts). No lock is
 * needed, because all parts of a statement compare the same time.
 */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { DAY_MS, formatDayOf, SECOND_MS } from "../base/time.ts"
import { currentTime } from "../base/wallClock.ts"
import { ofTenant, type Tenant } from "../db/tenant.ts"
import { LOCKS } from "../postgres/advisoryLocks.ts"
import { readSuspense } from "./accountBooks.ts"

/** How long after its beginning a closing holds: its commit takes milliseconds. */
const HOLDS_AFTER_MS = SECOND_MS
/** Statements that write entries end within this time (TenantDatabase). */
const WRITTEN_WITHIN_MS = 15 * SECOND_MS
const POLL_EVERY_MS = 50

export interface AccountClosing {
  readonly no: number
  readonly action: "close" | "reopen"
  readonly month: string
  readonly reason: string | null
  readonly at: number
  /** The last closed day after it. */
  readonly through: string
}

/** Which months of an account are closed, and by which closings. */
export interface ClosedState {
  /** `YYYY-MM` of the last month that the account closed; null: none. */
  readonly byAccount: string | null
  /** The same for the closing of all accounts, by the operator of the service. */
  readonly byService: string | null
  /** The newest first. */
  readonly closings: ReadonlyArray<AccountClosing>
}

const MAX_SHOWN = 50

/** Reads which months are closed. */
export const readClosed = Effect.fnUntraced(function* (tenant: Tenant) {
  const sql = yield* SqlClient.SqlClient
  const closings = yield* sql<AccountClosing>`
    SELECT no, action, to_char(month, 'YYYY-MM') AS month, reason, at, through::text AS through FROM account_closing
    WHERE ${ofTenant(sql, tenant)} ORDER BY no DESC LIMIT ${MAX_SHOWN}`
  const [service] = yield* sql<{ through: string }>`
    SELECT to_char(through, 'YYYY-MM') AS through FROM ledger_closing ORDER BY no DESC LIMIT 1`
  const [newest] = closings
  return {
    byAccount: newest === undefined ? null : newest.through.slice(0, 7),
    byService: service?.through ?? null,
    closings,
  } satisfies ClosedState
})

/** The last closed month; null: none. */
export const closedThrough = ({ byAccount, byService }: ClosedState): string | null =>
  byAccount === null || (byService !== null && byService > byAccount) ? byService : byAccount

/** The day after the last of a month `YYYY-MM`. */
const nextMonth = (month: string): string => {
  const [year, number] = month.split("-").map(Number) as [number, number]
  return formatDayOf(Date.UTC(year, number, 1))
}

const lastDay = (month: string): string => formatDayOf(Date.parse(`${nextMonth(month)}T00:00:00Z`) - DAY_MS)

/** What stands in the way of closing a month. */
export interface OpenItem {
  readonly kind: "suspense" | "exception" | "pending_charge" | "revenue"
  /** The reference or charge that it is about; null: none. */
  readonly about: string | null
  readonly kobo: number | null
  /** The day of it, `YYYY-MM-DD`; null: none. */
  readonly day: string | null
}

const MAX_ITEMS = 100

/** Reads what stands in the way of closing an account's books through a month, besides breaches of rules. */
export const readOpenItems = Effect.fnUntraced(function* (tenant: Tenant, month: string) {
  const sql = yield* SqlClient.SqlClient
  const mine = ofTenant(sql, tenant)
  const end = sql`${nextMonth(month)}::timestamp AT TIME ZONE 'UTC'`
  const suspense = (yield* readSuspense).filter((one) => one.month <= month)
  const others = yield* sql<OpenItem>`
    (SELECT 'pending_charge' AS kind, id AS about, amount_kobo AS kobo, (created_at AT TIME ZONE 'UTC')::date::text AS day FROM charge
      WHERE status = 'pending' AND ${mine} AND created_at < ${end} ORDER BY id LIMIT ${MAX_ITEMS})
    UNION ALL
    (SELECT 'exception', id, amount_kobo, (created_at AT TIME ZONE 'UTC')::date::text FROM charge
      WHERE contradictions <> '[]' AND ${mine} AND created_at < ${end} ORDER BY id LIMIT ${MAX_ITEMS})
    UNION ALL
    (SELECT 'exception', charge_id, heard_kobo, (at AT TIME ZONE 'UTC')::date::text FROM rail_exception WHERE ${mine} AND at < ${end} ORDER BY id LIMIT ${MAX_ITEMS})
    UNION ALL
    (SELECT 'exception', charge_id, amount_kobo, (requested_at AT TIME ZONE 'UTC')::date::text FROM refund
      WHERE status = 'failed' AND ${mine} AND requested_at < ${end} ORDER BY id LIMIT ${MAX_ITEMS})
    UNION ALL
    (SELECT 'revenue', NULL, NULL, CASE WHEN b.posted_on > '1970-01-01' THEN b.posted_on::text END FROM revenue_book b
      WHERE ${ofTenant(sql, tenant, "b")} AND b.id = 'wall' AND b.posted_on < least(${lastDay(month)}::date, ${formatDayOf(currentTime() - DAY_MS)}::date)
        AND EXISTS (SELECT 1 FROM revenue_schedule s WHERE coalesce(s.test_clock_id, 'wall') = 'wall' AND ${ofTenant(sql, tenant, "s")} AND s.until_on > b.posted_on + 1 AND s.from_on <= ${lastDay(month)}::date))`
  const items: ReadonlyArray<OpenItem> = [
    ...suspense.map(({ reference, amount_kobo, since }) => ({
      kind: "suspense" as const,
      about: reference,
      kobo: amount_kobo,
      day: since,
    })),
    ...others,
  ]
  return items.slice(0, MAX_ITEMS)
})

/** Adds a closing or a reopening, in the running transaction. Two at the same time: the second breaks the primary key and is tried again. */
const add = (
  tenant: Tenant,
  { action, month, through, reason }: Pick<AccountClosing, "action" | "month" | "through" | "reason">,
) =>
  Effect.flatMap(
    SqlClient.SqlClient,
    (sql) => sql`
      INSERT INTO account_closing (account_id, livemode, no, action, month, through, reason, at, holds_from)
      SELECT ${tenant.account_id}, ${tenant.livemode}, coalesce(max(no), 0) + 1, ${action}, ${`${month}-01`}::date, ${through}::date, ${reason}::text,
        clock_timestamp(), clock_timestamp() + ${`${HOLDS_AFTER_MS} ms`}::interval
      FROM account_closing WHERE ${ofTenant(sql, tenant)}`,
  )

/** Closes the months of an account up to this one, in the running transaction. {@link untilItHolds} follows the commit. */
export const closeMonth = (tenant: Tenant, month: string, reason: string | null) =>
  add(tenant, { action: "close", month, through: lastDay(month), reason })

/** Opens a month of an account and those after it again, in the running transaction. */
export const reopenMonth = (tenant: Tenant, month: string, reason: string) =>
  add(tenant, {
    action: "reopen",
    month,
    through: formatDayOf(Date.parse(`${month}-01T00:00:00Z`) - DAY_MS),
    reason,
  })

/** Waits until a closing holds, and until the transactions that began to write entries before have ended. */
export const untilItHolds = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  yield* Effect.sleep(HOLDS_AFTER_MS)
  const writers = sql<{ writer: string }>`
    SELECT virtualtransaction AS writer FROM pg_locks WHERE locktype = 'advisory' AND classid = ${LOCKS.books} AND objid = 0 AND mode = 'ShareLock'
      AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`
  const before = new Set((yield* writers).map(({ writer }) => writer))
  const since = performance.now()
  while (before.size > 0 && performance.now() - since < WRITTEN_WITHIN_MS) {
    yield* Effect.sleep(POLL_EVERY_MS)
    const now = new Set((yield* writers).map(({ writer }) => writer))
    for (const writer of before) if (!now.has(writer)) before.delete(writer)
  }
})
