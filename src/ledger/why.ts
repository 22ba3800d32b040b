/** Explains a balance: its entries, their charges, and the transitions that made them. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import type { Fragment } from "effect/sql/Statement"
import { inNaira } from "../base/money.ts"
import { withFullScans } from "../postgres/fullScan.ts"
import { type LedgerAccount, SERVICE_ACCOUNT } from "./chart.ts"
import { type EntryEvent, POSTINGS } from "./postings.ts"
import { readSteps, stepsOf } from "./steps.ts"

/** Selects a balance: an account's, or one customer's part in it, at the end of a day. */
export interface Question {
  readonly account: string
  readonly code: LedgerAccount
  readonly customer?: string | undefined
  /** `YYYY-MM-DD`. */
  readonly at?: string | undefined
}

/** The newest entries that are listed one by one. The sums include all. */
const MAX_ENTRIES = 100
/** The newest schedules that are listed. */
const MAX_SCHEDULES = 100

interface Sum {
  readonly livemode: boolean
  readonly event: EntryEvent
  readonly entries: number
  readonly kobo: number
}

interface EntryRow {
  readonly livemode: boolean
  readonly id: string
  readonly effective_on: string
  readonly event: EntryEvent
  readonly kobo: number
  readonly customer_id: string | null
  readonly subscription_id: string | null
  readonly bill_no: number | null
  readonly charge_id: string | null
  readonly plan_id: string | null
  readonly corrects: string | null
  /** Why a person booked it; null: the service did. */
  readonly reason: string | null
  /** The instalment plan of the deposit. */
  readonly instalment_plan_id: string | null
  /** Of the charge, if it has one. */
  readonly status: string | null
  readonly amount_kobo: number | null
  readonly rail: string | null
  readonly failure_code: string | null
  /** Days since the epoch. */
  readonly occurred_day: number
}

/** The SQL condition that entries `e` are of the customer. In the service's own books the customers are merchants, found by receivable lines. */
const isOf = (sql: SqlClient.SqlClient, { account, customer }: Question) => {
  if (customer === undefined) return sql`true`
  return account === SERVICE_ACCOUNT
    ? sql`EXISTS (
        SELECT FROM ledger_line m WHERE (m.account_id, m.livemode, m.entry_id) = (e.account_id, e.livemode, e.id) AND m.ledger_account = 'receivable' AND m.detail = ${customer})`
    : sql`e.customer_id = ${customer}`
}

/** Finds a customer in an account's books. In the service's own books the customers are the merchants. */
export const findCustomer = Effect.fnUntraced(function* (account: string, customer: string) {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* account === SERVICE_ACCOUNT
    ? sql<{ id: string }>`SELECT id FROM account WHERE id = ${customer}`
    : sql<{
        id: string
      }>`SELECT id FROM customer WHERE account_id = ${account} AND livemode IN (true, false) AND id = ${customer}`
  return row
})

/** The SQL condition on lines `l` and entries `e` of a question. */
const matches = (sql: SqlClient.SqlClient, question: Question) => sql`
  l.ledger_account = ${question.code} AND l.account_id = ${question.account}
  AND ${question.at === undefined ? sql`true` : sql`l.effective_on <= ${question.at}::date`} AND ${isOf(sql, question)}`

const readSums = (question: Question) =>
  Effect.flatMap(
    SqlClient.SqlClient,
    (sql) => sql<Sum>`
      SELECT e.livemode, e.event, count(DISTINCT e.id) AS entries, sum(l.amount_kobo)::bigint AS kobo
      FROM ledger_line l JOIN ledger_entry e ON (e.account_id, e.livemode, e.id) = (l.account_id, l.livemode, l.entry_id)
      WHERE ${matches(sql, question)}
      GROUP BY e.livemode, e.event ORDER BY e.livemode, abs(sum(l.amount_kobo)) DESC`,
  )

const readEntries = (question: Question) =>
  Effect.flatMap(
    SqlClient.SqlClient,
    (sql) => sql<EntryRow>`
      SELECT n.*, c.status, c.amount_kobo, c.rail, c.failure_code,
        CASE WHEN c.purpose = 'instalment' THEN c.page_id ELSE d.plan_id END AS instalment_plan_id
      FROM (
        SELECT e.livemode, e.id, e.effective_on::text AS effective_on, e.occurred_on - date '1970-01-01' AS occurred_day, e.event, sum(l.amount_kobo)::bigint AS kobo,
          e.customer_id, e.subscription_id, e.bill_no, e.charge_id, e.plan_id, e.corrects, e.reason
        FROM ledger_line l JOIN ledger_entry e ON (e.account_id, e.livemode, e.id) = (l.account_id, l.livemode, l.entry_id)
        WHERE ${matches(sql, question)}
        GROUP BY e.account_id, e.livemode, e.id ORDER BY e.id DESC LIMIT ${MAX_ENTRIES}
      ) n
      LEFT JOIN charge c ON (c.account_id, c.livemode, c.id) = (${question.account}, n.livemode, n.charge_id)
      LEFT JOIN LATERAL (
        SELECT l.detail AS plan_id FROM ledger_line l
        WHERE (l.account_id, l.livemode, l.entry_id) = (${question.account}, n.livemode, n.id) AND l.ledger_account = 'buyer_deposits'
        LIMIT 1
      ) d ON true
      ORDER BY n.id DESC`,
  )

/** Whether revenue by day is booked on an account, for all subscriptions of a plan together. */
const isRecognisedByDay = (code: LedgerAccount): boolean =>
  code === "deferred_revenue" || code === "subscription_revenue"

/**
 * Selects the schedules of a question, at the end of its day: the last day whose entries include parts of them, and the sum of those parts. A
 * day of a closed month counts from the day on which it was booked. Until the day that ends its parts, a schedule is shown as running. After
 * that day it is shown in its present state, even if its service was first interrupted and ended later. `first`: the order and limit, if any.
 */
const schedulesAsked = (sql: SqlClient.SqlClient, { account, customer, at }: Question, first: Fragment) => {
  const day = at ?? "8999-12-31"
  const booked =
    at === undefined
      ? sql`'infinity'::date`
      : sql`coalesce((
          SELECT max(e.occurred_on) FROM ledger_entry e
          WHERE (e.plan_id, e.account_id, e.livemode) = (s.plan_id, s.account_id, s.livemode) AND e.event = 'recognised' AND e.effective_on <= ${at}::date
            AND e.test_clock_id IS NOT DISTINCT FROM s.test_clock_id), '-infinity')`
  return sql`
    SELECT s.*, p.last_on, ${day}::date < s.until_on AS is_running,
      CASE WHEN s.end_on IS NULL OR p.last_on < s.from_on THEN 0 ELSE recognised_kobo(s.amount_kobo, s.start_on, s.end_on, p.last_on) END AS recognised_kobo
    FROM (
      SELECT s.*, b.posted_on
      FROM revenue_schedule s JOIN revenue_book b ON (b.account_id, b.livemode, b.id) = (s.account_id, s.livemode, coalesce(s.test_clock_id, 'wall'))
      WHERE s.account_id = ${account} AND ${customer === undefined ? sql`true` : sql`s.customer_id = ${customer}`} AND s.from_on <= ${day}::date
      ${first}
    ) s CROSS JOIN LATERAL (SELECT least(s.posted_on, s.until_on - 1, ${day}::date, ${booked}) AS last_on) p`
}

/** The revenue of a bill. */
interface ScheduleShown {
  readonly livemode: boolean
  readonly subscription: string
  readonly bill_no: number
  readonly plan: string
  readonly start_on: string
  readonly end_on: string | null
  readonly amount_kobo: number
  readonly recognised_kobo: number
  readonly recognised_at_once_kobo: number
  readonly moved_kobo: number
  readonly state: string
}

/** Reads the revenue of bills. */
const readSchedules = Effect.fnUntraced(function* (question: Question) {
  const sql = yield* SqlClient.SqlClient
  const order = sql`ORDER BY s.start_on DESC, s.subscription_id`
  return yield* sql<ScheduleShown>`
    SELECT livemode, subscription_id AS subscription, bill_no, plan_id AS plan, start_on::text AS start_on, end_on::text AS end_on, amount_kobo, recognised_kobo,
      CASE WHEN is_running THEN 0 ELSE adjusted_kobo END AS recognised_at_once_kobo, CASE WHEN is_running THEN 0 ELSE moved_kobo END AS moved_kobo,
      CASE WHEN is_running THEN 'running' ELSE state END AS state
    FROM (${schedulesAsked(sql, question, sql`${order} LIMIT ${MAX_SCHEDULES}`)}) s ${order}`
})

/** Reads one customer's part in the revenue by day. Its entries are for all subscriptions of a plan, and name no customer. */
const readDays = Effect.fnUntraced(function* (question: Question) {
  if (question.customer === undefined || !isRecognisedByDay(question.code)) return []
  const sql = yield* SqlClient.SqlClient
  const sign = question.code === "deferred_revenue" ? 1 : -1
  return yield* sql<Sum>`
    SELECT livemode, 'recognised' AS event, sum(last_on - from_on + 1)::integer AS entries, (${sign}::integer * sum(recognised_kobo))::bigint AS kobo
    FROM (${schedulesAsked(sql, question, sql.literal(""))}) s WHERE recognised_kobo > 0 GROUP BY livemode`
})

/** Explains a balance, in the running transaction. It may read all entries of an account. */
const explain = Effect.fnUntraced(function* (question: Question) {
  yield* withFullScans
  const sums = [...(yield* readSums(question)), ...(yield* readDays(question))]
  const all = yield* readEntries(question)
  const actors = all.flatMap(({ charge_id, subscription_id, instalment_plan_id }) =>
    [charge_id, subscription_id, instalment_plan_id].filter((id) => id !== null),
  )
  const journals = yield* readSteps(question.account, [...new Set(actors)])
  const environments = [...Map.groupBy(sums, ({ livemode }) => livemode)].map(([livemode, ofMode]) => {
    const balance = ofMode.reduce((sum, { kobo }) => sum + kobo, 0)
    return {
      livemode,
      balance_kobo: balance,
      balance_naira: inNaira(balance),
      because: ofMode.map(({ event, entries, kobo }) => ({ event, meaning: POSTINGS[event].meaning, entries, kobo })),
      entries: all
        .filter((one) => one.livemode === livemode)
        .map((one) => ({
          entry: one.id,
          effective_on: one.effective_on,
          event: one.event,
          kobo: one.kobo,
          customer: one.customer_id,
          subscription: one.subscription_id,
          bill_no: one.bill_no,
          plan: one.plan_id,
          instalment_plan: one.instalment_plan_id,
          corrects: one.corrects,
          reason: one.reason,
          charge:
            one.charge_id === null
              ? null
              : {
                  id: one.charge_id,
                  status: one.status,
                  amount_kobo: one.amount_kobo,
                  rail: one.rail,
                  failure_code: one.failure_code,
                },
          transitions: stepsOf(one, journals),
        })),
    }
  })
  return {
    account: question.account,
    ledger_account: question.code,
    customer: question.customer ?? null,
    at: question.at ?? null,
    environments,
    // Revenue by day is booked for all subscriptions of a plan together: the schedules are their parts.
    schedules: isRecognisedByDay(question.code) ? yield* readSchedules(question) : [],
  }
})

/** Explains a balance. */
export const why = Effect.fn("ledger.why")(function* (question: Question) {
  const sql = yield* SqlClient.SqlClient
  return yield* sql.withTransaction(explain(question))
})
