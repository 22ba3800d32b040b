/** Decides how a newly entered payment method is used (decisions E6, F8, G2). Pure: the page shows the decision, and the submission applies it. */
import type { CustomerRow } from "../../billing/customer/customer.ts"
import { chargedAtOnce } from "../../billing/subscription/newMethod.ts"
import type { SubscriptionRow } from "../../billing/subscription/subscription.ts"

export interface Use {
  /** What the method becomes: the customer's default, the own method of the link's subscription, or an additional method. */
  readonly becomes: "default" | "own" | "beside"
  /** The overdue subscriptions whose bills are charged to it immediately, besides the page's own payment. */
  readonly charged: ReadonlyArray<SubscriptionRow>
}

type Customer = Pick<CustomerRow, "default_payment_method_id">

/** A new default is tried on every overdue bill. */
const asDefault = (overdue: ReadonlyArray<SubscriptionRow>, now: number): Use => ({
  becomes: "default",
  charged: chargedAtOnce(overdue, now),
})

/** Decides on the page of a checkout session. `customer`: undefined until the buyer is identified. `overdue`: the customer's. */
export const useAtCheckout = (
  customer: Customer | undefined,
  overdue: ReadonlyArray<SubscriptionRow>,
  now: number,
): Use =>
  customer?.default_payment_method_id == null || overdue.length > 0
    ? asDefault(overdue, now)
    : { becomes: "beside", charged: [] }

/**
 * Decides on a payment link. If the link's subscription has its own method, the new one replaces it. It becomes the default only if there
 * is none.
 */
export const useByLink = (
  own: Pick<SubscriptionRow, "payment_method_id"> | undefined,
  customer: Customer,
  overdue: ReadonlyArray<SubscriptionRow>,
  now: number,
): Use =>
  own?.payment_method_id == null || customer.default_payment_method_id === null
    ? asDefault(overdue, now)
    : { becomes: "own", charged: [] }
