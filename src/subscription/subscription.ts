/** A subscription: its table, its lifecycle, and how the API shows it. */
import { BILLING_CYCLES } from "../../machines/calendar.ts"
import type { Dunning } from "../../machines/dunning.ts"
import { type Bill, CANCELLATION_REASONS, type SubscriptionContext } from "../../machines/periods.ts"
import { nextChargeAt, SUBSCRIPTION_STATUSES, statusOf } from "../../machines/status.ts"
import { subscriptionMachine } from "../../machines/subscription.ts"
import {
  actorTable,
  bigint,
  columnsOf,
  flag,
  instant,
  integer,
  json,
  nullable,
  oneOf,
  type RowOf,
  text,
} from "../db/table.ts"
import type { Metadata } from "../metadata.ts"
import type { Lifecycle, Transition } from "../runtime/lifecycle.ts"
import { formatInstant, formatInstantOrNull } from "../time.ts"
import type { Subscription } from "./api.ts"

const { fixed, moving, edited } = columnsOf<SubscriptionContext>()

export const subscriptions = actorTable<SubscriptionContext>()(
  "subscription",
  { noun: "subscription" },
  {
    customer_id: fixed(text),
    plan_id: fixed(text),
    test_clock_id: fixed(nullable(text)),
    created_at: fixed(instant),
    billing_cycle: fixed(oneOf(BILLING_CYCLES), "billingCycle"),
    price_kobo: fixed(bigint, "priceKobo"),
    start_at: fixed(instant, "startAt"),
    trial_end_at: fixed(nullable(instant), "trialEnd"),
    status: moving(oneOf(SUBSCRIPTION_STATUSES), statusOf),
    quantity: moving(integer, "quantity"),
    anchor_at: moving(instant, "anchorAt"),
    period_no: moving(integer, "periodNo"),
    period_start_at: moving(instant, "periodStart"),
    period_end_at: moving(instant, "periodEnd"),
    period_quantity: moving(integer, "periodQuantity"),
    next_charge_at: moving(nullable(instant), nextChargeAt),
    units: moving(bigint, "units"),
    cancel_at_period_end: moving(flag, "cancelAtPeriodEnd"),
    cancel_reason: moving(nullable(oneOf(CANCELLATION_REASONS)), "cancelReason"),
    bills_made: moving(integer, "billsMade"),
    bill: moving(nullable(json<Bill>()), "bill"),
    dunning: moving(nullable(json<Dunning>()), "dunning"),
    escalation: moving(nullable(json<NonNullable<SubscriptionContext["escalation"]>>()), "escalation"),
    pause: moving(nullable(json<NonNullable<SubscriptionContext["pause"]>>()), "pause"),
    cancelled_at: moving(nullable(instant), "cancelledAt"),
    cancellation_reason: moving(nullable(oneOf(CANCELLATION_REASONS)), "cancellationReason"),
    latest_charge_id: moving(nullable(text)),
    /** The latest charge as the newest event about the subscription showed it. */
    announced_charge_id: moving(nullable(text)),
    payment_method_id: edited(nullable(text)),
    metadata: edited(json<Metadata>()),
  },
)

export type SubscriptionRow = RowOf<typeof subscriptions>
export type SubscriptionTransition = Transition<typeof subscriptionMachine, SubscriptionRow>

/** The timer of the next reminder: it follows from the plan's rules, which may change under the subscription. */
export const REMINDER = "reminder"

/** Timers in the order of decision E19: what cancels at a period's end, resumes, renews, retries, cancels for non-payment. */
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
  id: row.id,
  object: "subscription",
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
