/** Reads what a customer owes: the subscriptions with an overdue bill. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import type { CustomerRow } from "../../billing/customer/customer.ts"
import { type SubscriptionRow, subscriptions } from "../../billing/subscription/subscription.ts"
import { REF_COLUMNS, rowsAsTable } from "../../db/rows.ts"
import { type Ref, refOf, tenantOf } from "../../db/tenant.ts"
import type { Owed } from "../../pages/views.ts"

/** Most bills that one page asks for: a customer has a few. It asks for further bills once these are paid. */
export const MAX_BILLS = 100

/** Whether a subscription has an overdue bill. */
export const isDue = ({ dunning, bill }: SubscriptionRow): boolean => dunning !== null && bill !== null

/** Reads the subscriptions of these customers that have an overdue bill, in ID order. */
export const readDue = Effect.fnUntraced(function* (customers: ReadonlyArray<Ref>) {
  if (customers.length === 0) return []
  const sql = yield* SqlClient.SqlClient
  return yield* sql<SubscriptionRow>`
    SELECT s.* FROM ${rowsAsTable(customers, REF_COLUMNS)} r CROSS JOIN LATERAL (
      SELECT * FROM (
        SELECT * FROM subscription
        WHERE (account_id, livemode, customer_id) = (r.account_id, r.livemode, r.id) AND dunning IS NOT NULL OFFSET 0
      ) its ORDER BY id LIMIT ${MAX_BILLS}
    ) s ORDER BY s.id`
})

/** Locks the overdue subscriptions of a customer, and those with these IDs, in ID order. The customer must be locked already. */
export const lockDue = Effect.fnUntraced(function* (customer: CustomerRow, ids: ReadonlyArray<string>) {
  const allIds = new Set([...(yield* readDue([refOf(customer)])).map(({ id }) => id), ...ids])
  return yield* subscriptions.lock(
    [...allIds].map((id) => ({ ...tenantOf(customer), id })),
    "UPDATE",
  )
})

/** Returns what overdue subscriptions owe, as pages show it. */
export const amountsDue = (
  overdue: ReadonlyArray<SubscriptionRow>,
  planOf: (id: string) => string,
): ReadonlyArray<Owed> =>
  overdue.flatMap(({ plan_id, bill, dunning }) =>
    bill === null || dunning === null
      ? []
      : [{ plan: planOf(plan_id), amountKobo: bill.amountKobo, since: dunning.firstFailedAt }],
  )

/** Returns the sum of overdue bills (kobo). */
export const totalDue = (overdue: ReadonlyArray<SubscriptionRow>): number =>
  overdue.reduce((sum, { bill }) => sum + (bill?.amountKobo ?? 0), 0)
