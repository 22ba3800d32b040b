/** Implements the API's operations on customers (decisions C4 to C6). */
import { Effect, Exit } from "effect"
import { newId } from "../../base/ids.ts"
import { mergeMetadata } from "../../base/metadata.ts"
import { checkBeforeStateError } from "../../base/problem.ts"
import { currentTime } from "../../base/wallClock.ts"
import { type Tenant, tenantOf } from "../../db/tenant.ts"
import { unitOfWork } from "../../db/UnitOfWork.ts"
import { clockTime, joinClocks } from "../clock/clocks.ts"
import { findNamed, nameMethod } from "../payment_method/paymentMethods.ts"
import type { CustomerCreate, CustomerPatch } from "./api.ts"
import { type CustomerRow, customers, renderCustomer } from "./customer.ts"

const METHOD = "default_payment_method"

/** Creates customers for requests that are processed together; returns the result of each. */
export const createCustomers = Effect.fn("customer.create")(function* (
  { account_id, livemode }: Tenant,
  inputs: ReadonlyArray<CustomerCreate>,
) {
  const metadataResults = yield* Effect.forEach(inputs, ({ metadata }) => Effect.exit(mergeMetadata({}, metadata)))
  // Only requests with valid metadata take a place on a clock.
  const clocks = inputs.map(({ test_clock }, at) =>
    Exit.isSuccess(metadataResults[at]!) ? (test_clock ?? null) : null,
  )
  const onClocks = clocks.filter((id) => id !== null)
  const joined = onClocks.length === 0 ? [] : yield* joinClocks({ account_id, livemode }, onClocks, "test_clock")
  const wallTime = currentTime()
  let nextJoined = 0
  const results = yield* Effect.forEach(inputs, (input, at) => {
    const now = clocks[at] === null ? Exit.succeed(wallTime) : joined[nextJoined++]!
    return Effect.exit(
      Effect.gen(function* () {
        return {
          account_id,
          livemode,
          id: newId("customer"),
          name: input.name,
          email: input.email ?? null,
          phone: input.phone ?? null,
          default_payment_method_id: null,
          test_clock_id: clocks[at]!,
          metadata: yield* metadataResults[at]!,
          created_at: yield* now,
        } satisfies CustomerRow
      }),
    )
  })
  const created = results.filter(Exit.isSuccess).map(({ value }) => value)
  ;(yield* unitOfWork).insert(customers, created)
  return results.map(Exit.map((row) => renderCustomer(row, undefined)))
})

/**
 * Locks a customer for a change and returns it with the time on its clock. Call this before locking the customer's subscriptions. Fails
 * (422) while the clock advances.
 */
export const lockForChange = Effect.fnUntraced(function* (tenant: Tenant, id: string) {
  const { test_clock_id } = yield* customers.get(tenant, id)
  const now = yield* clockTime(tenant, test_clock_id)
  return { customer: yield* customers.lockOne(tenant, id, "NO KEY UPDATE"), now }
})

/** Changes a customer. Returns it with the time on its clock, and the default payment method if it is a new one. */
export const updateCustomer = Effect.fn("customer.update")(function* (
  tenant: Tenant,
  id: string,
  patch: CustomerPatch,
) {
  const named = patch.default_payment_method
  const methodCheck = named == null ? Effect.void : findNamed({ ...tenantOf(tenant), id }, named, METHOD)
  const { customer: before, now } = yield* checkBeforeStateError(methodCheck, lockForChange(tenant, id))
  const metadata = yield* mergeMetadata(before.metadata, patch.metadata)
  const method = named == null ? named : (yield* nameMethod(before, named, METHOD, now)).id
  const customer: CustomerRow = {
    ...before,
    name: patch.name ?? before.name,
    email: patch.email === undefined ? before.email : patch.email,
    phone: patch.phone === undefined ? before.phone : patch.phone,
    default_payment_method_id: method === undefined ? before.default_payment_method_id : method,
    metadata,
  }
  ;(yield* unitOfWork).update(customers, [{ before, after: customer }])
  const newMethod = method == null || method === before.default_payment_method_id ? undefined : method
  return { customer, now, newMethod }
})
