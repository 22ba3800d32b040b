/** Payment methods attached to customers (spec 2.3, decision C4). */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { REF_COLUMNS, records } from "../db/records.ts"
import { type Ref, refOf } from "../db/tenant.ts"
import { invalid, noSuch, noSuchReference } from "../problem.ts"
import type { PaymentMethodSummary } from "../rail/PaymentRail.ts"
import { TEST_METHODS, testMethod } from "../rail/simulator/methods.ts"
import { formatInstant } from "../time.ts"

const TEST_PREFIX = "pm_test_"

export interface PaymentMethodRow extends PaymentMethodSummary, Ref {
  readonly customer_id: string
  readonly created_at: number
}

export const renderPaymentMethod = (row: PaymentMethodRow) => ({
  id: row.id,
  object: "payment_method" as const,
  livemode: row.livemode,
  created_at: formatInstant(row.created_at),
  customer: row.customer_id,
  type: row.type,
  brand: row.brand,
  last4: row.last4,
  bank_name: row.bank_name,
  exp_month: row.exp_month,
  exp_year: row.exp_year,
})

/** The payment method of a customer. */
export const getPaymentMethod = (customer: Ref, id: string) =>
  Effect.gen(function* () {
    const found = (yield* findPaymentMethods([{ ...refOf(customer), method: id }])).get(`${customer.id} ${id}`)
    return found ?? (yield* noSuch("payment method of the customer", id))
  })

/** Removes a payment method from its customer, as default too. Nothing may use it any more. */
export const detach = (customer: Ref, id: string) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const mine = sql`account_id = ${customer.account_id} AND livemode = ${customer.livemode}`
    yield* sql`UPDATE customer SET default_payment_method_id = NULL WHERE ${mine} AND id = ${customer.id} AND default_payment_method_id = ${id}`
    yield* sql`DELETE FROM payment_method WHERE ${mine} AND customer_id = ${customer.id} AND id = ${id}`
  })

/** The payment methods of these customers, by customer and method ID. */
export const findPaymentMethods = (wanted: ReadonlyArray<Ref & { readonly method: string }>) =>
  Effect.gen(function* () {
    if (wanted.length === 0) return new Map<string, PaymentMethodSummary>()
    const sql = yield* SqlClient.SqlClient
    const rows = yield* sql<PaymentMethodSummary & { customer_id: string }>`
      SELECT m.customer_id, m.id, m.type, m.brand, m.last4, m.bank_name, m.exp_month, m.exp_year
      FROM ${records(sql, wanted, { ...REF_COLUMNS, method: "text" })} r
      JOIN payment_method m ON (m.account_id, m.livemode, m.customer_id, m.id) = (r.account_id, r.livemode, r.id, r.method)`
    return new Map(rows.map(({ customer_id, ...summary }) => [`${customer_id} ${summary.id}`, summary]))
  })

/** The method that a body names: attached to the customer already, or a `pm_test_` ID, which naming attaches (sandbox only). */
export const nameMethod = (customer: Ref, id: string, param: string, at: number) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const attached = (yield* findPaymentMethods([{ ...refOf(customer), method: id }])).get(`${customer.id} ${id}`)
    if (attached !== undefined) return attached
    if (customer.livemode || !id.startsWith(TEST_PREFIX))
      return yield* noSuchReference("payment method of the customer", id, param)
    const summary = testMethod(id)
    if (summary === undefined)
      return yield* invalid(
        param,
        `${param} must be one of the test payment methods: ${[...TEST_METHODS.keys()].join(", ")}.`,
      )
    yield* sql`
      INSERT INTO payment_method ${sql.insert({
        account_id: customer.account_id,
        livemode: customer.livemode,
        customer_id: customer.id,
        ...summary,
        created_at: new Date(at),
      })} ON CONFLICT DO NOTHING`
    return summary
  })
