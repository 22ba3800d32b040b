/** The objects of events, by family, as the API shows them. Also builds sample objects for test events (decision I9). */

import { newId, newPlanCode } from "../base/ids.ts"
import type { Json } from "../base/json.ts"
import { DAY_MS, formatInstant } from "../base/time.ts"
import { Charge } from "../billing/charge/api.ts"
import { TestClock } from "../billing/clock/api.ts"
import { Customer } from "../billing/customer/api.ts"
import { Plan } from "../billing/plan/api.ts"
import { Subscription } from "../billing/subscription/api.ts"
import { CheckoutSession } from "../buying/checkout/api.ts"
import { Plan as InstalmentPlan } from "../buying/instalment/shapes.ts"
import type { DeclaredEvent } from "../http/openapi.ts"
import { EXAMPLE_AT, exampleOf, freshExample } from "../http/response.ts"
import { UsageThreshold } from "../merchants/usage/api.ts"
import { Event } from "../outbound/event/api.ts"
import { EVENT_MEANINGS, EVENT_TYPES } from "../outbound/event/types.ts"
import { Nudge } from "../outbound/nudge/api.ts"
import { WebhookEndpoint } from "../outbound/webhook/api.ts"

/** The families of events whose objects have an example. */
const FAMILIES = new Map(
  Object.entries({
    customer: Customer,
    subscription: Subscription,
    charge: Charge,
    checkout_session: CheckoutSession,
    nudge: Nudge,
    test_clock: TestClock,
    plan: Plan,
    savings_plan: InstalmentPlan,
    usage: UsageThreshold,
    webhook_endpoint: WebhookEndpoint,
  }),
)

/** Makes an ID for a kind of object that does not exist yet. */
const looseId = (prefix: string): string => `${prefix.slice(0, 16)}_${newId("event").slice(4)}`

/** For each event type: the fields of its object in the matching state. */
const states = (at: number): ReadonlyMap<string, Json> => {
  const now = formatInstant(at)
  const soon = formatInstant(at + DAY_MS)
  const failed = {
    status: "failed",
    paid_at: null,
    failure_code: "insufficient_funds",
    failure_message: "Simulated: insufficient funds.",
    will_retry: true,
    next_retry_at: soon,
  }
  const overdue = {
    status: "past_due",
    retry: { attempt: 0, max_attempts: 3, next_retry_at: soon },
    next_charge_at: soon,
  }
  const paidUp = { amountPaid: 300_000, outstanding: 0, instalmentsPaid: 3, nextDue: null, completedAt: now }
  const shipped = { ...paidUp, status: "shipped", shippedAt: now }
  const paused = { status: "paused", paused_at: now, next_charge_at: null }
  return new Map(
    Object.entries({
      "charge.failed": failed,
      "charge.attention_required": {
        status: "pending",
        paid_at: null,
        attention: { kind: "amount_differs", expected_amount: 500_000, received_amount: 400_000, currency: "NGN" },
      },
      "charge.retry_scheduled": failed,
      "subscription.trial_will_end": { status: "trialing", trial_end: formatInstant(at + 3 * DAY_MS) },
      "subscription.past_due": overdue,
      "subscription.escalated": {
        ...overdue,
        retry: { attempt: 3, max_attempts: 3, next_retry_at: null },
        next_charge_at: null,
        escalation: { action: "restrict", triggered_at: now },
      },
      "subscription.paused": paused,
      "subscription.cancelled": {
        status: "cancelled",
        cancelled_at: now,
        cancellation_reason: "merchant_request",
        next_charge_at: null,
      },
      "checkout_session.completed": { status: "completed", url: null },
      "checkout_session.expired": { status: "expired", url: null },
      "savings_plan.created": { status: "pending", amountPaid: 0, outstanding: 300_000, instalmentsPaid: 0 },
      "savings_plan.overdue": { status: "overdue", pendingFee: 500 },
      "savings_plan.completed": { ...paidUp, status: "completed" },
      "savings_plan.shipped": shipped,
      "savings_plan.delivered": { ...shipped, status: "delivered", deliveredAt: now, refundWindowEndsAt: soon },
      "savings_plan.cancelled": { status: "cancelled", nextDue: null },
      "nudge.delivered": {
        status: "delivered",
        delivered_at: now,
        counts_toward_allowance: true,
        attempts: [{ channel: "sms", status: "delivered", failure_reason: null, at: now }],
      },
      "nudge.failed": {
        status: "failed",
        sent_at: null,
        failure_reason: "number_unreachable",
        attempts: [{ channel: "sms", status: "failed", failure_reason: "number_unreachable", at: now }],
      },
    }),
  )
}

/** Makes a sample object for an event of this type. An unknown family gets the common fields only. */
export const sampleFor = (type: string, at: number): Json => {
  const family = type.split(".")[0]!
  const schema = FAMILIES.get(family)
  const object =
    schema === undefined
      ? { id: looseId(family), object: family, livemode: false, created_at: formatInstant(at) }
      : freshExample(schema, at, newId)
  const id = family === "savings_plan" ? { id: newPlanCode() } : {}
  return { ...object, ...id, ...states(at).get(type) }
}

/** Lists every event type for the OpenAPI document. */
export const declaredEvents: ReadonlyArray<DeclaredEvent> = EVENT_TYPES.map((type) => {
  // Every event type has an object.
  const schema = FAMILIES.get(type.split(".")[0]!)!
  const object = { ...exampleOf(schema), ...states(EXAMPLE_AT).get(type) }
  const example = { ...exampleOf(Event), type, data: { object, previous_attributes: {} } }
  return { type, meaning: EVENT_MEANINGS[type], schema, example }
})
