/**
 * What a payment method that is entered on a page is used for (decisions E6, F8, G2). Pure: the page says it, and its submission
 * carries it out.
 */
import type { CustomerRow } from "../../billing/customer/customer.ts"
import { chargedAtOnce } from "../../billing/subscription/newMethod.ts"
import type { SubscriptionRow } from "../../billing/subscription/subscription.ts"

export interface Use {
  /** What it becomes: the customer's default, the own method of the subscription that a link is about, or one beside these. */
  readonly becomes: "default" | "own" | "beside"
  /** The overdue subscriptions whose bills are charged to it at once, beside what the page itself is about. */
  readonly charged: ReadonlyArray<SubscriptionRow>
}

type Customer = Pick<CustomerRow, "default_payment_method_id">

/** A default is tried on whatever is overdue. */
const asDefault = (owing: ReadonlyArray<SubscriptionRow>, now: number): Use => ({
  becomes: "default",
  charged: chargedAtOnce(owing, now),
})

/** On the page of a checkout session; undefined: the customer is not known yet. `owing`: what of the customer's is overdue. */
export const useAtCheckout = (
  customer: Customer | undefined,
  owing: ReadonlyArray<SubscriptionRow>,
  now: number,
): Use =>
  customer?.default_payment_method_id == null || owing.length > 0
    ? asDefault(owing, now)
    : { becomes: "beside", charged: [] }

/**
 * On a link by which it is saved. Where the link's subscription has a method of its own, it takes the place of that, and becomes the
 * default only where there is none.
 */
export const useByLink = (
  own: Pick<SubscriptionRow, "payment_method_id"> | undefined,
  customer: Customer,
  owing: ReadonlyArray<SubscriptionRow>,
  now: number,
): Use =>
  own?.payment_method_id == null || customer.default_payment_method_id === null
    ? asDefault(owing, now)
    : { becomes: "own", charged: [] }
