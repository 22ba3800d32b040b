/** A service invoice: its table, its lifecycle and its rendering for the API. */
import { INVOICE_STATUSES, type InvoiceContext, type InvoiceStatus, invoiceMachine } from "../../../machines/invoice.ts"
import { CURRENCY } from "../../base/money.ts"
import { formatInstant, formatInstantOrNull } from "../../base/time.ts"
import * as column from "../../db/columns.ts"
import { actorTable, columnsOf, type RowOf } from "../../db/table.ts"
import { commonOf } from "../../http/response.ts"
import type { Lifecycle } from "../../runtime/lifecycle.ts"
import type { Invoice } from "./api.ts"
import type { InvoiceLine } from "./lines.ts"

const { immutable, mutable } = columnsOf<InvoiceContext>()

export const invoices = actorTable<InvoiceContext>()(
  "invoice",
  { noun: "invoice", ids: "invoice", once: "(period_start_at, account_id, livemode)" },
  {
    test_clock_id: immutable(column.nullable(column.text)),
    // The machine's states are the API's statuses. A draft is never stored.
    state: mutable(column.oneOf(INVOICE_STATUSES), (state) => state as InvoiceStatus),
    period_start_at: immutable(column.instant),
    period_end_at: immutable(column.instant),
    currency: immutable(column.oneOf([CURRENCY])),
    lines: immutable(column.json<ReadonlyArray<InvoiceLine>>()),
    total_kobo: immutable(column.bigint),
    vat_kobo: immutable(column.bigint),
    due_at: immutable(column.instant, "dueAt"),
    paid_at: mutable(column.nullable(column.instant), "paidAt"),
    created_at: immutable(column.instant),
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
  ...commonOf("invoice", row),
  status: row.state,
  period_start: formatInstant(row.period_start_at),
  period_end: formatInstant(row.period_end_at),
  currency: row.currency,
  lines: row.lines,
  total: row.total_kobo,
  vat: row.vat_kobo,
  due_at: formatInstant(row.due_at),
  paid_at: formatInstantOrNull(row.paid_at),
  pdf_url: pdfUrl,
})
