/** Describes for pages what happens next on a subscription, and why it is not served in full. Pure. */

import type { PlanRow } from "../../billing/plan/plan.ts"
import type { SubscriptionRow } from "../../billing/subscription/subscription.ts"
import type { Halt, Upcoming } from "../../pages/views.ts"

type Named = Pick<PlanRow, "name" | "overage_per_unit_kobo">

/** Returns the next event of a subscription that owes nothing; undefined: it owes something, or has not started. */
export const upcomingOf = (
  row: SubscriptionRow,
  { name: plan, overage_per_unit_kobo }: Named,
): Upcoming | undefined => {
  const { status, billing_cycle, cancel_at_period_end, next_charge_at } = row
  if (row.dunning !== null) return undefined
  if (status === "cancelled") return { plan, what: "cancelled", at: row.cancelled_at! }
  const isByDelivery = billing_cycle === "per_delivery"
  if (cancel_at_period_end && status === "trialing")
    return { plan, what: "end", at: row.trial_end_at, billsUnits: false }
  if (cancel_at_period_end && status === "active")
    return isByDelivery
      ? { plan, what: "end", at: null, billsUnits: false }
      : { plan, what: "end", at: row.period_end_at, billsUnits: overage_per_unit_kobo !== null }
  if (next_charge_at !== null) return { plan, what: "charge", at: next_charge_at }
  if (isByDelivery && status === "active") return { plan, what: "charge", at: null }
  return undefined
}

/** Returns why a subscription is not served in full: an escalation, which a payment ends, or a requested pause. undefined: it is served. */
export const haltOf = (row: SubscriptionRow, plan: string): Halt | undefined => {
  const { dunning, escalation, pause } = row
  if (pause !== null) return { plan, what: "pause", since: pause.at, ends: { at: pause.resumesAt } }
  if (dunning === null || escalation === null || escalation.action === "none") return undefined
  return { plan, what: escalation.action, since: escalation.triggeredAt, ends: "by_paying" }
}
