/** Renders the service's invoices to the merchant, and the usage that the next one will bill. */
import type { Invoice } from "../../merchants/invoice/api.ts"
import type { Usage } from "../../merchants/usage/api.ts"
import { type Html, html } from "../html.ts"
import { type Choice, fieldRow, NOTHING_WRONG } from "./fields.ts"
import {
  empty,
  facts,
  naira,
  notice,
  type Pages,
  pageHead,
  pager,
  section,
  status,
  table,
  when,
  words,
} from "./parts.ts"

type Row = typeof Invoice.Type

export interface InvoicesView {
  readonly base: string
  readonly isSandbox: boolean
  readonly path: string
  readonly rows: ReadonlyArray<Row>
  readonly usage: typeof Usage.Type
  /** The chosen status; empty: all. */
  readonly status: string
  readonly statuses: ReadonlyArray<Choice>
  readonly pages: Pages
}

const number = (value: number | null): string => (value === null ? "unlimited" : value.toLocaleString("en"))

/** This month's usage, and what it costs beyond the plan. */
const usageOf = ({ usage }: InvoicesView): Html => {
  const { plan, period, write_requests: writes, nudges } = usage
  const overage = writes.projected_overage_amount + nudges.overage_amount
  return section(
    `This month until now: ${overage === 0 ? "nothing beyond your plan" : `${naira(overage)} beyond your plan`}`,
    facts([
      ["Plan", plan],
      ["Month", period.start.slice(0, 7)],
      ["Write requests in live", `${number(writes.used)}, ${number(writes.included)} included`],
      ["Write requests beyond the plan", `${number(writes.overage)}, for ${naira(writes.projected_overage_amount)}`],
      ["Reminders", `${number(nudges.used)}, ${number(nudges.included)} included`],
      ["Reminders beyond the plan", `${number(nudges.overage)}, for ${naira(nudges.overage_amount)}`],
    ]),
  )
}

const filterForm = ({ path, status, statuses }: InvoicesView): Html =>
  html`<form class="filters" action="${path}">${fieldRow(
    { name: "status", label: "Status", kind: "select", choices: statuses, isFilter: true },
    new Map([["status", [status]]]),
    NOTHING_WRONG,
  )}<button class="plain">Filter</button></form>
`

export const invoicesMain = (view: InvoicesView): Html => {
  const { base, isSandbox, rows, pages, status: chosen } = view
  const head = pageHead("Invoices", "What this service costs you.")
  if (isSandbox)
    return html`${head}${notice("note", html`<p>The sandbox is free. Your invoices are <a href="/dashboard/live/invoices">in live</a>.</p>`)}`
  return html`${head}${usageOf(view)}${section(
    "Invoices until now",
    html`${filterForm(view)}${
      rows.length === 0
        ? empty(
            chosen === "" ? "No invoices yet" : "Nothing matches",
            "An invoice is made at the beginning of each month, for the month before.",
          )
        : html`${table(
            "Invoices until now",
            [
              {
                name: "Month",
                cell: ({ id, period_start }: Row) =>
                  html`<a href="${`${base}/invoices/${id}`}">${period_start.slice(0, 7)}</a>`,
              },
              { name: "Status", cell: (row) => status(row.status) },
              { name: "Due", cell: ({ due_at }) => when(due_at) },
              { name: "Total", cell: ({ total }) => naira(total), isNumber: true },
            ],
            rows,
          )}${pager(pages)}`
    }`,
  )}`
}

export const invoiceMain = ({
  base,
  title,
  invoice,
}: {
  readonly base: string
  readonly title: string
  readonly invoice: Row
}): Html => {
  const { id, lines, total, vat, due_at, paid_at, pdf_url, created_at } = invoice
  return html`${pageHead(title, html`<code>${id}</code>`, [
    { href: pdf_url, label: "Download the PDF", isMain: true },
    { href: `${base}/invoices`, label: "All invoices" },
  ])}${facts([
    ["Total", naira(total)],
    ["Of that VAT", naira(vat)],
    ["Status", status(invoice.status)],
    ["Made", when(created_at)],
    ["Due", when(due_at)],
    ["Paid", when(paid_at)],
  ])}${section(
    "Lines",
    table(
      "Lines",
      [
        { name: "What", cell: ({ description }: Row["lines"][number]) => description },
        { name: "Kind", cell: ({ type }) => words(type) },
        { name: "Quantity", cell: ({ quantity }) => number(quantity), isNumber: true },
        { name: "Price", cell: ({ unit_amount }) => naira(unit_amount), isNumber: true },
        { name: "Amount", cell: ({ amount }) => naira(amount), isNumber: true },
      ],
      lines,
    ),
  )}`
}
