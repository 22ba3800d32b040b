/** What new and removed payment methods of a customer mean to its subscriptions (decisions C4, E6). */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import type { CustomerRow } from "../customer/Customers.ts"
import { refOf } from "../db/tenant.ts"
import { advance } from "../lifecycle/advance.ts"
import { collect } from "./collect.ts"
import { commitSubscriptions } from "./commit.ts"
import { lockSubscriptions, readTerms, type SubscriptionRow } from "./rows.ts"
import { subscriptionLifecycle } from "./Subscription.ts"

/**
 * A new default payment method is tried at once on whatever is overdue, or once the attempt under way fails; where a subscription has a method of its own, that
 * one has failed, so the new one stands in for it and becomes its own if it pays (decision E16). Answers what is left to
 * do after the commit. `now` is the customer's.
 */
export const methodSet = (customer: CustomerRow, methodId: string, now: number) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const owing = yield* sql<SubscriptionRow>`
      SELECT * FROM subscription
      WHERE account_id = ${customer.account_id} AND livemode = ${customer.livemode} AND customer_id = ${customer.id} AND bill IS NOT NULL AND status <> 'incomplete'
        AND payment_method_id IS DISTINCT FROM ${methodId}
      ORDER BY id FOR UPDATE`
    if (owing.length === 0) return Effect.void
    const terms = yield* readTerms(owing.map(refOf))
    const commands = owing.map((row) => ({
      row,
      event: { type: "method", at: now, methodId: row.payment_method_id === null ? null : methodId },
    }))
    const { attempts } = yield* commitSubscriptions(advance(subscriptionLifecycle, commands), { now, terms })
    return collect(attempts, now)
  })

/** Subscriptions that had a method of their own which is being removed go back to the customer's default. */
export const methodRemoved = (customer: CustomerRow, methodId: string, now: number) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    // Those too that are just trying it, and would adopt it: they find it gone once they get their lock.
    const users = yield* sql<SubscriptionRow>`
      SELECT * FROM subscription
      WHERE account_id = ${customer.account_id} AND livemode = ${customer.livemode} AND customer_id = ${customer.id}
        AND (payment_method_id = ${methodId} OR bill->>'methodId' = ${methodId}
          OR bill->>'standIn' = ${methodId} OR bill->'nextMethod'->>'methodId' = ${methodId})
      ORDER BY id FOR UPDATE`
    const own = users.filter((row) => row.payment_method_id === methodId)
    const living = own.filter(({ status }) => status !== "cancelled")
    const details = new Map(living.map((row) => [row.id, { metadata: row.metadata, payment_method_id: null }]))
    const commands = living.map((row) => ({ row, event: { type: "update", at: now } }))
    yield* commitSubscriptions(advance(subscriptionLifecycle, commands), { now, terms: new Map(), details })
    const waiting = users.filter(({ bill }) => bill?.standIn === methodId || bill?.nextMethod?.methodId === methodId)
    const rows = yield* lockSubscriptions(waiting.map(refOf))
    const forgetting = rows.map((row) => ({ row, event: { type: "method.removed", at: now, methodId } }))
    yield* commitSubscriptions(advance(subscriptionLifecycle, forgetting), { now, terms: new Map() })
    // What is over changes silently.
    yield* sql`
      UPDATE subscription SET payment_method_id = NULL
      WHERE account_id = ${customer.account_id} AND livemode = ${customer.livemode} AND customer_id = ${customer.id} AND payment_method_id = ${methodId}`
  })
