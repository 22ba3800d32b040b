/** Drawing up, paying and voiding service invoices (spec 2.15; decisions K4, K7). */
import { PgTypes } from "@effect/sql-pg"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import type { TimedEvent } from "../../machines/decide.ts"
import type { invoiceMachine } from "../../machines/invoice.ts"
import { type AccountRow, OWN_ACCOUNT } from "../account/Accounts.ts"
import { refOf } from "../db/tenant.ts"
import { newId } from "../ids.ts"
import { type NewEntry, postEntries, reverseOf } from "../ledger/Ledger.ts"
import * as postings from "../ledger/postings.ts"
import { advance, type Transition } from "../lifecycle/advance.ts"
import { recordTransitions } from "../lifecycle/commit.ts"
import { DAY_MS } from "../time.ts"
import { clearTimers } from "../timers/rows.ts"
import { firing } from "../timers/sweep.ts"
import { monthOf } from "../usage/allowances.ts"
import { planBefore, readPlanChanges, readUsage } from "../usage/Usage.ts"
import { invoiceLifecycle } from "./Invoice.ts"
import { invoiceLines, totalOf } from "./lines.ts"
import { type InvoiceRow, insertInvoices, lockInvoices, updateInvoices } from "./rows.ts"

const DUE_AFTER_MS = 7 * DAY_MS
/** The service's own books: an account without keys. */
const OWN_BOOKS = { account_id: OWN_ACCOUNT, livemode: true } as const
/** Writes that were under way when the month ended have been counted by then. */
const SETTLE_MS = 5 * 60_000

const RULES = {
  invoiced: postings.invoiced,
  invoice_paid: postings.invoicePaid,
  invoice_voided: postings.invoiceVoided,
} as const

/** Writes transitions of locked invoices: rows, journal and timers, and the service's own books. */
const commit = (transitions: ReadonlyArray<Transition<typeof invoiceMachine, InvoiceRow>>) =>
  Effect.gen(function* () {
    const rows = transitions.map(
      ({ row, decision, to, version }): InvoiceRow => ({
        ...row,
        state: to as InvoiceRow["state"],
        version,
        paid_at: decision.snapshot.context.paidAt,
      }),
    )
    yield* updateInvoices(rows)
    yield* recordTransitions(invoiceLifecycle, transitions)
    const entries: Array<NewEntry> = []
    for (const { row, decision, event } of transitions) {
      for (const { type, params } of decision.effects) {
        if (type !== "post" || row.total_kobo === 0) continue
        const posting = params.posting as keyof typeof RULES
        const reverses = posting === "invoice_voided" ? yield* reverseOf(OWN_BOOKS, `invoiced:${row.id}`) : null
        entries.push({
          ...OWN_BOOKS,
          event: posting,
          idempotencyKey: `${posting}:${row.id}`,
          customerId: null,
          subscriptionId: null,
          chargeId: null,
          reverses,
          at: event.at,
          lines: RULES[posting](row.total_kobo, row.account_id),
        })
      }
    }
    yield* postEntries(entries)
    return rows
  })

/** The accounts that are billed for a month: those with access to live that were there before its end. */
const billed = (period: { readonly start: number; readonly end: number }, only: string | undefined) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    return yield* sql<AccountRow>`
      SELECT a.* FROM account a
      WHERE a.live_access IN ('approved', 'suspended') AND a.created_at < ${PgTypes.timestamptz(period.end)}
        AND ${only === undefined ? sql`true` : sql`a.id = ${only}`}
        AND NOT EXISTS (SELECT 1 FROM invoice i WHERE i.account_id = a.id AND i.livemode AND i.period_start_at = ${PgTypes.timestamptz(period.start)})
      ORDER BY a.id`
  })

const draw = (account: AccountRow, period: { readonly start: number; readonly end: number }, now: number) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    return yield* sql.withTransaction(
      Effect.gen(function* () {
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
        const row: InvoiceRow = {
          account_id: account.id,
          livemode: true,
          id: newId("invoice"),
          state: "open",
          version: 0,
          test_clock_id: null,
          period_start_at: period.start,
          period_end_at: period.end,
          currency: "NGN",
          lines,
          total_kobo: totalOf(lines),
          due_at: period.end + DUE_AFTER_MS,
          paid_at: null,
          created_at: now,
        }
        // Somebody else may have drawn it up meanwhile: one of us does.
        const inserted = yield* insertInvoices([row])
        const drafts = inserted.map((made): InvoiceRow => ({ ...made, state: "drafted" }))
        const event = { type: "create", at: now }
        yield* commit(
          advance(
            invoiceLifecycle,
            drafts.map((draft) => ({ row: draft, event })),
          ),
        )
      }),
    )
  })

/** Draws up the invoices of a month that are not drawn up yet. Late, twice or on two nodes: the result is one. */
export const drawInvoices = (period: { readonly start: number; readonly end: number }, only?: string) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const now = Date.now()
    for (const account of yield* billed(period, only)) {
      // One that cannot be drawn up holds nobody else's back; it is tried again with the next round.
      yield* draw(account, period, now).pipe(
        Effect.catchCause((cause) => Effect.logError("invoice cannot be drawn up", { account: account.id }, cause)),
      )
    }
    return yield* sql<InvoiceRow>`
      SELECT * FROM invoice WHERE livemode AND period_start_at = ${PgTypes.timestamptz(period.start)}
        AND ${only === undefined ? sql`true` : sql`account_id = ${only}`} ORDER BY id`
  })

/** The job of every minute: last month's invoices, once the month is well over. */
export const drawLastMonth = Effect.suspend(() => {
  const last = monthOf(Date.now(), -1)
  return Date.now() < last.end + SETTLE_MS ? Effect.succeed([]) : drawInvoices(last)
})

export const findInvoice = (id: string) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const [row] = yield* sql<InvoiceRow>`SELECT * FROM invoice WHERE id = ${id}`
    return row
  })

/** Moves an invoice by hand. Undefined: no such invoice; "refused": not from where it stands. */
export const moveInvoice = (id: string, type: "pay" | "void") =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    return yield* sql.withTransaction(
      Effect.gen(function* () {
        const found = yield* findInvoice(id)
        if (found === undefined) return undefined
        const [row] = yield* lockInvoices([refOf(found)])
        const event: TimedEvent = { type, at: Date.now() }
        const [moved] = yield* commit(advance(invoiceLifecycle, [{ row: row!, event }]))
        return { invoice: moved ?? row!, refused: moved === undefined }
      }),
    )
  })

/** Invoices fall overdue on their day. */
export const invoiceFiring = firing({
  kind: "invoice",
  lock: lockInvoices,
  fire: (due) =>
    Effect.gen(function* () {
      const transitions = advance(invoiceLifecycle, due)
      yield* commit(transitions)
      const heeded = new Set(transitions.map(({ row }) => row.id))
      const ignored = due.filter(({ row }) => !heeded.has(row.id))
      yield* clearTimers(ignored.map(({ row }) => ({ ...refOf(row), actor_id: row.id, name: "due" })))
      return Effect.void
    }),
})
