/** One account's books, as the tenant sees them: ledger accounts by day, lines of a day, one entry with its cause, rules and suspense. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { ofTenant, type Tenant } from "../db/tenant.ts"
import type { LedgerAccount } from "./chart.ts"
import type { Measure } from "./dayTotals.ts"
import type { EntryEvent } from "./postings.ts"
import { readSteps, stepsOf } from "./steps.ts"

export interface ChartAccount {
  readonly code: LedgerAccount
  readonly name: string
  readonly kind: string
}

export const readChart = Effect.flatMap(
  SqlClient.SqlClient,
  (sql) => sql<ChartAccount>`SELECT code, name, kind FROM ledger_account ORDER BY code`,
)

/** A day of a ledger account. */
export interface BookDay {
  readonly day: string
  readonly debit_kobo: number
  readonly credit_kobo: number
  /** At the end of the day; debits are positive. */
  readonly balance_kobo: number
  readonly lines: number
}

/** Reads the days of a ledger account with their balances, the newest first, before a day. */
export const readBookDays = Effect.fnUntraced(function* (tenant: Tenant, code: Measure, before: string, limit: number) {
  const sql = yield* SqlClient.SqlClient
  return yield* sql<BookDay>`
    SELECT day::text AS day, debit_kobo, credit_kobo, balance_kobo, lines FROM (
      SELECT day, sum(debit_kobo)::bigint AS debit_kobo, sum(credit_kobo)::bigint AS credit_kobo, sum(count)::bigint AS lines,
        (sum(sum(debit_kobo - credit_kobo)) OVER (ORDER BY day))::bigint AS balance_kobo
      FROM day_total_all WHERE ${ofTenant(sql, tenant)} AND measure = ${code} AND day < ${before}::date
      GROUP BY day HAVING sum(count) <> 0
    ) d ORDER BY d.day DESC LIMIT ${limit}`
})

/** The months that have entries, the newest first: at most three years. */
const MAX_MONTHS = 36

/** Reads the months of the books, as `YYYY-MM`, the newest first. */
export const readMonths = Effect.fnUntraced(function* (tenant: Tenant) {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<{ month: string }>`
    SELECT DISTINCT to_char(d.day, 'YYYY-MM') AS month FROM (
      SELECT day FROM day_total_all WHERE ${ofTenant(sql, tenant)} AND measure <> 'mrr' GROUP BY day HAVING sum(count) <> 0
    ) d ORDER BY 1 DESC LIMIT ${MAX_MONTHS}`
  return rows.map(({ month }) => month)
})

/** A line of a day, with its entry. */
export interface BookLine {
  /** The place of the line: the cursor of the next page. */
  readonly place: string
  readonly entry: string
  readonly event: EntryEvent
  readonly detail: string | null
  readonly amount_kobo: number
  readonly charge_id: string | null
  readonly subscription_id: string | null
  readonly reason: string | null
}

/** Lines of one day that can be listed; an export has all. */
const MAX_DAY_LINES = 10_000

/** Reads the lines of a ledger account on a day, in the order of their entries, after a place. */
export const readBookLines = Effect.fnUntraced(function* (
  tenant: Tenant,
  code: LedgerAccount,
  day: string,
  after: string,
  limit: number,
) {
  const sql = yield* SqlClient.SqlClient
  return yield* sql<BookLine>`
    SELECT l.place, e.id AS entry, e.event, l.detail, l.amount_kobo, e.charge_id, e.subscription_id, e.reason
    FROM (
      SELECT * FROM (
        SELECT account_id, livemode, entry_id, detail, amount_kobo, entry_id || '-' || line_no AS place FROM ledger_line
        WHERE ledger_account = ${code} AND ${ofTenant(sql, tenant)} AND effective_on = ${day}::date LIMIT ${MAX_DAY_LINES}
      ) d WHERE d.place > ${after} COLLATE "C" ORDER BY d.place COLLATE "C" LIMIT ${limit}
    ) l JOIN ledger_entry e ON (e.account_id, e.livemode, e.id) = (l.account_id, l.livemode, l.entry_id)
    ORDER BY l.place COLLATE "C"`
})

interface EntryRow {
  readonly id: string
  readonly event: EntryEvent
  readonly effective_on: string
  readonly occurred_on: string
  readonly occurred_day: number
  readonly posted_at: number
  readonly customer_id: string | null
  readonly subscription_id: string | null
  readonly bill_no: number | null
  readonly charge_id: string | null
  readonly plan_id: string | null
  readonly corrects: string | null
  readonly reverses: string | null
  readonly reason: string | null
  readonly instalment_plan_id: string | null
  readonly lines: ReadonlyArray<{
    readonly account: LedgerAccount
    readonly detail: string | null
    readonly kobo: number
  }>
}

/** Reads an entry with its lines and the transitions that made it; undefined: there is none. */
export const readEntry = Effect.fnUntraced(function* (tenant: Tenant, id: string) {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<EntryRow>`
    SELECT e.id, e.event, e.effective_on::text AS effective_on, e.occurred_on::text AS occurred_on, e.occurred_on - date '1970-01-01' AS occurred_day,
      e.posted_at, e.customer_id, e.subscription_id, e.bill_no, e.charge_id, e.plan_id, e.corrects, e.reverses, e.reason,
      (SELECT min(l.detail) FROM ledger_line l
        WHERE (l.account_id, l.livemode, l.entry_id) = (e.account_id, e.livemode, e.id) AND l.ledger_account = 'buyer_deposits') AS instalment_plan_id,
      (SELECT jsonb_agg(jsonb_build_object('account', l.ledger_account, 'detail', l.detail, 'kobo', l.amount_kobo) ORDER BY l.line_no)
        FROM ledger_line l WHERE (l.account_id, l.livemode, l.entry_id) = (e.account_id, e.livemode, e.id)) AS lines
    FROM ledger_entry e WHERE ${ofTenant(sql, tenant, "e")} AND e.id = ${id}`
  if (row === undefined) return undefined
  const actors = [row.charge_id, row.subscription_id, row.instalment_plan_id].filter((actor) => actor !== null)
  return { ...row, transitions: stepsOf(row, yield* readSteps(tenant.account_id, actors)) }
})

/** A rule of the books, with a breach or null. */
export interface RuleChecked {
  readonly rule: string
  readonly meaning: string
  readonly problem: string | null
}

/** Checks every rule on the rows of the running tenant. It reads all its entries. */
export const checkRules = Effect.flatMap(
  SqlClient.SqlClient,
  (sql) => sql<RuleChecked>`SELECT rule, meaning, problem FROM account_rules()`,
)

/** Checking the rules on so many entries takes less than 100 ms. */
const QUICKLY_CHECKED = 5_000

/** Whether the books of the running tenant's account are so small that a page can check the rules while it is read. A check reads both environments. */
export const isQuicklyChecked = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<{ entries: number }>`SELECT account_entries(${QUICKLY_CHECKED + 1}) AS entries`
  return row!.entries <= QUICKLY_CHECKED
})

/** A balance in suspense. */
export interface InSuspense {
  /** `YYYY-MM` of the settlement. */
  readonly month: string
  readonly since: string
  readonly rail: string
  readonly reference: string
  /** Above zero: the rail paid out too little. */
  readonly amount_kobo: number
}

/** Reads what is in suspense in the running tenant's books, the oldest first. */
export const readSuspense = Effect.flatMap(
  SqlClient.SqlClient,
  (sql) => sql<InSuspense>`
    SELECT to_char(month, 'YYYY-MM') AS month, since::text AS since, rail, reference, amount_kobo FROM account_suspense()`,
)
