/** Defines the wire schemas and endpoints of subscriptions and unit records. */
import { Schema } from "effect"
import { ESCALATION_ACTIONS } from "../../../machines/dunning.ts"
import { UNIT_ACTIONS } from "../../../machines/events.ts"
import { CANCELLATION_REASONS } from "../../../machines/periods.ts"
import { SUBSCRIPTION_STATUSES } from "../../../machines/status.ts"
import { MAX_AMOUNT_KOBO } from "../../base/money.ts"
import { declare } from "../../http/Endpoint.ts"
import { pageFields } from "../../http/lists.ts"
import {
  byDefault,
  count,
  flag,
  INSTANT,
  id,
  instant,
  integer,
  metadata,
  metadataPatch,
  oneOf,
  textOrNull,
} from "../../http/parameters.ts"
import {
  common,
  exampleId,
  idOrObject,
  instant as instantShown,
  metadata as metadataShown,
} from "../../http/response.ts"
import { timelineEndpoint } from "../../runtime/timelineApi.ts"

const { Boolean: Bool, Int, Literals, NullOr, optionalKey, String: Text, Struct } = Schema

export const Subscription = Struct({
  ...common("subscription"),
  status: Literals(SUBSCRIPTION_STATUSES),
  customer: idOrObject,
  plan: idOrObject,
  quantity: Int,
  payment_method: NullOr(Text).annotate({
    description: "The subscription's own payment method; null: the customer's default",
  }),
  current_period_start: instantShown,
  current_period_end: instantShown,
  next_charge_at: NullOr(instantShown),
  trial_end: NullOr(instantShown),
  cancel_at_period_end: Bool,
  paused_at: NullOr(instantShown),
  resumes_at: NullOr(instantShown),
  cancelled_at: NullOr(instantShown),
  cancellation_reason: NullOr(Literals(CANCELLATION_REASONS)),
  retry: NullOr(Struct({ attempt: Int, max_attempts: Int, next_retry_at: NullOr(instantShown) })),
  escalation: NullOr(Struct({ action: Literals(ESCALATION_ACTIONS), triggered_at: instantShown })),
  latest_charge: NullOr(idOrObject),
  metadata: metadataShown,
}).annotate({
  identifier: "subscription",
  examples: [
    {
      id: exampleId("subscription"),
      object: "subscription",
      livemode: false,
      created_at: "2026-11-01T09:00:00.000Z",
      status: "active",
      customer: exampleId("customer"),
      plan: exampleId("plan"),
      quantity: 1,
      payment_method: null,
      current_period_start: "2026-11-01T09:00:00.000Z",
      current_period_end: "2026-12-01T09:00:00.000Z",
      next_charge_at: "2026-12-01T09:00:00.000Z",
      trial_end: null,
      cancel_at_period_end: false,
      paused_at: null,
      resumes_at: null,
      cancelled_at: null,
      cancellation_reason: null,
      retry: null,
      escalation: null,
      latest_charge: exampleId("charge"),
      metadata: {},
    },
  ],
})

export const UnitRecord = Struct({
  ...common("unit_record"),
  subscription: idOrObject,
  quantity: Int,
  action: Literals(UNIT_ACTIONS),
  period_total: Int.annotate({ description: "The period's units after this record" }),
  timestamp: instantShown,
  description: NullOr(Text),
}).annotate({
  identifier: "unit_record",
  examples: [
    {
      id: exampleId("unit_record"),
      object: "unit_record",
      livemode: false,
      created_at: "2026-11-01T09:00:00.000Z",
      subscription: exampleId("subscription"),
      quantity: 40,
      action: "increment",
      period_total: 95,
      timestamp: "2026-11-01T09:00:00.000Z",
      description: "litres",
    },
  ],
})

export const SubscriptionCreate = Struct({
  customer: id("a customer"),
  plan: id("a plan"),
  quantity: byDefault(count, 1),
  payment_method: optionalKey(id("a payment method of the customer, or a pm_test_ ID in the sandbox")),
  trial_days: optionalKey(integer(0, 365)),
  start_at: optionalKey(instant),
  metadata: optionalKey(metadata),
})
export type SubscriptionCreate = typeof SubscriptionCreate.Type

export const SubscriptionPatch = Struct({
  cancel_at_period_end: optionalKey(flag),
  quantity: optionalKey(count),
  payment_method: optionalKey(
    NullOr(id("a payment method")).annotate({
      description:
        "the ID of a payment method of the customer, a pm_test_ ID in the sandbox, or null for the customer's default",
    }),
  ),
  metadata: optionalKey(metadataPatch),
})
export type SubscriptionPatch = typeof SubscriptionPatch.Type

export const SubscriptionPause = Struct({
  resumes_at: optionalKey(
    NullOr(instant).annotate({
      description: `${INSTANT}, or null to pause until resumed`,
    }),
  ),
  reason: optionalKey(textOrNull(500)),
})
export type SubscriptionPause = typeof SubscriptionPause.Type

export const SubscriptionCancel = Struct({
  at_period_end: byDefault(flag, false),
  reason: optionalKey(
    NullOr(oneOf(CANCELLATION_REASONS)).annotate({
      description:
        "the newest given reason counts; without one, the reason stays unchanged (initially merchant_request)",
    }),
  ),
})
export type SubscriptionCancel = typeof SubscriptionCancel.Type

/** Far above the units of any single report. */
const MAX_REPORTED_UNITS = 1_000_000_000

export const UnitReport = Struct({
  quantity: integer(0, MAX_REPORTED_UNITS),
  action: byDefault(oneOf(UNIT_ACTIONS), "increment"),
  timestamp: optionalKey(instant),
  description: optionalKey(textOrNull(200)),
})
export type UnitReport = typeof UnitReport.Type

const SubscriptionList = Struct({
  ...pageFields,
  customer: optionalKey(id("a customer")),
  plan: optionalKey(id("a plan")),
  status: optionalKey(oneOf(SUBSCRIPTION_STATUSES)),
  test_clock: optionalKey(id("a test clock")),
})

const shared = {
  access: "subscriptions",
  success: Subscription,
  expand: ["customer", "plan", "latest_charge"],
} as const

export const subscriptionApi = {
  create: declare({
    method: "POST",
    path: "/subscriptions",
    dryRun: true,
    summary: "Create a subscription",
    notes: `Without payment_method the customer's default payment method is charged. Without trial_days the plan's trial_days apply. Without start_at the subscription starts now; start_at must be in the future. quantity times the plan's amount is at most ${MAX_AMOUNT_KOBO} kobo. Without a trial or a later start, the first payment is attempted within the request: the response is 201 with the status active, cancelled (nonpayment) if the payment is declined, or incomplete if the rail has not decided yet.`,
    ...shared,
    body: SubscriptionCreate,
    example: { customer: exampleId("customer"), plan: exampleId("plan"), quantity: 2 },
    status: 201,
    codes: ["resource_missing", "plan_archived", "payment_method_required", "test_clock_advancing"],
  }),
  list: declare({
    method: "GET",
    path: "/subscriptions",
    summary: "List subscriptions",
    ...shared,
    query: SubscriptionList,
    status: 200,
    list: true,
  }),
  get: declare({
    method: "GET",
    path: "/subscriptions/:id",
    summary: "Get a subscription",
    ...shared,
    status: 200,
    codes: ["resource_missing"],
  }),
  timeline: timelineEndpoint("a subscription", "/subscriptions/:id/timeline", "subscriptions"),
  update: declare({
    method: "PATCH",
    path: "/subscriptions/:id",
    dryRun: true,
    summary: "Update a subscription",
    notes: `A new quantity applies from the next renewal. quantity times the plan's amount is at most ${MAX_AMOUNT_KOBO} kobo.`,
    ...shared,
    body: SubscriptionPatch,
    example: { quantity: 3, metadata: { branch: "Ikeja" } },
    status: 200,
    codes: ["resource_missing", "subscription_state_invalid", "charge_in_progress", "test_clock_advancing"],
  }),
  pause: declare({
    method: "POST",
    path: "/subscriptions/:id/pause",
    dryRun: true,
    summary: "Pause an active subscription",
    notes: "resumes_at must be in the future; without it the subscription is paused until it is resumed.",
    ...shared,
    body: SubscriptionPause,
    example: { resumes_at: "2027-01-05T09:00:00Z", reason: "Away for the holidays" },
    status: 200,
    codes: [
      "resource_missing",
      "subscription_state_invalid",
      "pause_not_enabled",
      "charge_in_progress",
      "test_clock_advancing",
    ],
  }),
  resume: declare({
    method: "POST",
    path: "/subscriptions/:id/resume",
    dryRun: true,
    summary: "Resume a paused subscription: a new period starts now and is charged",
    ...shared,
    status: 200,
    codes: ["resource_missing", "subscription_state_invalid", "charge_in_progress", "test_clock_advancing"],
  }),
  cancel: declare({
    method: "POST",
    path: "/subscriptions/:id/cancel",
    dryRun: true,
    summary: "Cancel a subscription, now or at period end",
    notes:
      "At period end the units of the last period are charged once, if they cost 100 kobo or more. The subscription is cancelled when that charge succeeds or fails. Cancelling now charges nothing.",
    ...shared,
    body: SubscriptionCancel,
    example: { at_period_end: true, reason: "customer_request" },
    status: 200,
    codes: ["resource_missing", "subscription_state_invalid", "test_clock_advancing"],
  }),
  reportUnits: declare({
    method: "POST",
    path: "/subscriptions/:id/unit-records",
    dryRun: true,
    summary: "Report units used in the current period",
    notes:
      "increment adds to the period's units, set replaces them. On a per_delivery plan an increment reports deliveries, which are billed immediately, and set is refused. timestamp must be within the current period and not in the future; the default is now.",
    access: "subscriptions",
    body: UnitReport,
    example: { quantity: 40, description: "litres" },
    status: 201,
    success: UnitRecord,
    expand: ["subscription"],
    codes: [
      "resource_missing",
      "subscription_state_invalid",
      "subscription_unpaid",
      "timestamp_out_of_period",
      "test_clock_advancing",
    ],
  }),
}
