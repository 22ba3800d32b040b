/** A service invoice: its table, its lifecycle, and how the API shows it. */
import { INVOICE_STATUSES, type InvoiceContext, type InvoiceStatus, invoiceMachine } from "../../../machines/invoice.ts"
import { CURRENCY } from "../../base/money.ts"
import { formatInstant, formatInstantOrNull } from "../../base/time.ts"
import * as Kind from "../../db/columns.ts"
import { actorTable, columnsOf, type RowOf } from "../../db/table.ts"
import { commonOf } from "../../http/response.ts"
import type { Lifecycle } from "../../runtime/lifecycle.ts"
import type { Invoice } from "./api.ts"
import type { InvoiceLine } from "./lines.ts"

const { fixed, moving } = columnsOf<InvoiceContext>()

export const invoices = actorTable<InvoiceContext>()(
  "invoice",
  { noun: "invoice", ids: "invoice", once: "(period_start_at, account_id, livemode)" },
  {
    test_clock_id: fixed(Kind.nullable(Kind.text)),
    // The machine's states are what the API shows; a draft is in no row.
    state: moving(Kind.oneOf(INVOICE_STATUSES), (state) => state as InvoiceStatus),
    period_start_at: fixed(Kind.instant),
    period_end_at: fixed(Kind.instant),
    currency: fixed(Kind.oneOf([CURRENCY])),
    lines: fixed(Kind.json<ReadonlyArray<InvoiceLine>>()),
    total_kobo: fixed(Kind.bigint),
    vat_kobo: fixed(Kind.bigint),
    due_at: fixed(Kind.instant, "dueAt"),
    paid_at: moving(Kind.nullable(Kind.instant), "paidAt"),
    created_at: fixed(Kind.instant),
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
