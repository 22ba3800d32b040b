/** What objects look like: in the OpenAPI document, and in test events of the sandbox (decision I9). */
import type { IdKind } from "../ids.ts"
import { DAY_MS, formatInstant } from "../time.ts"

type Json = Readonly<Record<string, unknown>>

const AMOUNT_KOBO = 500_000
const MONTH_DAYS = 30

const CARD = {
  id: "pm_test_success",
  type: "card",
  brand: "visa",
  last4: "4242",
  bank_name: null,
  exp_month: 12,
  exp_year: 2034,
} as const

const LINK = "https://billing.example/pay/zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz"

/** One object of each kind as it might stand at `at`; `id` makes their IDs. */
export const examplesAt = (at: number, id: (kind: IdKind) => string) => {
  const now = formatInstant(at)
  const later = (days: number) => formatInstant(at + days * DAY_MS)
  const common = (object: string, objectId: string) => ({ id: objectId, object, livemode: false, created_at: now })
  const period = { start: "2026-11-01T00:00:00.000Z", end: "2026-12-01T00:00:00.000Z" }
  const customer = {
    ...common("customer", id("customer")),
    name: "Ada Obi",
    email: "ada@example.com",
    phone: "+2348031234567",
    default_payment_method: CARD,
    test_clock: null,
    metadata: {},
  }
  const lines = [{ type: "plan", description: "Plan", quantity: 1, unit_amount: AMOUNT_KOBO, amount: AMOUNT_KOBO }]
  const endpoint = {
    ...common("webhook_endpoint", id("webhook_endpoint")),
    url: "https://shop.example/webhooks",
    description: null,
    enabled_events: ["subscription.*", "charge.failed"],
    status: "enabled",
    disabled_reason: null,
  }
  const nudge = {
    ...common("nudge", id("nudge")),
    customer: customer.id,
    subscription: null,
    channel: "sms",
    template: "payment_due",
    source: "automatic",
    status: "sent",
    failure_reason: null,
    counts_toward_allowance: false,
    billed_as_overage: false,
    sent_at: now,
    delivered_at: null,
    attempts: [{ channel: "sms", status: "sent", failure_reason: null, at: now }],
  }
  return {
    account: {
      ...common("account", id("account")),
      business_name: "Fit Lagos",
      api_plan: "starter",
      live_access: "approved",
    },
    plan: {
      ...common("plan", id("plan")),
      updated_at: now,
      name: "Gym",
      description: null,
      amount: AMOUNT_KOBO,
      currency: "NGN",
      billing_cycle: "monthly",
      trial_days: 14,
      pause_enabled: true,
      pro_rate: true,
      overage_per_unit: null,
      category: "gym_fitness",
      service_config: {},
      retry_logic: {
        enabled: true,
        max_attempts: 3,
        retry_intervals_days: [1, 3, 7],
        escalation_on_failure: "pause_service",
        cancel_after_days_unpaid: 30,
      },
      reminders: { enabled: true, channels: ["whatsapp", "sms", "email"], pre_due_days: [3], post_due_days: [1, 3] },
      metadata: {},
      status: "active",
    },
    customer,
    payment_method: { ...common("payment_method", CARD.id), customer: customer.id, ...CARD, object: "payment_method" },
    test_payment_method: {
      ...CARD,
      object: "test_payment_method",
      livemode: false,
      behaviour: "Every charge succeeds.",
    },
    subscription: {
      ...common("subscription", id("subscription")),
      status: "active",
      customer: customer.id,
      plan: id("plan"),
      quantity: 1,
      payment_method: null,
      current_period_start: now,
      current_period_end: later(MONTH_DAYS),
      next_charge_at: later(MONTH_DAYS),
      trial_end: null,
      cancel_at_period_end: false,
      paused_at: null,
      resumes_at: null,
      cancelled_at: null,
      cancellation_reason: null,
      retry: null,
      escalation: null,
      latest_charge: id("charge"),
      metadata: {},
    },
    charge: {
      ...common("charge", id("charge")),
      amount: AMOUNT_KOBO,
      currency: "NGN",
      status: "succeeded",
      customer: customer.id,
      subscription: id("subscription"),
      attempt_number: 1,
      will_retry: false,
      next_retry_at: null,
      failure_code: null,
      failure_message: null,
      payment_method: CARD,
      processor: "simulator",
      description: null,
      lines,
      refund_due: false,
      paid_at: now,
      metadata: {},
    },
    unit_record: {
      ...common("unit_record", id("unit_record")),
      subscription: id("subscription"),
      quantity: 40,
      action: "increment",
      period_total: 95,
      timestamp: now,
      description: "litres",
    },
    test_clock: {
      ...common("test_clock", id("test_clock")),
      name: "A year of renewals",
      frozen_time: now,
      status: "ready",
      customer_count: 1,
      deletes_at: later(MONTH_DAYS),
    },
    event: {
      ...common("event", id("event")),
      type: "customer.created",
      api_version: "v1",
      data: { object: customer, previous_attributes: {} },
    },
    webhook_endpoint: endpoint,
    webhook_endpoint_secret: { ...endpoint, secret: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo=" },
    webhook_test: { event: id("event"), response_status: 200, duration_ms: 42, delivered: true },
    delivery: {
      ...common("delivery", id("delivery")),
      event: id("event"),
      webhook_endpoint: endpoint.id,
      attempt: 1,
      status: "pending",
      response_status: 503,
      response_body: "try again later",
      failure_reason: "response_status",
      duration_ms: 118,
      next_attempt_at: later(0),
    },
    nudge,
    outbox_nudge: {
      ...nudge,
      to: customer.phone,
      rendered_message: `Hello Ada Obi, NGN 5,000.00 for Gym is due to Fit Lagos on 1 December 2026. To pay or change how you pay: ${LINK}`,
      payment_link: LINK,
    },
    usage: {
      object: "usage",
      livemode: true,
      plan: "starter",
      period,
      write_requests: {
        used: 5_001,
        included: 5_000,
        remaining: 0,
        overage: 1,
        overage_rate_per_1000: 10,
        projected_overage_amount: 10,
      },
      read_requests: { used: 18_250, metered: false },
      nudges: { used: 12, included: 50, overage: 0, overage_rate: 5_000, overage_amount: 0, overage_cap: null },
      updated_at: now,
    },
    invoice: {
      ...common("invoice", id("invoice")),
      livemode: true,
      status: "open",
      period_start: "2026-10-01T00:00:00.000Z",
      period_end: "2026-11-01T00:00:00.000Z",
      currency: "NGN",
      lines: [
        {
          type: "plan_fee",
          description: "Starter plan, 2026-10",
          quantity: 1,
          unit_amount: AMOUNT_KOBO,
          amount: AMOUNT_KOBO,
        },
      ],
      total: AMOUNT_KOBO,
      due_at: "2026-11-08T00:00:00.000Z",
      paid_at: null,
      pdf_url: "https://billing.example/invoices/inv_….pdf?expires=…&signature=…",
    },
    provider: { ...common("provider", id("account")), vertical: "gym_fitness", live_access: "approved" },
    provider_change: {
      ...common("provider_change", id("provider_change")),
      previous_vertical: "generic",
      new_vertical: "fuel",
      administrator: "Ops",
      reason: "They sell diesel now",
    },
    client_config: { object: "client_config", business_name: "Fit Lagos", livemode: false },
    sandbox_reset: { status: "resetting" },
    deleted: { id: id("test_clock"), object: "test_clock", livemode: false, deleted: true },
  } satisfies Readonly<Record<string, Json>>
}

/** IDs in documents: of the right shape, always the same. */
const documentId = (kind: string): string => `${kind.slice(0, 4)}_01m7yyp0a6e08v7r97jkyz1pj0`

export const EXAMPLES: Readonly<Record<string, Json>> = examplesAt(Date.UTC(2026, 10, 1, 9), documentId)
