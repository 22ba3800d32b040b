/** Customers: the verbs of the API (decisions C4 to C6). */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { joinClock, standingTime } from "../clock/clocks.ts"
import { sent } from "../db/pipelining.ts"
import { isRef, type Ref, type Tenant } from "../db/tenant.ts"
import { newId } from "../ids.ts"
import { mergeMetadata } from "../metadata.ts"
import { nameMethod } from "../payment_method/paymentMethods.ts"
import type { CustomerCreate, CustomerPatch } from "./api.ts"
import { type CustomerRow, customers, renderCustomer } from "./customer.ts"

export const createCustomer = Effect.fn("customer.create")(function* (tenant: Tenant, input: CustomerCreate) {
  const clockId = input.test_clock ?? null
  const now = clockId === null ? Date.now() : yield* joinClock(tenant, clockId, "test_clock")
  const row: CustomerRow = {
    account_id: tenant.account_id,
    livemode: tenant.livemode,
    id: newId("customer"),
    name: input.name,
    email: input.email ?? null,
    phone: input.phone ?? null,
    default_payment_method_id: null,
    test_clock_id: clockId,
    metadata: yield* mergeMetadata({}, input.metadata),
    created_at: now,
  }
  yield* sent(customers.insert([row]))
  return renderCustomer(row, undefined)
})

/**
 * Locks a customer of the wall clock, so that what is attached to it stays; one on a test clock is locked once that is. In one go
 * with what is read of it then.
 */
export const lockOnWallClock = Effect.fnUntraced(function* (ref: Ref) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`SELECT 1 FROM customer WHERE ${isRef(sql, ref)} AND test_clock_id IS NULL FOR SHARE`
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
