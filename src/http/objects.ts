/** The objects that the API answers with (spec 2), for the OpenAPI document and the test that holds answers against it. */
import { Schema } from "effect"
import { Reminders, RetryLogic } from "../plan/api.ts"

const { Boolean: Bool, Int, Literals, NullOr, String: Text, Struct } = Schema

const instant = Text.annotate({ description: "An instant in UTC: YYYY-MM-DDTHH:MM:SS.sssZ" })
const kobo = Int.annotate({ description: "An amount in kobo" })
const metadata = Schema.Record(Text, Text)
const open = Schema.Record(Text, Schema.Unknown)
const idOrObject = Schema.Union([Text, open]).annotate({ description: "An ID, or the object where it is expanded" })

const common = <const Name extends string>(object: Name) => ({
  id: Text,
  object: Schema.Literal(object),
  livemode: Bool,
  created_at: instant,
})

const looks = {
  type: Literals(["card", "bank_account", "ussd"]),
  brand: NullOr(Text),
  last4: NullOr(Text),
  bank_name: NullOr(Text),
  exp_month: NullOr(Int),
  exp_year: NullOr(Int),
}

const paymentMethod = Struct({ id: Text, ...looks })

const line = Struct({
  type: Literals(["plan", "overage", "proration", "installment", "one_off"]),
  description: Text,
  quantity: Int,
  unit_amount: kobo,
  amount: kobo,
})

const webhookEndpoint = {
  ...common("webhook_endpoint"),
  url: Text,
  description: NullOr(Text),
  enabled_events: Schema.Array(Text),
  status: Literals(["enabled", "disabled"]),
  disabled_reason: NullOr(Literals(["endpoint_gone", "repeated_failures"])),
}

const channel = Literals(["whatsapp", "sms", "email"])

const nudge = {
  ...common("nudge"),
  customer: idOrObject,
  subscription: NullOr(idOrObject),
  channel,
  template: Literals(["payment_due", "payment_failed", "update_payment_method", "service_paused", "custom"]),
  source: Literals(["automatic", "api", "dashboard"]),
  status: Literals(["queued", "sent", "delivered", "failed"]),
  failure_reason: NullOr(Text),
  counts_toward_allowance: Bool,
  billed_as_overage: Bool,
  sent_at: NullOr(instant),
  delivered_at: NullOr(instant),
  attempts: Schema.Array(
    Struct({
      channel,
      status: Literals(["sent", "delivered", "failed"]),
      failure_reason: NullOr(Text),
      at: instant,
    }),
  ).annotate({ description: "Every channel that was tried" }),
}

export const OBJECTS = {
  account: Struct({
    ...common("account"),
    business_name: Text,
    api_plan: Literals(["starter", "growth", "scale", "enterprise"]),
    live_access: Literals(["not_requested", "pending_review", "approved", "rejected", "suspended"]),
  }),
  plan: Struct({
    ...common("plan"),
    updated_at: instant,
    name: Text,
    description: NullOr(Text),
    amount: kobo,
    currency: Schema.Literal("NGN"),
    billing_cycle: Literals(["daily", "weekly", "monthly", "quarterly", "per_delivery"]),
    trial_days: Int,
    pause_enabled: Bool,
    pro_rate: Bool,
    overage_per_unit: NullOr(kobo),
    category: NullOr(Text),
    service_config: open,
    retry_logic: RetryLogic,
    reminders: Reminders,
    metadata,
    status: Literals(["active", "archived"]),
  }),
  customer: Struct({
    ...common("customer"),
    name: Text,
    email: NullOr(Text),
    phone: NullOr(Text),
    default_payment_method: NullOr(paymentMethod),
    test_clock: NullOr(idOrObject),
    metadata,
  }),
  payment_method: Struct({ ...common("payment_method"), customer: Text, ...looks }),
  test_payment_method: Struct({
    id: Text,
    object: Schema.Literal("test_payment_method"),
    livemode: Bool,
    ...looks,
    behaviour: Text.annotate({ description: "What charges with it do, in words" }),
  }),
  subscription: Struct({
    ...common("subscription"),
    status: Literals(["incomplete", "trialing", "active", "past_due", "paused", "cancelled"]),
    customer: idOrObject,
    plan: idOrObject,
    quantity: Int,
    payment_method: NullOr(Text).annotate({
      description: "The subscription's own payment method; null: the customer's default",
    }),
    current_period_start: instant,
    current_period_end: instant,
    next_charge_at: NullOr(instant),
    trial_end: NullOr(instant),
    cancel_at_period_end: Bool,
    paused_at: NullOr(instant),
    resumes_at: NullOr(instant),
    cancelled_at: NullOr(instant),
    cancellation_reason: NullOr(
      Literals(["customer_request", "merchant_request", "nonpayment", "checkout_expired", "other"]),
    ),
    retry: NullOr(Struct({ attempt: Int, max_attempts: Int, next_retry_at: NullOr(instant) })),
    escalation: NullOr(Struct({ action: Literals(["pause", "restrict", "hold", "none"]), triggered_at: instant })),
    latest_charge: NullOr(idOrObject),
    metadata,
  }),
  charge: Struct({
    ...common("charge"),
    amount: kobo,
    currency: Schema.Literal("NGN"),
    status: Literals(["pending", "succeeded", "failed"]),
    customer: idOrObject,
    subscription: NullOr(idOrObject),
    attempt_number: Int,
    will_retry: Bool,
    next_retry_at: NullOr(instant),
    failure_code: NullOr(Text),
    failure_message: NullOr(Text),
    payment_method: NullOr(paymentMethod),
    processor: Text,
    description: NullOr(Text),
    lines: Schema.Array(line),
    refund_due: Bool.annotate({
      description: "The payment succeeded after its subscription was cancelled: it is owed back",
    }),
    paid_at: NullOr(instant),
    metadata,
  }),
  unit_record: Struct({
    ...common("unit_record"),
    subscription: idOrObject,
    quantity: Int,
    action: Literals(["increment", "set"]),
    period_total: Int.annotate({ description: "The period's units after this record" }),
    timestamp: instant,
    description: NullOr(Text),
  }),
  test_clock: Struct({
    ...common("test_clock"),
    name: NullOr(Text),
    frozen_time: instant,
    status: Literals(["ready", "advancing", "internal_failure"]),
    customer_count: Int,
    deletes_at: instant,
  }),
  event: Struct({
    ...common("event"),
    type: Text,
    api_version: Text,
    data: Struct({ object: open, previous_attributes: open }),
  }),
  webhook_endpoint: Struct(webhookEndpoint),
  webhook_endpoint_secret: Struct({
    ...webhookEndpoint,
    secret: Text.annotate({ description: "What deliveries are signed with: whsec_ and base64; shown this once" }),
    previous_secret_expires_at: Schema.optionalKey(instant),
  }),
  webhook_test: Struct({ event: Text, response_status: NullOr(Int), duration_ms: Int, delivered: Bool }),
  delivery: Struct({
    ...common("delivery"),
    event: Text,
    webhook_endpoint: Text,
    attempt: Int.annotate({ description: "Tries made" }),
    status: Literals(["pending", "succeeded", "failed"]),
    response_status: NullOr(Int),
    response_body: NullOr(Text).annotate({ description: "The first 2 KiB of the last answer" }),
    failure_reason: NullOr(Text),
    duration_ms: NullOr(Int),
    next_attempt_at: NullOr(instant),
  }),
  nudge: Struct(nudge),
  outbox_nudge: Struct({
    ...nudge,
    to: Text.annotate({ description: "Where it went: a phone number or an e-mail address" }),
    rendered_message: Text,
    payment_link: Text.annotate({ description: "Good for 30 days; treat it like a password" }),
  }),
  sandbox_reset: Struct({ status: Schema.Literal("resetting") }),
  usage: Struct({
    object: Schema.Literal("usage"),
    livemode: Bool,
    plan: Literals(["starter", "growth", "scale", "enterprise"]),
    period: Struct({ start: instant, end: instant }),
    write_requests: Struct({
      used: Int,
      included: NullOr(Int).annotate({ description: "null: unlimited" }),
      remaining: NullOr(Int),
      overage: Int,
      overage_rate_per_1000: NullOr(kobo),
      projected_overage_amount: kobo.annotate({ description: "What the overage comes to as the count stands (kobo)" }),
    }),
    read_requests: Struct({ used: Int, metered: Schema.Literal(false) }),
    nudges: Struct({
      used: Int,
      included: NullOr(Int),
      overage: Int,
      overage_rate: NullOr(kobo),
      overage_amount: kobo,
      overage_cap: NullOr(kobo),
    }),
    updated_at: instant,
  }),
  invoice: Struct({
    ...common("invoice"),
    status: Literals(["open", "paid", "overdue", "void"]),
    period_start: instant,
    period_end: instant,
    currency: Schema.Literal("NGN"),
    lines: Schema.Array(
      Struct({
        type: Literals(["plan_fee", "write_request_overage", "nudge_overage", "proration", "credit"]),
        description: Text,
        quantity: Int,
        unit_amount: kobo,
        amount: kobo,
      }),
    ),
    total: kobo,
    due_at: instant,
    paid_at: NullOr(instant),
    pdf_url: Text.annotate({ description: "A signed link to the PDF, good for a day" }),
  }),
  provider: Struct({
    ...common("provider"),
    vertical: NullOr(Text),
    live_access: Literals(["not_requested", "pending_review", "approved", "rejected", "suspended"]),
  }),
  provider_change: Struct({
    ...common("provider_change"),
    previous_vertical: NullOr(Text),
    new_vertical: Text,
    administrator: Text,
    reason: Text,
  }),
  client_config: Struct({ object: Schema.Literal("client_config"), business_name: Text, livemode: Bool }),
  deleted: Struct({ id: Text, object: Text, livemode: Bool, deleted: Schema.Literal(true) }),
} as const
