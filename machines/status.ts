/** The API's view of a subscription's state. */
import { unpaidDeadline } from "./dunning.ts"
import type { SubscriptionContext } from "./periods.ts"

export const SUBSCRIPTION_STATUSES = ["incomplete", "trialing", "active", "past_due", "paused", "cancelled"] as const
export type SubscriptionStatus = (typeof SUBSCRIPTION_STATUSES)[number]

/** The statuses in which units are counted. */
export const UNIT_STATUSES: ReadonlyArray<SubscriptionStatus> = ["trialing", "active", "past_due"]

const STATUSES: Readonly<Record<string, SubscriptionStatus>> = {
  created: "incomplete",
  checkout: "incomplete",
  scheduled: "incomplete",
  opening: "incomplete",
  starting: "incomplete",
  trialing: "trialing",
  active: "active",
  paused: "paused",
  cancelled: "cancelled",
}

/** The states in which an attempt is in progress at the rail. */
const CHARGING: ReadonlySet<string> = new Set([
  "opening",
  "starting",
  "checkout.charging",
  "trialing.charging",
  "active.charging",
  "active.resuming",
  "overdue.charging",
  "ending",
])

/** Whether it waits for the completion of its checkout session (decision G2). */
export const waitsForCheckout = (state: string): boolean => state.startsWith("checkout.")

/** Whether a charge of the subscription is pending (decision E15). */
export const isCharging = (state: string): boolean => CHARGING.has(state)

/** The status of an overdue subscription, and of one that is ending, which keeps its earlier status. */
const standingOf = ({ pause, escalation, dunning }: SubscriptionContext): SubscriptionStatus => {
  if (pause !== null || escalation?.action === "pause") return "paused"
  return dunning === null ? "active" : "past_due"
}

/** The status that a state has in any context; undefined: the context decides. */
export const statusOfState = (state: string): SubscriptionStatus | undefined => STATUSES[state.split(".")[0]!]

/** The API's status. `state` is the machine's state as one word. */
export const statusOf = (state: string, context: SubscriptionContext): SubscriptionStatus =>
  statusOfState(state) ?? standingOf(context)

/** When a subscription with an unpaid bill ends automatically: by an earlier request, or for non-payment. */
export const endsAt = ({ bill, dunning, cancelAtPeriodEnd }: SubscriptionContext) => ({
  asked: cancelAtPeriodEnd && bill !== null ? bill.periodEnd : Number.POSITIVE_INFINITY,
  unpaid: dunning === null ? Number.POSITIVE_INFINITY : unpaidDeadline(dunning),
})

/** Whether a timer due at `at` comes before the end of such a subscription: at the same instant a retry may still save it (decision E19). */
export const isBeforeEnd = (context: SubscriptionContext, at: number): boolean => {
  const { asked, unpaid } = endsAt(context)
  return at < asked && at <= unpaid
}

/** When the next charge is due in the current state; null if none is. */
export const nextChargeAt = (state: string, context: SubscriptionContext): number | null => {
  const { cancelAtPeriodEnd: cancelling, periodEnd, trialEnd, dunning } = context
  switch (state.split(".")[0]) {
    case "overdue":
      return dunning === null || dunning.nextRetryAt === null || !isBeforeEnd(context, dunning.nextRetryAt)
        ? null
        : dunning.nextRetryAt
    case "scheduled":
      return trialEnd === null ? context.startAt : cancelling ? null : trialEnd
    case "trialing":
      return cancelling ? null : trialEnd
    case "active":
      return cancelling || context.billingCycle === "per_delivery" ? null : periodEnd
    case "paused": {
      // Resuming makes no charge: the next delivery is paid for (decision E24).
      if (context.billingCycle === "per_delivery") return null
      const resumesAt = context.pause?.resumesAt ?? null
      return cancelling && resumesAt !== null && periodEnd <= resumesAt ? null : resumesAt
    }
    default:
      return null
  }
}
