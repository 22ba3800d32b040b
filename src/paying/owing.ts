/** What a customer owes: the subscriptions whose bills are overdue. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { isCharging } from "../../machines/status.ts"
import type { CustomerRow } from "../customer/customer.ts"
import { ofTenant, tenantOf } from "../db/tenant.ts"
import type { Owed } from "../pages/views.ts"
import { type SubscriptionRow, subscriptions } from "../subscription/subscription.ts"

/** Bills that one page asks for: a customer has a few. What is beyond is asked for once these are paid. */
export const MAX_BILLS = 100

/** The subscriptions of a customer on which something is overdue. */
export const readOwing = (customer: CustomerRow) =>
  Effect.flatMap(
    SqlClient.SqlClient,
    (sql) => sql<SubscriptionRow>`
      SELECT * FROM (SELECT * FROM subscription WHERE ${ofTenant(sql, customer)} AND customer_id = ${customer.id} AND dunning IS NOT NULL OFFSET 0) s
      ORDER BY id LIMIT ${MAX_BILLS}`,
  )

/** The same, locked with those of these IDs, in ID order, as everybody does. The customer is locked before. */
export const lockOwing = Effect.fnUntraced(function* (customer: CustomerRow, ids: ReadonlyArray<string>) {
  const all = new Set([...(yield* readOwing(customer)).map(({ id }) => id), ...ids])
  return yield* subscriptions.lock(
    [...all].map((id) => ({ ...tenantOf(customer), id })),
    "UPDATE",
  )
})

/** Those of which no attempt is under way: that may settle the bill. */
export const atRest = (owing: ReadonlyArray<SubscriptionRow>): ReadonlyArray<SubscriptionRow> =>
  owing.filter(({ state }) => !isCharging(state))

/** What overdue subscriptions owe, as pages show it. */
export const owedOf = (owing: ReadonlyArray<SubscriptionRow>, planOf: (id: string) => string): ReadonlyArray<Owed> =>
  owing.flatMap(({ plan_id, bill, dunning }) =>
    bill === null || dunning === null
      ? []
      : [{ plan: planOf(plan_id), amountKobo: bill.amountKobo, since: dunning.firstFailedAt }],
  )
