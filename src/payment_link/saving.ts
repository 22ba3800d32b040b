/** What a payment method that is saved by a link means to its customer (decision F8). */
import { Effect } from "effect"
import { type CustomerRow, customers } from "../customer/customer.ts"
import { unitOfWork } from "../db/UnitOfWork.ts"
import { apply } from "../subscription/apply.ts"
import { tryMethods } from "../subscription/methodUsers.ts"
import type { SubscriptionRow } from "../subscription/subscription.ts"
import { becomesDefaultBySaving } from "./defaults.ts"

interface Saved {
  /** The link's subscription, locked; undefined: it is about none. */
  readonly own: SubscriptionRow | undefined
  /** Locked. */
  readonly customer: CustomerRow
  readonly methodId: string
  readonly now: number
}

/**
 * The subscription goes on with it, by itself or as its customer's default. A new default is tried on what else is overdue
 * (decision E6); returns the charges to attempt after the commit.
 */
export const goOnWith = Effect.fnUntraced(function* ({ own, customer, methodId, now }: Saved) {
  const replaces = own?.payment_method_id != null
  if (replaces && own.payment_method_id !== methodId) {
    const details = { metadata: own.metadata, payment_method_id: methodId }
    yield* apply({ row: own, now }, { type: "update", at: now }, details)
  }
  const becomesDefault = becomesDefaultBySaving(own, customer) && customer.default_payment_method_id !== methodId
  if (!becomesDefault) return []
  ;(yield* unitOfWork).update(customers, [
    { before: customer, after: { ...customer, default_payment_method_id: methodId } },
  ])
  return yield* tryMethods([{ customer, methodId, now }])
})
