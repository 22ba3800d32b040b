/** What a process remembers of customers on the wall clock, for decisions on what they buy (src/db/known.ts). */
import { Context, Layer } from "effect"
import { type Check, RememberedRows } from "../db/known.ts"
import { REF_COLUMNS, records } from "../db/records.ts"
import type { Ref } from "../db/tenant.ts"
import type { AttachedMethod } from "../payment_method/paymentMethods.ts"
import type { CustomerRow } from "./customer.ts"

/** What purchases go by of a customer. */
export type BuyingCustomer = Pick<CustomerRow, keyof Ref | "default_payment_method_id" | "test_clock_id">

/** The same with the payment method that it paid by last, which it has. */
export interface KnownCustomer extends BuyingCustomer {
  readonly method: AttachedMethod
}

/** Half a kilobyte each: five megabytes. */
const MAX_CUSTOMERS = 10_000

const CHECKED = {
  ...REF_COLUMNS,
  default_payment_method_id: "text",
  method_id: "text",
  exp_month: "integer",
  exp_year: "integer",
} as const

/**
 * What finds customers whose default payment methods have not changed, with the methods that they are known by as these are known: what changes
 * of one is when it expires (src/collecting/saving.ts). Customers are locked, so that no method of theirs is removed meanwhile, and methods are,
 * since one may have been between the statement's beginning and that lock.
 */
export const unchangedCustomers = (known: ReadonlyArray<KnownCustomer>): Check => {
  const rows = new Map(
    known.map(({ method: { id: method_id, exp_month, exp_year }, ...customer }) => [
      customer.id,
      { ...customer, method_id, exp_month, exp_year },
    ]),
  )
  return {
    name: "customers_known",
    rows: rows.size,
    read: (sql) => sql`
      SELECT c.id FROM ${records([...rows.values()], CHECKED)} r
      CROSS JOIN LATERAL (
        SELECT id FROM customer
        WHERE (account_id, livemode, id) = (r.account_id, r.livemode, r.id)
          AND default_payment_method_id IS NOT DISTINCT FROM r.default_payment_method_id
        FOR SHARE SKIP LOCKED
      ) c
      CROSS JOIN LATERAL (
        SELECT id FROM payment_method
        WHERE (account_id, livemode, customer_id, id) = (r.account_id, r.livemode, r.id, r.method_id)
          AND exp_month IS NOT DISTINCT FROM r.exp_month AND exp_year IS NOT DISTINCT FROM r.exp_year
        FOR KEY SHARE SKIP LOCKED
      ) m`,
  }
}

export class RememberedCustomers extends Context.Service<
  RememberedCustomers,
  {
    /** Notes a customer; one on a test clock, which has a now of its own, is not kept. */
    readonly note: (customer: BuyingCustomer, method: AttachedMethod) => void
    readonly forget: (ref: Ref) => void
    readonly find: (ref: Ref) => KnownCustomer | undefined
  }
>()("billing/customer/RememberedCustomers") {
  static readonly layer = Layer.sync(RememberedCustomers, () => {
    const remembered = new RememberedRows<KnownCustomer>(MAX_CUSTOMERS)
    return RememberedCustomers.of({
      note: ({ account_id, livemode, id, default_payment_method_id, test_clock_id }, method) => {
        if (test_clock_id !== null) return
        // No more of it: what a customer says of itself may be large.
        remembered.note({ account_id, livemode, id, default_payment_method_id, test_clock_id, method })
      },
      forget: (ref) => remembered.forget(ref),
      find: (ref) => remembered.find(ref),
    })
  })
}
