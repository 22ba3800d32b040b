import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { findAccount } from "../account/Accounts.ts"
import { bind } from "../http/Endpoint.ts"
import { mapPage, page } from "../http/lists.ts"
import { type PublicPage, publicPage } from "../http/public.ts"
import { problem } from "../problem.ts"
import { invoiceApi } from "./api.ts"
import { renderInvoice } from "./Invoice.ts"
import { findInvoice } from "./Invoices.ts"
import { Links } from "./Links.ts"
import { invoicePdf } from "./pdf.ts"
import type { InvoiceRow } from "./rows.ts"

export const invoiceEndpoints = [
  bind(invoiceApi.list, {
    kind: "list",
    run: (request) =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const links = yield* Links
        const { status } = request.query
        const filters = status === undefined ? [] : [sql`state = ${status}`]
        const rows = yield* page<InvoiceRow>("invoice", request, request.query, filters)
        return mapPage(rows, (row) => renderInvoice(row, links.pdf(row.id)))
      }),
  }),
]

/** The PDF behind an invoice's signed link. */
export const invoicePages: ReadonlyArray<PublicPage> = [
  publicPage(/^\/invoices\/([^/]+)\.pdf$/, {
    GET: ({ parts: [id], search }) =>
      Effect.gen(function* () {
        const links = yield* Links
        const row = links.isGood(id!, search) ? yield* findInvoice(id!) : undefined
        if (row === undefined)
          return yield* problem("link_invalid", "This link is not valid, or not any more: fetch the invoice again.")
        const account = (yield* findAccount(row.account_id))!
        const body = yield* Effect.promise(() => invoicePdf(row, account.business_name))
        return { contentType: "application/pdf", body, fileName: `${row.id}.pdf` }
      }),
  }),
]
