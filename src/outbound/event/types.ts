/** The types of events: what the service emits, and what endpoints can be enabled for. */
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

/** Nothing else is emitted, other than by a merchant's own tests. */
export type EventType = (typeof EVENT_TYPES)[number]

/** When each is emitted, as merchants read it (docs/webhooks.md, the OpenAPI document). */
export const EVENT_MEANINGS: Readonly<Record<EventType, string>> = {
  "subscription.created":
    "A subscription is created. What becomes of a first payment that is still under way, or that a checkout session is to bring, is told by `subscription.updated` where it succeeds, else by `subscription.cancelled`.",
  "subscription.trial_will_end": "Three days before a trial ends; at once where the trial is shorter.",
  "subscription.updated":
    "A subscription changes in a way that no other event tells: its quantity, payment method or metadata, that it is to end or not, its trial or first period begins.",
  "subscription.renewed": "The charge of a further period succeeds when it is due (not of one that resuming began).",
  "subscription.past_due": "The charge of a period fails when it is due: of one after the first, or after a trial.",
  "subscription.recovered": "What was past due is paid, by a retry or by the buyer.",
  "subscription.escalated":
    "A charge failed and no retry is left, so that the plan's escalation is carried out: `escalation.action` is `pause`, `restrict` or `hold`.",
  "subscription.paused": "A subscription is paused, by a request or by the escalation `pause_service`.",
  "subscription.resumed": "A paused subscription goes on, by a request, at `resumes_at`, or once it is paid.",
  "subscription.cancelled": "A subscription ends: `cancellation_reason` says why.",
  "charge.succeeded": "A charge is paid, whatever it is for.",
  "charge.failed": "A charge is declined: `failure_code` says why, `will_retry` whether it is tried again.",
  "charge.retry_scheduled": "After a charge failed, its next retry is set: `next_retry_at`.",
  "charge.attention_required":
    "A rail received less than was asked for, or another currency: the charge stays pending, and `attention` says what was received. Again where that changes.",
  "checkout_session.completed": "A buyer completed a checkout session.",
  "checkout_session.expired": "A checkout session is over without having been completed.",
  "savings_plan.created": "An instalment plan is begun; its first payment is to come.",
  "savings_plan.activated": "The first payment of an instalment plan succeeds.",
  "savings_plan.payment_received": "A payment of an instalment plan succeeds.",
  "savings_plan.overdue": "An instalment is missed: it is unpaid 24 hours after it was due.",
  "savings_plan.completed": "An instalment plan is paid in full.",
  "savings_plan.shipped": "The goods of an instalment plan are on their way.",
  "savings_plan.delivered": "The goods of an instalment plan have arrived.",
  "savings_plan.cancelled": "An instalment plan is cancelled, or was never begun in time.",
  "savings_plan.extended": "The unpaid instalments of a plan, and its deadline, are moved.",
  "nudge.sent": "A message to a customer was taken by the messenger of a channel, the first one that did.",
  "nudge.delivered": "A messenger confirmed that a message arrived.",
  "nudge.failed": "A message reached nobody by any channel: `failure_reason` says why.",
  "usage.threshold_reached":
    "80 % or 100 % of a month's included write requests or nudges are used. The account's owner is told by e-mail too.",
  "test_clock.ready": "A test clock has arrived at the time that it was advanced to (sandbox).",
  "webhook_endpoint.test": "Somebody asked for a test of the endpoint.",
}

const FAMILIES: ReadonlySet<string> = new Set(EVENT_TYPES.map((type) => type.split(".")[0]!))
const TYPES: ReadonlySet<string> = new Set(EVENT_TYPES)

/** What any type, and any family, looks like. */
const PATTERN = /^[a-z][a-z0-9_]{0,39}\.(\*|[a-z][a-z0-9_]{0,59})$/

/** Whether an endpoint can be enabled for it (decision I7): in the sandbox also for what only tests send. */
export const isEventPattern = (pattern: string, livemode: boolean): boolean => {
  if (pattern === "*") return true
  if (!livemode) return PATTERN.test(pattern)
  return pattern.endsWith(".*") ? FAMILIES.has(pattern.slice(0, -2)) : TYPES.has(pattern)
}
