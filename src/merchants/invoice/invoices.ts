/** Drawing up, paying and voiding service invoices (decisions K4, K7). */
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
import { OWN_ACCOUNT } from "../../ledger/chart.ts"
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
/** The service's own books: an account without keys. */
const OWN_BOOKS = { account_id: OWN_ACCOUNT, livemode: true } as const
/** Writes that were under way when the month ended have been counted by then. */
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

/** What a transition does in the service's own books; an invoice over nothing does nothing there. */
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

/** Moves locked invoices by commands, in the running transaction; returns those that moved. */
const transitionInvoices = Effect.fnUntraced(function* (
  commands: ReadonlyArray<Command<typeof invoiceMachine, InvoiceRow>>,
) {
  const all = yield* Effect.forEach(advance(invoiceLifecycle, commands), outcomeOf)
  yield* commit(all.map(({ outcome }) => outcome))
  return all.map(({ row }) => row)
})

/** Accounts that are read at a time. */
const PAGE = 500

/** The next accounts that are billed for a month: those with access to live, since before its end, that have no invoice of it yet. */
const billed = Effect.fnUntraced(function* (period: Month, only: string | undefined, after: string) {
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

/** Draws up an account's invoice; somebody else may do so at once, and one of us does. */
const draw = Effect.fn("invoice.draw")(function* (account: AccountRow, period: Month, now: number) {
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
  const birth = start(invoiceMachine, { type: "create", at: now, dueAt: period.end + DUE_AFTER_MS })
  const row: InvoiceRow = {
    account_id: account.id,
    livemode: true,
    id: newId("invoice"),
    version: birth.version,
    test_clock_id: null,
    period_start_at: period.start,
    period_end_at: period.end,
    currency: CURRENCY,
    lines,
    total_kobo: totalOf(lines),
    vat_kobo: Math.max(0, vatIn(totalOf(lines), yield* VatRate)),
    created_at: now,
    ...invoices.snapshotColumns(birth.to, birth.decision.snapshot.context),
  }
  yield* commit([created(invoiceLifecycle, birth, row, { entries: booksOf(birth, row) })])
})

/**
 * Draws up the invoices of a month that are not drawn up yet. Late, twice or on two nodes: the result is one. Returns the accounts of which
 * none could be drawn up.
 */
export const drawInvoices = Effect.fn("invoice.drawAll")(function* (period: Month, only?: string) {
  const sql = yield* SqlClient.SqlClient
  const now = currentTime()
  const failed: Array<string> = []
  let accounts: ReadonlyArray<AccountRow> = yield* billed(period, only, "")
  while (accounts.length > 0) {
    for (const account of accounts) {
      // One that cannot be drawn up holds nobody else's back; it is tried again with the next round.
      yield* Effect.catchCause(sql.withTransaction(draw(account, period, now)), (cause) => {
        failed.push(account.id)
        return Effect.logError("invoice cannot be drawn up", { account: account.id }, cause)
      })
    }
    accounts = accounts.length < PAGE ? [] : yield* billed(period, only, accounts.at(-1)!.id)
  }
  return failed
})

/** The invoices of a month, of one account or of all. */
export const readInvoices = Effect.fnUntraced(function* (period: Month, only?: string) {
  const sql = yield* SqlClient.SqlClient
  return yield* sql<InvoiceRow>`
    SELECT * FROM invoice WHERE livemode AND period_start_at = ${PgTypes.timestamptz(period.start)} AND ${livesHere(sql, "invoice")}
      AND ${only === undefined ? sql`true` : sql`account_id = ${only}`} ORDER BY id`
})

/** Accounts that are not invoiced for a month, by why. */
export interface NotBilled {
  /** They have no access to live. */
  readonly without: number
  /** They were let into live after the month. */
  readonly later: number
  /** They are on their way to another cell, which invoices them. */
  readonly moving: number
}

/** Why accounts are not invoiced for a month, one or all that are here. */
export const readNotBilled = Effect.fnUntraced(function* (period: Month, only?: string) {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<NotBilled>`
    SELECT count(*) FILTER (WHERE stays AND NOT has_live) AS without, count(*) FILTER (WHERE stays AND has_live AND since >= ${PgTypes.timestamptz(period.end)}) AS later,
      count(*) FILTER (WHERE NOT stays) AS moving
    FROM (
      SELECT ${staysHere(sql, "a", "id")} AS stays, a.live_access IN ('approved', 'suspended') AS has_live, coalesce(a.live_since, a.created_at) AS since
      FROM account a WHERE a.id <> ${OWN_ACCOUNT} AND ${livesHere(sql, "a", "id")} AND ${only === undefined ? sql`true` : sql`a.id = ${only}`}
    ) a`
  return row!
})

/** The job of every minute: last month's invoices, once the month is well over. */
export const drawLastMonth = Effect.suspend(() => {
  const last = monthOf(currentTime(), -1)
  return currentTime() < last.end + COUNTED_AFTER_MS ? Effect.void : Effect.asVoid(drawInvoices(last))
})

/** An invoice of whatever account: its links name it alone. */
export const findInvoice = Effect.fnUntraced(function* (id: string) {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<InvoiceRow>`SELECT * FROM invoice i WHERE id = ${id} AND ${livesHere(sql, "i")}`
  return row
})

/** Moves an invoice by hand. Undefined: no such invoice; `refused`: not from where it stands. */
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

/** Invoices fall overdue on their day. */
export const invoiceTimers = timerHandler(
  invoiceLifecycle,
  (due: ReadonlyArray<Due<typeof invoiceMachine, InvoiceRow>>) => Effect.as(transitionInvoices(due), Effect.void),
)
