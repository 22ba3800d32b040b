/** Payments for subscriptions that requests wait for, and how they leave them. */
import { Effect } from "effect"
import type { ChargeRow } from "../charge/charge.ts"
import { pay } from "../collecting/pay.ts"
import { renderSubscription, type SubscriptionRow, subscriptions } from "./subscription.ts"

/**
 * Attempts the charges of a subscription whose row is committed; returns it as that leaves it, where that is known: where nothing is to
 * be paid, or all of it was settled here.
 */
export const paidFor = (row: SubscriptionRow, attempts: ReadonlyArray<ChargeRow>, now: number) =>
  attempts.length === 0
    ? Effect.succeed(renderSubscription(row))
    : Effect.map(pay(attempts, now), (rows) => {
        const paid = rows.get(subscriptions, row.id)
        return paid === undefined ? undefined : renderSubscription(paid)
      })
