/** Declares the customer table and renders customers for the API. */
import { Effect } from "effect"
import type { Metadata } from "../../base/metadata.ts"
import * as column from "../../db/columns.ts"
import { columnsOf, type RowOf, table } from "../../db/table.ts"
import { commonOf } from "../../http/response.ts"
import type { PaymentMethodSummary } from "../../rails/rail/PaymentRail.ts"
import { findPaymentMethods, methodKey, summaryOf } from "../payment_method/paymentMethods.ts"
import type { Customer } from "./api.ts"

const { immutable, mutable } = columnsOf()

export const customers = table(
  "customer",
  { noun: "customer", ids: "customer" },
  {
    name: mutable(column.text),
    email: mutable(column.nullable(column.text)),
    phone: mutable(column.nullable(column.text)),
    default_payment_method_id: mutable(column.nullable(column.text)),
    metadata: mutable(column.json<Metadata>()),
    test_clock_id: immutable(column.nullable(column.text)),
    created_at: immutable(column.instant),
  },
)

export type CustomerRow = RowOf<typeof customers>

export const renderCustomer = (row: CustomerRow, method: PaymentMethodSummary | undefined): typeof Customer.Type => ({
  ...commonOf("customer", row),
  name: row.name,
  email: row.email,
  phone: row.phone,
  default_payment_method: method ?? null,
  test_clock: row.test_clock_id,
  metadata: row.metadata,
})

/** Renders customers for the API, with their default payment methods. */
export const renderCustomers = Effect.fnUntraced(function* (rows: ReadonlyArray<CustomerRow>) {
  const methods = yield* findPaymentMethods(
    rows.flatMap(({ account_id, livemode, id, default_payment_method_id: method }) =>
      method === null ? [] : [{ account_id, livemode, id, method }],
    ),
  )
  return rows.map((row) => {
    const method = methods.get(methodKey(row.id, row.default_payment_method_id ?? ""))
    return renderCustomer(row, method && summaryOf(method))
  })
})
