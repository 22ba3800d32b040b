/** What a customer owes: the subscriptions whose bills are overdue. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import type { CustomerRow } from "../../billing/customer/customer.ts"
import { type SubscriptionRow, subscriptions } from "../../billing/subscription/subscription.ts"
import { REF_COLUMNS, rowsAsTable } from "../../db/rows.ts"
import { type Ref, refOf, tenantOf } from "../../db/tenant.ts"
import type { Owed } from "../../pages/views.ts"

/** Bills that one page asks for: a customer has a few. What is beyond is asked for once these are paid. */
export const MAX_BILLS = 100

/** Whether something is overdue on a subscription. */
export const isDue = ({ dunning, bill }: SubscriptionRow): boolean => dunning !== null && bill !== null

/** The subscriptions of customers on which something is overdue. */
export const readDue = Effect.fnUntraced(function* (of: ReadonlyArray<Ref>) {
  if (of.length === 0) return []
  const sql = yield* SqlClient.SqlClient
  return yield* sql<SubscriptionRow>`
    SELECT s.* FROM ${rowsAsTable(of, REF_COLUMNS)} r CROSS JOIN LATERAL (
      SELECT * FROM (
        SELECT * FROM subscription
        WHERE (account_id, livemode, customer_id) = (r.account_id, r.livemode, r.id) AND dunning IS NOT NULL OFFSET 0
      ) its ORDER BY id LIMIT ${MAX_BILLS}
    ) s ORDER BY s.id`
})

/** The same, locked with those of these IDs, in ID order, as everybody does. The customer is locked before. */
export const lockDue = Effect.fnUntraced(function* (customer: CustomerRow, ids: ReadonlyArray<string>) {
  const all = new Set([...(yield* readDue([refOf(customer)])).map(({ id }) => id), ...ids])
  return yield* subscriptions.lock(
    [...all].map((id) => ({ ...tenantOf(customer), id })),
    "UPDATE",
  )
})

/** What overdue subscriptions owe, as pages show it. */
export const amountsDue = (
  owing: ReadonlyArray<SubscriptionRow>,
  planOf: (id: string) => string,
): ReadonlyArray<Owed> =>
  owing.flatMap(({ plan_id, bill, dunning }) =>
    bill === null || dunning === null
      ? []
      : [{ plan: planOf(plan_id), amountKobo: bill.amountKobo, since: dunning.firstFailedAt }],
  )

/** What bills come to (kobo). */
export const totalDue = (owing: ReadonlyArray<SubscriptionRow>): number =>
  owing.reduce((sum, { bill }) => sum + (bill?.amountKobo ?? 0), 0)
