/** A service invoice as the API shows it (spec 2.15), and its lifecycle. */
import { invoiceMachine } from "../../machines/invoice.ts"
import type { Lifecycle } from "../lifecycle/advance.ts"
import { formatInstant, formatInstantOrNull } from "../time.ts"
import { contextOf, type InvoiceRow } from "./rows.ts"

export const renderInvoice = (row: InvoiceRow, pdfUrl: string) => ({
  id: row.id,
  object: "invoice" as const,
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

export const invoiceLifecycle: Lifecycle<typeof invoiceMachine, InvoiceRow> = {
  kind: "invoice",
  machine: invoiceMachine,
  machineVersion: 1,
  ranks: { due: 0 },
  contextOf,
}
