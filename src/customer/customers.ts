/** Customers: the verbs of the API (decisions C4 to C6). */
import { Effect, Exit } from "effect"
import { joinClocks, standingTime } from "../clock/clocks.ts"
import { sent } from "../db/pipelining.ts"
import type { Tenant } from "../db/tenant.ts"
import { newId } from "../ids.ts"
import { mergeMetadata } from "../metadata.ts"
import { nameMethod } from "../payment_method/paymentMethods.ts"
import type { CustomerCreate, CustomerPatch } from "./api.ts"
import { type CustomerRow, customers, renderCustomer } from "./customer.ts"

const newCustomer = Effect.fnUntraced(function* (tenant: Tenant, input: CustomerCreate, now: number) {
  return {
    account_id: tenant.account_id,
    livemode: tenant.livemode,
    id: newId("customer"),
    name: input.name,
    email: input.email ?? null,
    phone: input.phone ?? null,
    default_payment_method_id: null,
    test_clock_id: input.test_clock ?? null,
    metadata: yield* mergeMetadata({}, input.metadata),
    created_at: now,
  } satisfies CustomerRow
})

/** Creates customers for requests that came together: for each what it comes to. */
export const createCustomers = Effect.fn("customer.create")(function* (
  tenant: Tenant,
  inputs: ReadonlyArray<CustomerCreate>,
) {
  const onClocks = inputs.flatMap(({ test_clock }) => (test_clock == null ? [] : [test_clock]))
  const joined = onClocks.length === 0 ? [] : yield* joinClocks(tenant, onClocks, "test_clock")
  let place = 0
  const wall = Date.now()
  const made = yield* Effect.forEach(inputs, (input) => {
    const now = input.test_clock == null ? Exit.succeed(wall) : joined[place++]!
    return Effect.exit(Effect.flatMap(now, (at) => newCustomer(tenant, input, at)))
  })
  yield* sent(customers.insert(made.filter(Exit.isSuccess).map(({ value }) => value)))
  return made.map(Exit.map((row) => renderCustomer(row, undefined)))
})

/**
 * A customer locked for a change, and its own now: to be taken before its subscriptions are locked. A clock that moves
 * refuses (422).
 */
export const lockForChange = Effect.fnUntraced(function* (tenant: Tenant, id: string) {
  const { test_clock_id } = yield* customers.get(tenant, id)
  const now = yield* standingTime(tenant, test_clock_id)
  return { customer: yield* customers.lockOne(tenant, id, "NO KEY UPDATE"), now }
})

/** Changes a customer. Returns it with its own now, and the default payment method where that is a new one. */
export const updateCustomer = Effect.fn("customer.update")(function* (
  tenant: Tenant,
  id: string,
  patch: CustomerPatch,
) {
  const { customer: before, now } = yield* lockForChange(tenant, id)
  const named = patch.default_payment_method
  const method = named == null ? named : (yield* nameMethod(before, named, "default_payment_method", now)).id
  const customer: CustomerRow = {
    ...before,
    name: patch.name ?? before.name,
    email: patch.email === undefined ? before.email : patch.email,
    phone: patch.phone === undefined ? before.phone : patch.phone,
    default_payment_method_id: method === undefined ? before.default_payment_method_id : method,
    metadata: yield* mergeMetadata(before.metadata, patch.metadata),
  }
  yield* customers.update([customer])
  const newMethod = method == null || method === before.default_payment_method_id ? undefined : method
  return { customer, now, newMethod }
})
