/** The types of events that the service emits, and the patterns that endpoints can be enabled for. */
import { CHECKOUT_EVENT_TYPES } from "../../../machines/checkout.ts"
import { SUBSCRIPTION_EVENT_TYPES } from "../../../machines/events.ts"
import { INSTALMENT_EVENT_TYPES } from "../../../machines/instalment.ts"
import { NUDGE_EVENT_TYPES } from "../../../machines/nudge.ts"

export const EVENT_TYPES = [
  ...SUBSCRIPTION_EVENT_TYPES,
  ...CHECKOUT_EVENT_TYPES,
  ...INSTALMENT_EVENT_TYPES,
  ...NUDGE_EVENT_TYPES,
  "charge.attention_required",
  "usage.threshold_reached",
  "test_clock.ready",
  "webhook_endpoint.test",
] as const

/** All emitted types. Only a merchant's test events may have other types. */
export type EventType = (typeof EVENT_TYPES)[number]

/** When each type is emitted, for merchants (docs/webhooks.md, the OpenAPI document). */
export const EVENT_MEANINGS: Readonly<Record<EventType, string>> = {
  "subscription.created":
    "A subscription is created. If its first payment is still pending, or is to come from a checkout session, the result follows: `subscription.updated` if it succeeds, else `subscription.cancelled`.",
  "subscription.trial_will_end": "Three days before a trial ends; immediately if the trial is shorter.",
  "subscription.updated":
    "A subscription changes in a way that no other event reports: its quantity, payment method or metadata changes, its cancellation at the period's end is set or removed, its trial or first period begins.",
  "subscription.renewed":
    "The charge of a further period succeeds when it is due (not a charge that resuming started).",
  "subscription.past_due":
    "The charge of a period fails when it is due: of a period after the first, or after a trial.",
  "subscription.recovered": "A past-due amount is paid, by a retry or by the buyer.",
  "subscription.escalated":
    "A charge failed and no retry is left, so the plan's escalation is applied: `escalation.action` is `pause`, `restrict` or `hold`.",
  "subscription.paused": "A subscription is paused, by a request or by the escalation `pause_service`.",
  "subscription.resumed": "A paused subscription continues, by a request, at `resumes_at`, or once it is paid.",
  "subscription.cancelled": "A subscription ends: `cancellation_reason` says why.",
  "charge.succeeded": "A charge of any kind is paid.",
  "charge.failed": "A charge is declined: `failure_code` says why, `will_retry` whether it is retried.",
  "charge.retry_scheduled": "After a charge failed, its next retry is set: `next_retry_at`.",
  "charge.attention_required":
    "A rail received less than the amount of the charge, or another currency: the charge stays pending, and `attention` says what was received. Sent again if that changes.",
  "checkout_session.completed": "A buyer completed a checkout session.",
  "checkout_session.expired": "A checkout session ends without being completed.",
  "savings_plan.created": "An instalment plan is created; its first payment is not made yet.",
  "savings_plan.activated": "The first payment of an instalment plan succeeds.",
  "savings_plan.payment_received": "A payment of an instalment plan succeeds.",
  "savings_plan.overdue": "An instalment is missed: it is unpaid 24 hours after it was due.",
  "savings_plan.completed": "An instalment plan is paid in full.",
  "savings_plan.shipped": "The goods of an instalment plan are on their way.",
  "savings_plan.delivered": "The goods of an instalment plan have arrived.",
  "savings_plan.cancelled": "An instalment plan is cancelled, or was not started in time.",
  "savings_plan.extended": "The unpaid instalments of a plan, and its deadline, are moved.",
  "nudge.sent": "A messenger accepted a message to a customer, on the first channel that accepts it.",
  "nudge.delivered": "A messenger confirmed that a message arrived.",
  "nudge.failed": "A message did not reach the customer by any channel: `failure_reason` says why.",
  "usage.threshold_reached":
    "80 % or 100 % of a month's included write requests or nudges are used. The account's owner also gets an e-mail.",
  "test_clock.ready": "A test clock has reached the time that it was advanced to (sandbox).",
  "webhook_endpoint.test": "A test of the endpoint was requested.",
}

const FAMILIES: ReadonlySet<string> = new Set(EVENT_TYPES.map((type) => type.split(".")[0]!))
const TYPES: ReadonlySet<string> = new Set(EVENT_TYPES)

/** The form of a type (`charge.failed`) and of a family (`charge.*`). */
const PATTERN = /^[a-z][a-z0-9_]{0,39}\.(\*|[a-z][a-z0-9_]{0,59})$/

/** Whether an endpoint can be enabled for this pattern (decision I7). In the sandbox, types of test events are allowed too. */
export const isEventPattern = (pattern: string, livemode: boolean): boolean => {
  if (pattern === "*") return true
  if (!livemode) return PATTERN.test(pattern)
  return pattern.endsWith(".*") ? FAMILIES.has(pattern.slice(0, -2)) : TYPES.has(pattern)
}
