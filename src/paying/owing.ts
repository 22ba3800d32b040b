/** What a customer owes: the subscriptions whose bills are overdue. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import type { Fragment } from "effect/sql/Statement"
import type { CustomerRow } from "../customer/customer.ts"
import { ofTenant } from "../db/tenant.ts"
import type { Owed } from "../pages/views.ts"
import type { SubscriptionRow } from "../subscription/subscription.ts"

/** Bills that one page asks for: a customer has a few. What is beyond is asked for once these are paid. */
const MAX_BILLS = 100

const select = (customer: CustomerRow, which: (sql: SqlClient.SqlClient) => Fragment, lock: "" | "FOR UPDATE") =>
  Effect.flatMap(
    SqlClient.SqlClient,
    (sql) => sql<SubscriptionRow>`
      SELECT * FROM subscription
      WHERE ${ofTenant(sql, customer)} AND customer_id = ${customer.id} AND ${which(sql)}
      ORDER BY id LIMIT ${MAX_BILLS} ${sql.literal(lock)}`,
  )

/** The subscriptions of a customer on which something is overdue. */
export const readOwing = (customer: CustomerRow) => select(customer, (sql) => sql`dunning IS NOT NULL`, "")

/** The same, locked with those of these IDs, in ID order, as everybody does. The customer is locked before. */
export const lockOwing = (customer: CustomerRow, ids: ReadonlyArray<string>) =>
  select(customer, (sql) => sql`(dunning IS NOT NULL OR id = ANY(${ids}::text[]))`, "FOR UPDATE")

/** What overdue subscriptions owe, as pages show it. */
export const owedOf = (owing: ReadonlyArray<SubscriptionRow>, planOf: (id: string) => string): ReadonlyArray<Owed> =>
  owing.flatMap(({ plan_id, bill, dunning }) =>
    bill === null || dunning === null
      ? []
      : [{ plan: planOf(plan_id), amountKobo: bill.amountKobo, since: dunning.firstFailedAt }],
  )
