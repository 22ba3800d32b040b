/** Payments for subscriptions that requests wait for, and how they leave them. */
import { Effect } from "effect"
import type { ChargeRow } from "../charge/charge.ts"
import { waitForPayment } from "../payments/waitForPayment.ts"
import { renderSubscription, type SubscriptionRow, subscriptions } from "./subscription.ts"

/**
 * The second phase of a request on a subscription: attempts its charges once its row is committed. It returns the subscription as that leaves
 * it, where that is known: where nothing is to be paid, or all of it was settled here.
 */
export const payAndRender = (row: SubscriptionRow, attempts: ReadonlyArray<ChargeRow>, now: number) => ({
  id: row.id,
  made: () => renderSubscription(row),
  after:
    attempts.length === 0
      ? Effect.succeed(renderSubscription(row))
      : Effect.map(waitForPayment(attempts, now), (rows) => {
          const paid = rows.get(subscriptions, row.id)
          return paid === undefined ? undefined : renderSubscription(paid)
        }),
})
