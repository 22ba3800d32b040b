/** The wire schemas and endpoints of service invoices. */
import { Schema } from "effect"
import { INVOICE_STATUSES } from "../../../machines/invoice.ts"
import { declare } from "../../http/Endpoint.ts"
import { pageFields } from "../../http/lists.ts"
import { oneOf } from "../../http/parameters.ts"
import { common, exampleId, instant, kobo } from "../../http/response.ts"
import { INVOICE_LINE_TYPES } from "./lines.ts"

const { Int, Literal, Literals, NullOr, String: Text, Struct } = Schema

export const Invoice = Struct({
  ...common("invoice"),
  status: Literals(INVOICE_STATUSES),
  period_start: instant,
  period_end: instant,
  currency: Literal("NGN"),
  lines: Schema.Array(
    Struct({
      type: Literals(INVOICE_LINE_TYPES),
      description: Text,
      quantity: Int,
      unit_amount: kobo,
      amount: kobo,
    }),
  ),
  total: kobo,
  vat: kobo.annotate({ description: "The VAT that the total includes (kobo)" }),
  due_at: instant,
  paid_at: NullOr(instant),
  pdf_url: Text.annotate({ description: "A signed link to the PDF, good for a day" }),
}).annotate({
  identifier: "invoice",
  examples: [
    {
      id: exampleId("invoice"),
      object: "invoice",
      livemode: true,
      created_at: "2026-11-01T00:05:00.000Z",
      status: "open",
      period_start: "2026-10-01T00:00:00.000Z",
      period_end: "2026-11-01T00:00:00.000Z",
      currency: "NGN",
      lines: [
        {
          type: "plan_fee",
          description: "Starter plan, October 2026",
          quantity: 1,
          unit_amount: 500_000,
          amount: 500_000,
        },
      ],
      total: 500_000,
      vat: 0,
      due_at: "2026-11-08T00:00:00.000Z",
      paid_at: null,
      pdf_url: "https://billing.example/invoices/inv_….pdf?expires=…&signature=…",
    },
  ],
})

export const invoiceApi = {
  list: declare({
    method: "GET",
    path: "/account/invoices",
    summary: "List the invoices that this account gets for the service",
    access: "usage",
    query: Struct({ ...pageFields, status: Schema.optionalKey(oneOf(INVOICE_STATUSES)) }),
    status: 200,
    success: Invoice,
    list: true,
  }),
  get: declare({
    method: "GET",
    path: "/account/invoices/:id",
    summary: "Get an invoice that this account gets for the service",
    access: "usage",
    status: 200,
    success: Invoice,
    codes: ["resource_missing"],
  }),
}
