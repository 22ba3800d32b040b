/** Customers (spec 2.4, 4.4; decisions C4 to C6). */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { joinClock, standingTime } from "../clock/Clocks.ts"
import type { Ref, Tenant } from "../db/tenant.ts"
import { newId } from "../ids.ts"
import { type Metadata, mergeMetadata } from "../metadata.ts"
import { findPaymentMethods, nameMethod } from "../payment_method/PaymentMethods.ts"
import { noSuch } from "../problem.ts"
import type { PaymentMethodSummary } from "../rail/PaymentRail.ts"
import { formatInstant } from "../time.ts"
import type { CustomerCreate, CustomerPatch } from "./api.ts"

export interface CustomerRow extends Ref {
  readonly name: string
  readonly email: string | null
  readonly phone: string | null
  readonly default_payment_method_id: string | null
  readonly test_clock_id: string | null
  readonly metadata: Metadata
  readonly created_at: number
}

const renderCustomer = (row: CustomerRow, method: PaymentMethodSummary | undefined) => ({
  id: row.id,
  object: "customer" as const,
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
export const renderCustomers = (rows: ReadonlyArray<CustomerRow>) =>
  Effect.gen(function* () {
    const wanted = rows.flatMap((row) =>
      row.default_payment_method_id === null
        ? []
        : [{ account_id: row.account_id, livemode: row.livemode, id: row.id, method: row.default_payment_method_id }],
    )
    const methods = yield* findPaymentMethods(wanted)
    return rows.map((row) => renderCustomer(row, methods.get(`${row.id} ${row.default_payment_method_id}`)))
  })

export const createCustomer = (tenant: Tenant, input: CustomerCreate) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const clockId = input.test_clock ?? null
    const now = clockId === null ? Date.now() : yield* joinClock(tenant, clockId, "test_clock")
    const metadata = yield* mergeMetadata({}, input.metadata)
    const [row] = yield* sql<CustomerRow>`
      INSERT INTO customer (account_id, livemode, id, name, email, phone, test_clock_id, metadata, created_at)
      VALUES (${tenant.account_id}, ${tenant.livemode}, ${newId("customer")}, ${input.name}, ${input.email ?? null}, ${input.phone ?? null},
        ${clockId}, ${JSON.stringify(metadata)}::text::jsonb, ${new Date(now)})
      RETURNING *`
    return renderCustomer(row!, undefined)
  })

export const findCustomers = (tenant: Tenant, ids: ReadonlyArray<string>) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    return yield* sql<CustomerRow>`
      SELECT * FROM customer WHERE account_id = ${tenant.account_id} AND livemode = ${tenant.livemode} AND id = ANY(${ids}::text[])`
  })

export const getCustomer = (tenant: Tenant, id: string) =>
  Effect.gen(function* () {
    const [row] = yield* findCustomers(tenant, [id])
    return row ?? (yield* noSuch("customer", id))
  })

/**
 * Locks a customer: `SHARE` while one of its payment methods is being named, `NO KEY UPDATE` to change it. To be taken
 * before its subscriptions are locked.
 */
export const lockCustomer = (tenant: Tenant, id: string, mode: "SHARE" | "NO KEY UPDATE") =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const [row] = yield* sql<CustomerRow>`
      SELECT * FROM customer WHERE account_id = ${tenant.account_id} AND livemode = ${tenant.livemode} AND id = ${id} FOR ${sql.literal(mode)}`
    return row ?? (yield* noSuch("customer", id))
  })

/** A customer locked for a change, and its own now. A clock that moves refuses (422). */
export const lockForChange = (tenant: Tenant, id: string) =>
  Effect.gen(function* () {
    const { test_clock_id } = yield* getCustomer(tenant, id)
    const now = yield* standingTime(tenant, test_clock_id)
    return { customer: yield* lockCustomer(tenant, id, "NO KEY UPDATE"), now }
  })

/** Changes a customer. Answers it with its own now, and the default payment method where that is a new one. */
export const updateCustomer = (tenant: Tenant, id: string, patch: CustomerPatch) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const { customer: before, now } = yield* lockForChange(tenant, id)
    const named = patch.default_payment_method
    const method = named == null ? named : (yield* nameMethod(before, named, "default_payment_method", now)).id
    const metadata = yield* mergeMetadata(before.metadata, patch.metadata)
    const [customer] = yield* sql<CustomerRow>`
      UPDATE customer SET name = ${patch.name ?? before.name},
        email = ${patch.email === undefined ? before.email : patch.email}, phone = ${patch.phone === undefined ? before.phone : patch.phone},
        default_payment_method_id = ${method === undefined ? before.default_payment_method_id : method},
        metadata = ${JSON.stringify(metadata)}::text::jsonb
      WHERE account_id = ${tenant.account_id} AND livemode = ${tenant.livemode} AND id = ${id} RETURNING *`
    const newMethod = method == null || method === before.default_payment_method_id ? undefined : method
    return { customer: customer!, now, newMethod }
  })
