/** Declares the subscription's table and lifecycle, and renders subscriptions for the API. */
import { BILLING_CYCLES } from "../../../machines/calendar.ts"
import type { Dunning } from "../../../machines/dunning.ts"
import { type Bill, CANCELLATION_REASONS, type SubscriptionContext } from "../../../machines/periods.ts"
import { nextChargeAt, SUBSCRIPTION_STATUSES, statusOf } from "../../../machines/status.ts"
import { subscriptionMachine } from "../../../machines/subscription.ts"
import type { Metadata } from "../../base/metadata.ts"
import { formatInstant, formatInstantOrNull } from "../../base/time.ts"
import * as column from "../../db/columns.ts"
import { actorTable, columnsOf, type RowOf } from "../../db/table.ts"
import { commonOf } from "../../http/response.ts"
import type { Lifecycle, Transition } from "../../runtime/lifecycle.ts"
import type { Subscription } from "./api.ts"

const { immutable, mutable } = columnsOf<SubscriptionContext>()

export const subscriptions = actorTable<SubscriptionContext>()(
  "subscription",
  { noun: "subscription", ids: "subscription" },
  {
    customer_id: immutable(column.text),
    plan_id: immutable(column.text),
    test_clock_id: immutable(column.nullable(column.text)),
    created_at: immutable(column.instant),
    billing_cycle: immutable(column.oneOf(BILLING_CYCLES), "billingCycle"),
    price_kobo: immutable(column.bigint, "priceKobo"),
    start_at: immutable(column.instant, "startAt"),
    trial_end_at: mutable(column.nullable(column.instant), "trialEnd"),
    status: mutable(column.oneOf(SUBSCRIPTION_STATUSES), statusOf),
    quantity: mutable(column.integer, "quantity"),
    anchor_at: mutable(column.instant, "anchorAt"),
    period_no: mutable(column.integer, "periodNo"),
    period_start_at: mutable(column.instant, "periodStart"),
    period_end_at: mutable(column.instant, "periodEnd"),
    period_quantity: mutable(column.integer, "periodQuantity"),
    next_charge_at: mutable(column.nullable(column.instant), nextChargeAt),
    units: mutable(column.bigint, "units"),
    cancel_at_period_end: mutable(column.flag, "cancelAtPeriodEnd"),
    cancel_reason: mutable(column.nullable(column.oneOf(CANCELLATION_REASONS)), "cancelReason"),
    bills_made: mutable(column.integer, "billsMade"),
    bill: mutable(column.nullable(column.json<Bill>()), "bill"),
    dunning: mutable(column.nullable(column.json<Dunning>()), "dunning"),
    escalation: mutable(column.nullable(column.json<NonNullable<SubscriptionContext["escalation"]>>()), "escalation"),
    pause: mutable(column.nullable(column.json<NonNullable<SubscriptionContext["pause"]>>()), "pause"),
    cancelled_at: mutable(column.nullable(column.instant), "cancelledAt"),
    cancellation_reason: mutable(column.nullable(column.oneOf(CANCELLATION_REASONS)), "cancellationReason"),
    latest_charge_id: mutable(column.nullable(column.text)),
    /** The latest charge at the time of the newest event about the subscription. */
    announced_charge_id: mutable(column.nullable(column.text)),
    payment_method_id: mutable(column.nullable(column.text)),
    metadata: mutable(column.json<Metadata>()),
  },
)

export type SubscriptionRow = RowOf<typeof subscriptions>
export type SubscriptionTransition = Transition<typeof subscriptionMachine, SubscriptionRow>

/** The timer of the next reminder, set by the plan's rules, which may change at any time. */
export const REMINDER = "reminder"

/** Timers in the order of decision E19: cancel at a period's end, resume, renew, retry, cancel for non-payment. */
export const subscriptionLifecycle: Lifecycle<typeof subscriptionMachine, SubscriptionRow, typeof REMINDER> = {
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
    [REMINDER]: 7,
  },
  table: subscriptions,
}

export const renderSubscription = (row: SubscriptionRow): typeof Subscription.Type => ({
  ...commonOf("subscription", row),
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
