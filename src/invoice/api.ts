/** Service invoices on the wire. */
import { Schema } from "effect"
import { declare } from "../http/Endpoint.ts"
import { pageFields } from "../http/lists.ts"
import { oneOf } from "../http/parameters.ts"

export const invoiceApi = {
  list: declare({
    method: "GET",
    path: "/account/invoices",
    summary: "List the service's invoices to this account",
    access: "usage",
    query: Schema.Struct({ ...pageFields, status: Schema.optionalKey(oneOf(["open", "paid", "overdue", "void"])) }),
    status: 200,
    answers: "invoice",
    list: true,
  }),
}
