/** Computes monthly recurring revenue: one month's share of what subscriptions in service are billed. Pure; kobo. */
import { shareOf } from "../../../machines/billing.ts"
import type { BillingCycle } from "../../../machines/calendar.ts"
import { dayOf } from "../../base/time.ts"
import type { MrrMovement } from "../../ledger/mrr.ts"
import type { SubscriptionRow } from "./subscription.ts"

/** How often a cycle occurs in a year, as a fraction; deliveries follow no calendar. */
const PER_YEAR: Readonly<Record<BillingCycle, readonly [times: number, years: number]>> = {
  daily: [365, 1],
  weekly: [365, 7],
  monthly: [12, 1],
  quarterly: [4, 1],
  per_delivery: [0, 1],
}

/** A subscription's monthly recurring revenue: a twelfth of a year's price, from the first paid period on, while it is in service. */
const mrrOf = (row: SubscriptionRow): number => {
  const isInService = (row.status === "active" || row.status === "past_due") && row.period_no >= 0
  const [times, years] = PER_YEAR[row.billing_cycle]
  return isInService ? shareOf(row.price_kobo * row.period_quantity, times, 12 * years) : 0
}

const kindOf = (before: SubscriptionRow, from: number, to: number): MrrMovement["kind"] => {
  if (to === 0) return "churn"
  if (from === 0) return before.period_no < 0 ? "new" : "reactivation"
  return to > from ? "expansion" : "contraction"
}

/** The movement of monthly recurring revenue by a transition, at most one. `before`: the subscription before it; `at`: when it happened. */
export const movementsOf = (
  before: SubscriptionRow,
  after: SubscriptionRow,
  at: number,
): ReadonlyArray<MrrMovement> => {
  const [from, to] = [mrrOf(before), mrrOf(after)]
  return from === to
    ? []
    : [
        {
          account_id: after.account_id,
          livemode: after.livemode,
          subscription_id: after.id,
          version: after.version,
          customer_id: after.customer_id,
          plan_id: after.plan_id,
          day: dayOf(at),
          kind: kindOf(before, from, to),
          change_kobo: to - from,
          mrr_kobo: to,
        },
      ]
}
