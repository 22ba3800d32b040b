/** A subscription as the API shows it (spec 2.5), and its lifecycle. */
import { subscriptionMachine } from "../../machines/subscription.ts"
import type { Lifecycle } from "../lifecycle/advance.ts"
import { formatInstant, formatInstantOrNull } from "../time.ts"
import { contextOf, type SubscriptionRow } from "./rows.ts"

export const renderSubscription = (row: SubscriptionRow) => ({
  id: row.id,
  object: "subscription" as const,
  livemode: row.livemode,
  created_at: formatInstant(row.created_at),
  status: row.status,
  customer: row.customer_id,
  plan: row.plan_id,
  quantity: row.quantity,
  payment_method: row.payment_method_id,
  current_period_start: formatInstant(row.period_start_at),
  current_period_end: formatInstant(row.period_end_at),
  next_charge_at: formatInstantOrNull(row.next_charge_at),
  trial_end: formatInstantOrNull(row.trial_end_at),
  cancel_at_period_end: row.cancel_at_period_end,
  paused_at: formatInstantOrNull(row.status === "paused" ? (row.pause?.at ?? row.escalation!.triggeredAt) : null),
  resumes_at: formatInstantOrNull(row.pause?.resumesAt ?? null),
  cancelled_at: formatInstantOrNull(row.cancelled_at),
  cancellation_reason: row.cancellation_reason,
  retry:
    row.dunning === null
      ? null
      : {
          attempt: row.dunning.retriesMade,
          max_attempts: row.dunning.policy.maxAttempts,
          next_retry_at: formatInstantOrNull(row.dunning.nextRetryAt),
        },
  escalation:
    row.escalation === null
      ? null
      : { action: row.escalation.action, triggered_at: formatInstant(row.escalation.triggeredAt) },
  latest_charge: row.latest_charge_id,
  metadata: row.metadata,
})

/** Timers in the order of decision E19: what cancels at a period's end, resumes, renews, retries, cancels for non-payment. */
export const subscriptionLifecycle: Lifecycle<typeof subscriptionMachine, SubscriptionRow> = {
  kind: "subscription",
  machine: subscriptionMachine,
  machineVersion: 1,
  ranks: {
    billPeriodEnd: 1,
    pausedPeriodEnd: 1,
    resume: 2,
    start: 3,
    trialEnd: 3,
    periodEnd: 3,
    nextRetry: 4,
    unpaidTooLong: 5,
    trialWillEnd: 6,
  },
  contextOf,
}
