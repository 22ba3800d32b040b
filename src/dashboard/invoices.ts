/** The pages of the service's invoices to the merchant, with the month's usage and what it will cost (decision R8). */
import { Effect } from "effect"
import { INVOICE_STATUSES } from "../../machines/invoice.ts"
import { inNaira } from "../base/money.ts"
import { invoiceApi } from "../merchants/invoice/api.ts"
import { usageApi } from "../merchants/usage/api.ts"
import { invoiceMain, invoicesMain } from "../pages/dashboard/invoices.ts"
import { csvFile } from "./csv.ts"
import { choicesOf } from "./lists.ts"
import { call, memberPage, show, type Viewer } from "./pages.ts"

const INVOICES = "/dashboard/:environment/invoices"
const FINANCE = { right: "finance" } as const

const SHOWN = "25"
const EXPORTED = "100"

/** The chosen status; undefined: all. */
const statusIn = ({ search }: Viewer) => INVOICE_STATUSES.find((one) => one === search.get("status"))

const readInvoices = (viewer: Viewer, limit: string, after: string | undefined) =>
  Effect.map(
    call(viewer, invoiceApi.list, { query: { status: statusIn(viewer), limit, starting_after: after } }),
    ({ data, meta }) => ({ rows: data, next: (meta as { readonly next_cursor: string | null }).next_cursor }),
  )

const list = memberPage(INVOICES, FINANCE, {
  GET: Effect.fnUntraced(function* (viewer) {
    const { base, path, search, tenant } = viewer
    const status = statusIn(viewer)
    const after = search.get("starting_after") ?? undefined
    const [{ rows, next }, usage] = yield* Effect.all(
      [readInvoices(viewer, SHOWN, after), call(viewer, usageApi.get)],
      { concurrency: "unbounded" },
    )
    const filter = status === undefined ? "" : `status=${status}`
    const view = {
      base,
      isSandbox: !tenant.livemode,
      path,
      rows,
      usage: usage.data,
      status: status ?? "",
      statuses: choicesOf(INVOICE_STATUSES),
      pages: {
        first: after === undefined ? null : `${path}?${filter}`,
        next: next === null ? null : `${path}?${filter}&starting_after=${next}`,
        csv: `${path}.csv?${filter}`,
      },
    }
    return show(viewer, "Invoices", invoicesMain(view))
  }),
})

const file = memberPage(`${INVOICES}.csv`, FINANCE, {
  GET: (viewer) =>
    csvFile(
      `invoices-${viewer.environment}`,
      ["id", "status", "period_start", "period_end", "total_naira", "vat_naira", "due_at", "paid_at"],
      (cursor) => readInvoices(viewer, EXPORTED, cursor),
      ({ id, status, period_start, period_end, total, vat, due_at, paid_at }) => [
        id,
        status,
        period_start,
        period_end,
        Number(inNaira(total)),
        Number(inNaira(vat)),
        due_at,
        paid_at,
      ],
    ),
})

const one = memberPage(`${INVOICES}/:id`, FINANCE, {
  GET: Effect.fnUntraced(function* (viewer) {
    const { data } = yield* call(viewer, invoiceApi.get, { params: viewer.params })
    const title = `Invoice for ${data.period_start.slice(0, 7)}`
    return show(viewer, title, invoiceMain({ base: viewer.base, title, invoice: data }))
  }),
})

export const invoicePages = [list, file, one]
