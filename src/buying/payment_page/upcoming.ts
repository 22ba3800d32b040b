/** What comes next of a subscription, and what keeps it from being served, as pages say it. Pure. */

import type { PlanRow } from "../../billing/plan/plan.ts"
import type { SubscriptionRow } from "../../billing/subscription/subscription.ts"
import type { Halt, Upcoming } from "../../pages/views.ts"

type Named = Pick<PlanRow, "name" | "overage_per_unit_kobo">

/** What comes next of a subscription that owes nothing; undefined where it owes something, or has not begun. */
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

/** Why a subscription is not served in full: what escalation did, which paying undoes, or a pause that was asked for; undefined where it is. */
export const haltOf = (row: SubscriptionRow, plan: string): Halt | undefined => {
  const { dunning, escalation, pause } = row
  if (pause !== null) return { plan, what: "pause", since: pause.at, ends: { at: pause.resumesAt } }
  if (dunning === null || escalation === null || escalation.action === "none") return undefined
  return { plan, what: escalation.action, since: escalation.triggeredAt, ends: "by_paying" }
}
