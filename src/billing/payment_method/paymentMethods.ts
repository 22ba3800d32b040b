/** Stores the payment methods attached to customers (decision C4). */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { invalid, noSuch, noSuchReference, type Problem } from "../../base/problem.ts"
import * as column from "../../db/columns.ts"
import { REF_COLUMNS, rowsAsTable } from "../../db/rows.ts"
import { columnsOf, type RowOf, table } from "../../db/table.ts"
import { isRef, ofTenant, type Ref, refOf, type Tenant } from "../../db/tenant.ts"
import { type UnitOfWork, unitOfWork } from "../../db/UnitOfWork.ts"
import { commonOf } from "../../http/response.ts"
import { PAYMENT_METHOD_TYPES, type PaymentMethodSummary } from "../../rails/rail/PaymentRail.ts"
import { RAILS, type RailName } from "../../rails/rail/Rail.ts"
import { TEST_METHODS, testMethod } from "../../rails/rail/simulator/methods.ts"
import type { SecretTable } from "../../security/secret/rotate.ts"
import type { Place } from "../../security/secret/Vault.ts"
import type { PaymentMethod } from "./api.ts"

const TEST_PREFIX = "pm_test_"

const { immutable, mutable } = columnsOf()

/** Sandbox methods keep their `pm_test_` IDs, so an ID is unique only within its customer. */
export const paymentMethods = table(
  "payment_method",
  { noun: "payment method", once: "(account_id, livemode, customer_id, id)" },
  {
    customer_id: immutable(column.text),
    type: immutable(column.oneOf(PAYMENT_METHOD_TYPES)),
    brand: immutable(column.nullable(column.text)),
    last4: immutable(column.nullable(column.text)),
    bank_name: immutable(column.nullable(column.text)),
    exp_month: mutable(column.nullable(column.integer)),
    exp_year: mutable(column.nullable(column.integer)),
    /** The rail that saved the method and charges it (decision P4). */
    rail: immutable(column.oneOf(RAILS)),
    created_at: immutable(column.instant),
  },
)

export type PaymentMethodRow = RowOf<typeof paymentMethods>

export const renderPaymentMethod = (row: PaymentMethodRow): typeof PaymentMethod.Type => ({
  ...commonOf("payment_method", row),
  customer: row.customer_id,
  type: row.type,
  brand: row.brand,
  last4: row.last4,
  bank_name: row.bank_name,
  exp_month: row.exp_month,
  exp_year: row.exp_year,
})

/** A payment method with the rail that charges it. */
export interface AttachedMethod extends PaymentMethodSummary {
  readonly rail: RailName
}

/** The part of a payment method that other objects show. */
export const summaryOf = ({ rail: _, ...summary }: AttachedMethod): PaymentMethodSummary => summary

/** The place of a payment method's token, for sealing it. */
export const methodPlace = ({
  account_id,
  livemode,
  customer_id,
  id,
}: Ref & { readonly customer_id: string }): Place => ["payment_method", account_id, livemode, customer_id, id]

/** The sealed tokens by which rails charge payment methods. */
export const methodSecrets: SecretTable<Ref & { readonly customer_id: string }> = {
  name: "payment_method",
  key: { account_id: "text", livemode: "boolean", customer_id: "text", id: "text" },
  placeOf: methodPlace,
}

/** The key of a payment method among those of several customers. */
export const methodKey = (customerId: string, methodId: string): string => `${customerId} ${methodId}`

/** Splits a {@link methodKey} into its IDs. */
export const namesOf = (key: string): { readonly customer: string; readonly method: string } => {
  const [customer, method] = key.split(" ")
  return { customer: customer!, method: method! }
}

/** Reads these payment methods of customers, by {@link methodKey}. `method` null: the customer's default. */
export const findPaymentMethods = Effect.fnUntraced(function* (
  wanted: ReadonlyArray<Ref & { readonly method: string | null }>,
) {
  if (wanted.length === 0) return new Map<string, AttachedMethod>()
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<AttachedMethod & { customer_id: string }>`
    SELECT m.customer_id, m.id, m.type, m.brand, m.last4, m.bank_name, m.exp_month, m.exp_year, m.rail
    FROM ${rowsAsTable(wanted, { ...REF_COLUMNS, method: "text" })} r
    CROSS JOIN LATERAL (
      SELECT * FROM payment_method WHERE (account_id, livemode, customer_id, id) = (r.account_id, r.livemode, r.id, coalesce(r.method, (
        SELECT default_payment_method_id FROM customer c WHERE (c.account_id, c.livemode, c.id) = (r.account_id, r.livemode, r.id)
      ))) OFFSET 0
    ) m`
  return new Map(rows.map(({ customer_id, ...method }) => [methodKey(customer_id, method.id), method]))
})

/** Reads a customer's payment method by its ID; null if it does not exist or `id` is null. */
const attachedTo = (customer: Ref, id: string | null) =>
  id === null
    ? Effect.succeed(null)
    : Effect.map(
        findPaymentMethods([{ ...refOf(customer), method: id }]),
        (found) => found.get(methodKey(customer.id, id)) ?? null,
      )

/** Reads a customer's payment method; fails with `resource_missing`. */
export const getPaymentMethod = Effect.fnUntraced(function* (customer: Ref, id: string) {
  return (yield* attachedTo(customer, id)) ?? (yield* noSuch("payment method of the customer", id))
})

/** Removes a payment method from its customer, also as default. No subscription may use it any more. */
export const detach = Effect.fn("paymentMethod.detach")(function* (customer: Ref, id: string) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    UPDATE customer SET default_payment_method_id = NULL WHERE ${isRef(sql, customer)} AND default_payment_method_id = ${id}`
  yield* sql`DELETE FROM payment_method WHERE ${ofTenant(sql, customer)} AND customer_id = ${customer.id} AND id = ${id}`
})

const noTestMethod = (param: string) =>
  invalid(param, `${param} must be one of the test payment methods: ${[...TEST_METHODS.keys()].join(", ")}.`)

/** Refuses the ID of a test payment method that does not exist, without reading the customer. */
export const checkMethod =
  <P extends string>(param: P) =>
  (name: string, body: { readonly [K in P]?: string | null | undefined }, { livemode }: Tenant) =>
    name === param && !livemode && body[param]?.startsWith(TEST_PREFIX) && testMethod(body[param]) === undefined
      ? Effect.fail(noTestMethod(param))
      : undefined

/** Returns the test method that a request names and that the customer does not have yet. */
export const newTestMethod = (
  { livemode }: Ref,
  id: string,
  param: string,
  simulated = !livemode,
): Effect.Effect<AttachedMethod, Problem> => {
  if (!simulated || !id.startsWith(TEST_PREFIX))
    return Effect.fail(noSuchReference("payment method of the customer", id, param))
  const summary = testMethod(id)
  return summary === undefined ? Effect.fail(noTestMethod(param)) : Effect.succeed({ ...summary, rail: "simulator" })
}

/** Attaches methods to customers; methods already attached stay unchanged. */
export const attachMethods = (
  unit: UnitOfWork,
  of: ReadonlyArray<{ readonly customer: Ref; readonly method: AttachedMethod; readonly at: number }>,
): void => {
  const rows = of.map(({ customer: { account_id, livemode, id }, method, at }) => ({
    account_id,
    livemode,
    customer_id: id,
    created_at: at,
    ...method,
  }))
  const unique = new Map(rows.map((row) => [methodKey(row.customer_id, row.id), row]))
  // In key order, so that transactions that attach the same methods do not deadlock.
  const ordered = [...unique].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, row]) => row)
  unit.insert(paymentMethods, ordered)
}

/** Returns the method that a request names: an attached one, or a test method to attach. */
export const findNamed = Effect.fnUntraced(function* (
  customer: Ref,
  id: string,
  param: string,
  simulated = !customer.livemode,
) {
  const attached = yield* attachedTo(customer, id)
  if (attached !== null) return { method: attached, isNew: false }
  return { method: yield* newTestMethod(customer, id, param, simulated), isNew: true }
})

/** Like {@link findNamed}, and attaches the method. `pm_test_` IDs exist in the sandbox, and on pages with simulated payments. */
export const nameMethod = Effect.fnUntraced(function* (
  customer: Ref,
  id: string,
  param: string,
  at: number,
  simulated = !customer.livemode,
) {
  const { method, isNew } = yield* findNamed(customer, id, param, simulated)
  if (isNew) attachMethods(yield* unitOfWork, [{ customer, method, at }])
  return method
})
