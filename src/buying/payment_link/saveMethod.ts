/** Applies a payment method that was saved with a link to its customer (decision F8). */
import { Effect } from "effect"
import { type CustomerRow, customers } from "../../billing/customer/customer.ts"
import { apply } from "../../billing/subscription/apply.ts"
import { tryCurrentMethods, tryMethods } from "../../billing/subscription/methodUsers.ts"
import { type SubscriptionRow, subscriptions } from "../../billing/subscription/subscription.ts"
import { refOf } from "../../db/tenant.ts"
import { unitOfWork } from "../../db/UnitOfWork.ts"
import { useByLink } from "../payment_page/entered.ts"

interface Saved {
  /** The link's subscription, locked; undefined: the link has none. */
  readonly own: SubscriptionRow | undefined
  /** Locked. */
  readonly customer: CustomerRow
  readonly methodId: string
  readonly now: number
}

/**
 * Makes it the subscription's own method or the customer's default, and tries it on the overdue bills there (decision E6). Returns the
 * charges to attempt after the commit.
 */
export const applySavedMethod = Effect.fnUntraced(function* ({ own, customer, methodId, now }: Saved) {
  if (own?.payment_method_id != null && own.payment_method_id !== methodId) {
    const details = { metadata: own.metadata, payment_method_id: methodId }
    yield* apply({ row: own, now }, { type: "update", at: now }, details)
  }
  if (useByLink(own, customer, [], now).becomes === "own")
    return yield* tryCurrentMethods(yield* subscriptions.lock([refOf(own!)]), now)
  const isNewDefault = customer.default_payment_method_id !== methodId
  if (isNewDefault)
    (yield* unitOfWork).update(customers, [
      { before: customer, after: { ...customer, default_payment_method_id: methodId } },
    ])
  return yield* tryMethods([{ customer, methodId, isNewDefault, isEntered: true, now }])
})
