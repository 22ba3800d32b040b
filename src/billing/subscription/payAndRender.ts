/** Attempts the charges of requests on subscriptions, and renders the result. */
import { Effect } from "effect"
import type { ChargeRow } from "../charge/charge.ts"
import { waitForPayment } from "../payments/waitForPayment.ts"
import { renderSubscription, type SubscriptionRow, subscriptions } from "./subscription.ts"

/**
 * The second phase of a request on a subscription: attempts its charges after its row is committed. Returns the subscription after the
 * payment if it is known: nothing is to be paid, or all of it was settled here.
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
