/** Charges: reading them, and making one-off ones (spec 4.6; decisions E16, F6). */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { standingTime } from "../clock/Clocks.ts"
import { type CustomerRow, findCustomers, lockCustomer } from "../customer/Customers.ts"
import { refOf, type Tenant } from "../db/tenant.ts"
import { mergeMetadata } from "../metadata.ts"
import { findPaymentMethods, nameMethod } from "../payment_method/PaymentMethods.ts"
import { noSuch, noSuchReference, problem } from "../problem.ts"
import type { ChargeCreate } from "./api.ts"
import { insertOneOff, lockRetriable } from "./oneOff.ts"
import type { ChargeRow } from "./rows.ts"

export const findCharges = (tenant: Tenant, ids: ReadonlyArray<string>) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    return yield* sql<ChargeRow>`
      SELECT * FROM charge WHERE account_id = ${tenant.account_id} AND livemode = ${tenant.livemode} AND id = ANY(${ids}::text[])`
  })

export const getCharge = (tenant: Tenant, id: string) =>
  Effect.gen(function* () {
    const [row] = yield* findCharges(tenant, [id])
    return row ?? (yield* noSuch("charge", id))
  })

/** The first of these payment methods that the customer still has. */
const firstAttached = (customer: CustomerRow, ids: ReadonlyArray<string | null>) =>
  Effect.gen(function* () {
    const wanted = ids.filter((id) => id !== null)
    const found = yield* findPaymentMethods(wanted.map((method) => ({ ...refOf(customer), method })))
    const method = wanted.map((id) => found.get(`${customer.id} ${id}`)).find((summary) => summary !== undefined)
    return (
      method ??
      (yield* problem(
        "payment_method_required",
        "The customer has no default payment method: name one in payment_method.",
      ))
    )
  })

/** Commits a charge outside any schedule, to be collected after. */
export const createCharge = (tenant: Tenant, input: ChargeCreate) =>
  Effect.gen(function* () {
    const [found] = yield* findCustomers(tenant, [input.customer])
    if (found === undefined) return yield* noSuchReference("customer", input.customer, "customer")
    const now = yield* standingTime(tenant, found.test_clock_id)
    const customer = yield* lockCustomer(tenant, found.id, "SHARE")
    const named = input.payment_method
    const method =
      named === undefined
        ? yield* firstAttached(customer, [customer.default_payment_method_id])
        : yield* nameMethod(customer, named, "payment_method", now)
    const description = input.description || null
    const line = { quantity: 1, unit_amount: input.amount, amount: input.amount }
    const charge = yield* insertOneOff(tenant, {
      customer,
      amountKobo: input.amount,
      lines: [{ type: "one_off", description: description ?? "One-off charge", ...line }],
      description,
      metadata: yield* mergeMetadata({}, input.metadata),
      method,
      methodNamed: named !== undefined,
      attemptNumber: 1,
      retryOf: null,
      now,
    })
    return { charge, now }
  })

/**
 * Commits a further attempt at a failed one-off charge: with the method named, else with the one that was named before,
 * else with the customer's default.
 */
export const retryOneOff = (tenant: Tenant, failed: ChargeRow, named: string | undefined) =>
  Effect.gen(function* () {
    const now = yield* standingTime(tenant, failed.test_clock_id)
    const customer = yield* lockCustomer(tenant, failed.customer_id, "SHARE")
    const before = yield* lockRetriable(tenant, failed.id)
    const used = before.payment_method?.id ?? null
    const inOrder = before.payment_method_named
      ? [used, customer.default_payment_method_id]
      : [customer.default_payment_method_id, used]
    const method =
      named === undefined
        ? yield* firstAttached(customer, inOrder)
        : yield* nameMethod(customer, named, "payment_method", now)
    const charge = yield* insertOneOff(tenant, {
      customer,
      amountKobo: before.amount_kobo,
      lines: before.lines,
      description: before.description,
      metadata: before.metadata,
      method,
      methodNamed: named !== undefined || (before.payment_method_named && method.id === used),
      attemptNumber: before.attempt_number + 1,
      retryOf: before.id,
      now,
    })
    return { charge, now }
  })
