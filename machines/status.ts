/** What the API shows of a subscription's state (spec 2.5). */
import type { SubscriptionContext } from "./periods.ts"

export type SubscriptionStatus = "incomplete" | "trialing" | "active" | "past_due" | "paused" | "cancelled"

const STATUSES: Readonly<Record<string, SubscriptionStatus>> = {
  created: "incomplete",
  scheduled: "incomplete",
  opening: "incomplete",
  starting: "incomplete",
  trialing: "trialing",
  active: "active",
  overdue: "past_due",
  cancelled: "cancelled",
}

/** The API's status (spec 2.5). `state` is the machine's state as one word. */
export const statusOf = (state: string, context: SubscriptionContext): SubscriptionStatus => {
  const top = state.split(".")[0]!
  return top === "overdue" && context.escalation?.action === "pause" ? "paused" : STATUSES[top]!
}

/** When money will be asked for next, as things stand; null where it won't. */
export const nextChargeAt = (state: string, context: SubscriptionContext): number | null => {
  const top = state.split(".")[0]
  if (top === "overdue") return context.dunning?.nextRetryAt ?? null
  if (top === "cancelled") return null
  if (top === "scheduled") return context.trialEnd ?? context.startAt
  if (context.cancelAtPeriodEnd) return null
  if (top === "trialing") return context.trialEnd
  return top === "active" && context.billingCycle !== "per_delivery" ? context.periodEnd : null
}
