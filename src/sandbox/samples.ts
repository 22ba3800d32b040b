/** Made-up objects for test events (decision I9): of each known family one, shaped as the API shows it. */
import { newId } from "../ids.ts"
import { DAY_MS, formatInstant } from "../time.ts"

type Json = Readonly<Record<string, unknown>>

const CARD = {
  id: "pm_test_success",
  type: "card",
  brand: "visa",
  last4: "4242",
  bank_name: null,
  exp_month: 12,
  exp_year: 2034,
}

const common = (object: string, id: string, at: number): Json => ({
  id,
  object,
  livemode: false,
  created_at: formatInstant(at),
})

const customer = (at: number): Json => ({
  ...common("customer", newId("customer"), at),
  name: "Ada Obi",
  email: "ada@example.com",
  phone: "+2348031234567",
  default_payment_method: CARD,
  test_clock: null,
  metadata: {},
})

const subscription = (at: number): Json => ({
  ...common("subscription", newId("subscription"), at),
  status: "active",
  customer: newId("customer"),
  plan: newId("plan"),
  quantity: 1,
  payment_method: null,
  current_period_start: formatInstant(at),
  current_period_end: formatInstant(at + 30 * DAY_MS),
  next_charge_at: formatInstant(at + 30 * DAY_MS),
  trial_end: null,
  cancel_at_period_end: false,
  paused_at: null,
  resumes_at: null,
  cancelled_at: null,
  cancellation_reason: null,
  retry: null,
  escalation: null,
  latest_charge: newId("charge"),
  metadata: {},
})

const AMOUNT_KOBO = 500_000

const charge = (at: number): Json => ({
  ...common("charge", newId("charge"), at),
  amount: AMOUNT_KOBO,
  currency: "NGN",
  status: "succeeded",
  customer: newId("customer"),
  subscription: newId("subscription"),
  attempt_number: 1,
  will_retry: false,
  next_retry_at: null,
  failure_code: null,
  failure_message: null,
  payment_method: CARD,
  processor: "simulator",
  description: null,
  lines: [{ type: "plan", description: "Plan", quantity: 1, unit_amount: AMOUNT_KOBO, amount: AMOUNT_KOBO }],
  refund_due: false,
  paid_at: formatInstant(at),
  metadata: {},
})

const nudge = (at: number): Json => ({
  ...common("nudge", `ndg_${newId("event").slice(4)}`, at),
  customer: newId("customer"),
  subscription: null,
  channel: "sms",
  template: "payment_due",
  source: "automatic",
  status: "sent",
  failure_reason: null,
  counts_toward_allowance: true,
  billed_as_overage: false,
  sent_at: formatInstant(at),
  delivered_at: null,
})

const clock = (at: number): Json => ({
  ...common("test_clock", newId("test_clock"), at),
  name: null,
  frozen_time: formatInstant(at),
  status: "ready",
  customer_count: 1,
  deletes_at: formatInstant(at + 30 * DAY_MS),
})

const usage = (): Json => ({
  object: "usage_threshold",
  metric: "write_requests",
  threshold: 80,
  used: 4000,
  included: 5000,
})

/** How the object looks in the state that an event tells of. */
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
  const paused = { status: "paused", paused_at: now, next_charge_at: null }
  return new Map(
    Object.entries({
      "charge.failed": failed,
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
      "nudge.delivered": { status: "delivered", delivered_at: now },
      "nudge.failed": { status: "failed", failure_reason: "number_unreachable", counts_toward_allowance: false },
    }),
  )
}

const FAMILIES: ReadonlyMap<string, (at: number) => Json> = new Map([
  ["customer", customer],
  ["subscription", subscription],
  ["charge", charge],
  ["nudge", nudge],
  ["test_clock", clock],
  ["usage", usage],
])

/** An object for an event of this type; families that we don't know get one with nothing but an ID. */
export const sampleFor = (type: string, at: number): Json => {
  const family = type.split(".")[0]!
  const made = FAMILIES.get(family)?.(at) ?? common(family, `${family.slice(0, 16)}_${newId("event").slice(4)}`, at)
  return { ...made, ...states(at).get(type) }
}
