/** A service invoice: its table, its lifecycle, and how the API shows it. */
import { INVOICE_STATUSES, type InvoiceContext, type InvoiceStatus, invoiceMachine } from "../../machines/invoice.ts"
import { actorTable, bigint, columnsOf, instant, json, nullable, oneOf, type RowOf, text } from "../db/table.ts"
import { CURRENCY } from "../money.ts"
import type { Lifecycle } from "../runtime/lifecycle.ts"
import { formatInstant, formatInstantOrNull } from "../time.ts"
import type { Invoice } from "./api.ts"
import type { InvoiceLine } from "./lines.ts"

const { fixed, moving } = columnsOf<InvoiceContext>()

export const invoices = actorTable<InvoiceContext>()(
  "invoice",
  { noun: "invoice", once: "(period_start_at, account_id, livemode)" },
  {
    test_clock_id: fixed(nullable(text)),
    // The machine's states are what the API shows; a draft is in no row.
    state: moving(oneOf(INVOICE_STATUSES), (state) => state as InvoiceStatus),
    period_start_at: fixed(instant),
    period_end_at: fixed(instant),
    currency: fixed(oneOf([CURRENCY])),
    lines: fixed(json<ReadonlyArray<InvoiceLine>>()),
    total_kobo: fixed(bigint),
    due_at: fixed(instant, "dueAt"),
    paid_at: moving(nullable(instant), "paidAt"),
    created_at: fixed(instant),
  },
)

export type InvoiceRow = RowOf<typeof invoices>

export const invoiceLifecycle: Lifecycle<typeof invoiceMachine, InvoiceRow> = {
  kind: "invoice",
  machine: invoiceMachine,
  machineVersion: 1,
  ranks: { due: 0 },
  table: invoices,
}

export const renderInvoice = (row: InvoiceRow, pdfUrl: string): typeof Invoice.Type => ({
  id: row.id,
  object: "invoice",
  livemode: row.livemode,
  created_at: formatInstant(row.created_at),
  status: row.state,
  period_start: formatInstant(row.period_start_at),
  period_end: formatInstant(row.period_end_at),
  currency: row.currency,
  lines: row.lines,
  total: row.total_kobo,
  due_at: formatInstant(row.due_at),
  paid_at: formatInstantOrNull(row.paid_at),
  pdf_url: pdfUrl,
})
