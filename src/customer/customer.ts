/** A customer: its table, and how the API shows it. */
import { Effect } from "effect"
import { columnsOf, instant, json, nullable, type RowOf, table, text } from "../db/table.ts"
import type { Metadata } from "../metadata.ts"
import { findPaymentMethods, methodKey } from "../payment_method/paymentMethods.ts"
import type { PaymentMethodSummary } from "../rail/PaymentRail.ts"
import { formatInstant } from "../time.ts"
import type { Customer } from "./api.ts"

const { fixed, moving } = columnsOf()

export const customers = table(
  "customer",
  { noun: "customer" },
  {
    name: moving(text),
    email: moving(nullable(text)),
    phone: moving(nullable(text)),
    default_payment_method_id: moving(nullable(text)),
    metadata: moving(json<Metadata>()),
    test_clock_id: fixed(nullable(text)),
    created_at: fixed(instant),
  },
)

export type CustomerRow = RowOf<typeof customers>

export const renderCustomer = (row: CustomerRow, method: PaymentMethodSummary | undefined): typeof Customer.Type => ({
  id: row.id,
  object: "customer",
  livemode: row.livemode,
  created_at: formatInstant(row.created_at),
  name: row.name,
  email: row.email,
  phone: row.phone,
  default_payment_method: method ?? null,
  test_clock: row.test_clock_id,
  metadata: row.metadata,
})

/** Customers as the API shows them, with their default payment methods. */
export const renderCustomers = Effect.fnUntraced(function* (rows: ReadonlyArray<CustomerRow>) {
  const methods = yield* findPaymentMethods(
    rows.flatMap(({ account_id, livemode, id, default_payment_method_id: method }) =>
      method === null ? [] : [{ account_id, livemode, id, method }],
    ),
  )
  return rows.map((row) => renderCustomer(row, methods.get(methodKey(row.id, row.default_payment_method_id ?? ""))))
})
