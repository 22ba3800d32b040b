import { Effect } from "effect"
import { problem } from "../../base/problem.ts"
import { bind } from "../../http/Endpoint.ts"
import { equals, listOf } from "../../http/lists.ts"
import { isBrowser, refusedPage } from "../../http/page.ts"
import { publicRoute } from "../../http/publicRoutes.ts"
import { findAccount } from "../account/accounts.ts"
import { invoiceApi } from "./api.ts"
import { InvoiceLinks } from "./InvoiceLinks.ts"
import { invoices, renderInvoice } from "./invoice.ts"
import { findInvoice } from "./invoices.ts"
import { Pdfs } from "./Pdfs.ts"

export const invoiceEndpoints = [
  bind(invoiceApi.list, {
    kind: "read",
    run: (request) =>
      Effect.flatMap(InvoiceLinks, (links) =>
        listOf(invoices, request, (row) => renderInvoice(row, links.pdf(row)), [equals("state", request.query.status)]),
      ),
  }),
  bind(invoiceApi.get, {
    kind: "read",
    run: (request) =>
      Effect.flatMap(InvoiceLinks, (links) =>
        Effect.map(invoices.get(request, request.id), (row) => renderInvoice(row, links.pdf(row))),
      ),
  }),
]

/** The PDF behind an invoice's signed link. */
export const invoiceRoutes = [
  publicRoute(
    "/invoices/:id.pdf",
    /^\/invoices\/([^/]+)\.pdf$/,
    {
      GET: ({ parts: [id], search }) =>
        Effect.gen(function* () {
          const links = yield* InvoiceLinks
          const row = links.isGood(id!, search) ? yield* findInvoice(id!) : undefined
          if (row === undefined || !links.isWhole(row, search))
            return yield* problem("link_invalid", "This link is not valid or has expired: fetch the invoice again.")
          const account = (yield* findAccount(row.account_id))!
          const body = yield* (yield* Pdfs).pdf(row, account.business_name)
          return { contentType: "application/pdf", body, fileName: `${row.id}.pdf` }
        }),
    },
    { refused: (refused) => (isBrowser(refused.headers) ? refusedPage(refused) : undefined) },
  ),
]
