/** Creates, pays and voids service invoices (decisions K4, K7). */
import { PgTypes } from "@effect/sql-pg"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { totalOf } from "../../../machines/billing.ts"
import { allParamsOf, hasEffect } from "../../../machines/decide.ts"
import { type InvoicePosting, invoiceMachine } from "../../../machines/invoice.ts"
import { newId } from "../../base/ids.ts"
import { CURRENCY } from "../../base/money.ts"
import { DAY_MS, dayOf, MINUTE_MS } from "../../base/time.ts"
import { currentTime } from "../../base/wallClock.ts"
import { livesHere, refOf, staysHere } from "../../db/tenant.ts"
import { SERVICE_ACCOUNT } from "../../ledger/chart.ts"
import { entriesOf, type NewEntry, reverseOf } from "../../ledger/ledger.ts"
import { vatIn } from "../../ledger/postings.ts"
import { VatRate } from "../../ledger/VatRate.ts"
import { commit } from "../../runtime/commit.ts"
import { type Due, timerHandler } from "../../runtime/fire.ts"
import { advance, type Command, rowAfter, start, type Transition } from "../../runtime/lifecycle.ts"
import { created, transitioned } from "../../runtime/outcome.ts"
import type { AccountRow } from "../account/accounts.ts"
import { monthOf } from "../usage/allowances.ts"
import { planBefore, readPlanChanges, readUsage } from "../usage/usage.ts"
import { type InvoiceRow, invoiceLifecycle, invoices } from "./invoice.ts"
import { invoiceLines } from "./lines.ts"

const DUE_AFTER_MS = 7 * DAY_MS
/** The service's own books belong to an account without keys. */
const OWN_BOOKS = { account_id: SERVICE_ACCOUNT, livemode: true } as const
/** By then, writes that were running at the end of the month are counted. */
const COUNTED_AFTER_MS = 5 * MINUTE_MS

interface Month {
  readonly start: number
  readonly end: number
}

type InvoiceTransition = Transition<typeof invoiceMachine, InvoiceRow>

const entriesFor = (
  row: InvoiceRow,
  posting: InvoicePosting,
  at: number,
  reverses: string | null,
): ReadonlyArray<NewEntry> => {
  const about = {
    ...OWN_BOOKS,
    testClockId: null,
    day: dayOf(at),
  }
  const facts = { amountKobo: row.total_kobo, merchant: row.account_id, vatKobo: row.vat_kobo }
  return entriesOf(posting, row.id, about, facts, reverses)
}

/** Returns a transition's entries in the service's own books; none for an invoice over ₦0. */
const booksOf = (
  { decision, event }: Pick<InvoiceTransition, "decision" | "event">,
  row: InvoiceRow,
  reverses: string | null = null,
): ReadonlyArray<NewEntry> =>
  allParamsOf(decision, "post").flatMap(({ posting }) => entriesFor(row, posting, event.at, reverses))

const outcomeOf = Effect.fnUntraced(function* (transition: InvoiceTransition) {
  const voids = hasEffect(transition.decision, "post") && transition.to === "void"
  const row = rowAfter(invoiceLifecycle, transition)
  const reverses = voids ? yield* reverseOf(OWN_BOOKS, `invoiced:${row.id}`) : null
  return {
    row,
    outcome: transitioned(invoiceLifecycle, transition, row, { entries: booksOf(transition, row, reverses) }),
  }
})

/** Applies commands to locked invoices in the running transaction. Returns the invoices that changed. */
const transitionInvoices = Effect.fnUntraced(function* (
  commands: ReadonlyArray<Command<typeof invoiceMachine, InvoiceRow>>,
) {
  const all = yield* Effect.forEach(advance(invoiceLifecycle, commands), outcomeOf)
  yield* commit(all.map(({ outcome }) => outcome))
  return all.map(({ row }) => row)
})

/** Accounts read per statement. */
const PAGE = 500

/** Reads the next accounts to bill for a month: live access since before its end, and no invoice for it yet. */
const readBillable = Effect.fnUntraced(function* (period: Month, only: string | undefined, after: string) {
  const sql = yield* SqlClient.SqlClient
  return yield* sql<AccountRow>`
    SELECT a.* FROM account a
    WHERE ${staysHere(sql, "a", "id")} AND a.live_access IN ('approved', 'suspended')
      AND coalesce(a.live_since, a.created_at) < ${PgTypes.timestamptz(period.end)}
      AND ${only === undefined ? sql`true` : sql`a.id = ${only}`}
      AND NOT EXISTS (SELECT 1 FROM invoice i WHERE i.account_id = a.id AND i.livemode AND i.period_start_at = ${PgTypes.timestamptz(period.start)})
      AND a.id > ${after}
    ORDER BY a.id LIMIT ${PAGE}`
})

/** Creates an account's invoice. If two processes do so concurrently, one succeeds. */
const createInvoice = Effect.fn("invoice.create")(function* (account: AccountRow, period: Month, now: number) {
  const changes = yield* readPlanChanges(account.id)
  const used = (yield* readUsage(account.id, period.start)).get(period.start)
  const lines = invoiceLines({
    ...period,
    plan: planBefore(account, changes, period.start),
    changes: changes
      .filter(({ created_at: at }) => at >= period.start && at < period.end)
      .map(({ created_at: at, new_plan: to }) => ({ at, to })),
    writes: used?.write_requests ?? 0,
    nudges: used?.nudges ?? 0,
  })
  const first = start(invoiceMachine, { type: "create", at: now, dueAt: period.end + DUE_AFTER_MS })
  const row: InvoiceRow = {
    account_id: account.id,
    livemode: true,
    id: newId("invoice"),
    version: first.version,
    test_clock_id: null,
    period_start_at: period.start,
    period_end_at: period.end,
    currency: CURRENCY,
    lines,
    total_kobo: totalOf(lines),
    vat_kobo: Math.max(0, vatIn(totalOf(lines), yield* VatRate)),
    created_at: now,
    ...invoices.snapshotColumns(first.to, first.decision.snapshot.context),
  }
  yield* commit([created(invoiceLifecycle, first, row, { entries: booksOf(first, row) })])
})

/**
 * Creates the missing invoices of a month. Each account gets one, even if this runs late, twice or on two nodes. Returns the accounts
 * whose invoice failed.
 */
export const createInvoices = Effect.fn("invoice.createAll")(function* (period: Month, only?: string) {
  const sql = yield* SqlClient.SqlClient
  const now = currentTime()
  const failed: Array<string> = []
  let accounts: ReadonlyArray<AccountRow> = yield* readBillable(period, only, "")
  while (accounts.length > 0) {
    for (const account of accounts) {
      // A failed invoice does not block the others. The next run retries it.
      yield* Effect.catchCause(sql.withTransaction(createInvoice(account, period, now)), (cause) => {
        failed.push(account.id)
        return Effect.logError("cannot create the invoice", { account: account.id }, cause)
      })
    }
    accounts = accounts.length < PAGE ? [] : yield* readBillable(period, only, accounts.at(-1)!.id)
  }
  return failed
})

/** Reads the invoices of a month, of one account or of all. */
export const readInvoices = Effect.fnUntraced(function* (period: Month, only?: string) {
  const sql = yield* SqlClient.SqlClient
  return yield* sql<InvoiceRow>`
    SELECT * FROM invoice WHERE livemode AND period_start_at = ${PgTypes.timestamptz(period.start)} AND ${livesHere(sql, "invoice")}
      AND ${only === undefined ? sql`true` : sql`account_id = ${only}`} ORDER BY id`
})

/** The number of accounts without an invoice for a month, by reason. */
export interface NotBilled {
  /** No live access. */
  readonly without: number
  /** Live access since after the month. */
  readonly later: number
  /** Moving to another cell, which invoices them. */
  readonly moving: number
}

/** Counts the accounts that are not invoiced for a month, of one account or of all in this cell. */
export const readNotBilled = Effect.fnUntraced(function* (period: Month, only?: string) {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<NotBilled>`
    SELECT count(*) FILTER (WHERE stays AND NOT has_live) AS without, count(*) FILTER (WHERE stays AND has_live AND since >= ${PgTypes.timestamptz(period.end)}) AS later,
      count(*) FILTER (WHERE NOT stays) AS moving
    FROM (
      SELECT ${staysHere(sql, "a", "id")} AS stays, a.live_access IN ('approved', 'suspended') AS has_live, coalesce(a.live_since, a.created_at) AS since
      FROM account a WHERE a.id <> ${SERVICE_ACCOUNT} AND ${livesHere(sql, "a", "id")} AND ${only === undefined ? sql`true` : sql`a.id = ${only}`}
    ) a`
  return row!
})

/** Creates last month's invoices, once the month's usage is counted. A job runs this every minute. */
export const drawLastMonth = Effect.suspend(() => {
  const last = monthOf(currentTime(), -1)
  return currentTime() < last.end + COUNTED_AFTER_MS ? Effect.void : Effect.asVoid(createInvoices(last))
})

/** Finds an invoice of any account by ID, for links that name no account. */
export const findInvoice = Effect.fnUntraced(function* (id: string) {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<InvoiceRow>`SELECT * FROM invoice i WHERE id = ${id} AND ${livesHere(sql, "i")}`
  return row
})

/** Pays or voids an invoice by hand. Undefined: no such invoice; `refused`: not allowed from its current state. */
export const transitionInvoice = Effect.fn("invoice.move")(function* (id: string, type: "pay" | "void") {
  const sql = yield* SqlClient.SqlClient
  const work = Effect.gen(function* () {
    const found = yield* findInvoice(id)
    if (found === undefined) return undefined
    const [row] = yield* invoices.lock([refOf(found)])
    const [moved] = yield* transitionInvoices([{ row: row!, event: { type, at: currentTime() } }])
    return { invoice: moved ?? row!, refused: moved === undefined }
  })
  return yield* sql.withTransaction(work)
})

/** Marks invoices overdue on their due date. */
export const invoiceTimers = timerHandler(
  invoiceLifecycle,
  (due: ReadonlyArray<Due<typeof invoiceMachine, InvoiceRow>>) => Effect.as(transitionInvoices(due), Effect.void),
)
