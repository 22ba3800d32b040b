/** Which method a saved one takes the place of (decision F8). Pure. */
import type { CustomerRow } from "../customer/customer.ts"
import type { SubscriptionRow } from "../subscription/subscription.ts"

/**
 * Whether a method that is saved by a link becomes the customer's default: where the link's subscription has a method of its
 * own, it takes the place of that, and becomes the default only where there is none.
 */
export const becomesDefaultBySaving = (
  own: Pick<SubscriptionRow, "payment_method_id"> | undefined,
  customer: Pick<CustomerRow, "default_payment_method_id">,
): boolean => own?.payment_method_id == null || customer.default_payment_method_id === null
