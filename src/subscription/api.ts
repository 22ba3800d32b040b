/** Subscriptions on the wire. */
import { Schema } from "effect"
import { declare } from "../http/Endpoint.ts"
import { pageFields } from "../http/lists.ts"
import { count, flag, id, instant, integer, metadata, metadataPatch, oneOf, textOrNull } from "../http/parameters.ts"

const { optionalKey } = Schema

export const SubscriptionCreate = Schema.Struct({
  customer: id("a customer"),
  plan: id("a plan"),
  quantity: optionalKey(count),
  payment_method: optionalKey(id("a payment method of the customer, or a pm_test_ ID in the sandbox")),
  trial_days: optionalKey(integer(0, 365)),
  start_at: optionalKey(instant),
  metadata: optionalKey(metadata),
})
export type SubscriptionCreate = typeof SubscriptionCreate.Type

export const SubscriptionPatch = Schema.Struct({
  cancel_at_period_end: optionalKey(flag),
  quantity: optionalKey(count),
  payment_method: optionalKey(
    Schema.NullOr(id("a payment method")).annotate({
      description:
        "the ID of a payment method of the customer, a pm_test_ ID in the sandbox, or null for the customer's default",
    }),
  ),
  metadata: optionalKey(metadataPatch),
})
export type SubscriptionPatch = typeof SubscriptionPatch.Type

export const SubscriptionPause = Schema.Struct({
  resumes_at: optionalKey(
    Schema.NullOr(instant).annotate({
      description: "a timestamp in UTC such as 2026-01-31T09:00:00Z, or null to pause until resumed",
    }),
  ),
  reason: optionalKey(textOrNull(500)),
})
export type SubscriptionPause = typeof SubscriptionPause.Type

const REASONS = ["customer_request", "merchant_request", "nonpayment", "checkout_expired", "other"] as const

export const SubscriptionCancel = Schema.Struct({
  at_period_end: optionalKey(flag),
  reason: optionalKey(oneOf(REASONS)),
})
export type SubscriptionCancel = typeof SubscriptionCancel.Type

const MOST_UNITS = 1_000_000_000

export const UnitReport = Schema.Struct({
  quantity: integer(0, MOST_UNITS),
  action: optionalKey(oneOf(["increment", "set"])),
  timestamp: optionalKey(instant),
  description: optionalKey(textOrNull(200)),
})
export type UnitReport = typeof UnitReport.Type

const SubscriptionList = Schema.Struct({
  ...pageFields,
  customer: optionalKey(id("a customer")),
  plan: optionalKey(id("a plan")),
  status: optionalKey(oneOf(["incomplete", "trialing", "active", "past_due", "paused", "cancelled"])),
})

const common = {
  access: "subscriptions",
  answers: "subscription",
  expand: ["customer", "plan", "latest_charge"],
} as const

export const subscriptionApi = {
  create: declare({
    method: "POST",
    path: "/subscriptions",
    summary: "Create a subscription",
    ...common,
    body: SubscriptionCreate,
    example: { customer: "cus_01m7yyp0a6e08v7r97jkyz1pj0", plan: "plan_01m7yyp0a6e08v7r97jkyz1pj0", quantity: 2 },
    status: 201,
    codes: ["resource_missing", "plan_archived", "payment_method_required", "test_clock_advancing"],
  }),
  list: declare({
    method: "GET",
    path: "/subscriptions",
    summary: "List subscriptions",
    ...common,
    query: SubscriptionList,
    status: 200,
    list: true,
  }),
  get: declare({
    method: "GET",
    path: "/subscriptions/:id",
    summary: "Get a subscription",
    ...common,
    status: 200,
    codes: ["resource_missing"],
  }),
  update: declare({
    method: "PATCH",
    path: "/subscriptions/:id",
    summary: "Update a subscription",
    ...common,
    body: SubscriptionPatch,
    example: { quantity: 3, metadata: { branch: "Ikeja" } },
    status: 200,
    codes: ["resource_missing", "subscription_state_invalid", "test_clock_advancing"],
  }),
  pause: declare({
    method: "POST",
    path: "/subscriptions/:id/pause",
    summary: "Pause an active subscription",
    ...common,
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
    summary: "Resume a paused subscription: a new period starts now and is charged",
    ...common,
    status: 200,
    codes: ["resource_missing", "subscription_state_invalid", "charge_in_progress", "test_clock_advancing"],
  }),
  cancel: declare({
    method: "POST",
    path: "/subscriptions/:id/cancel",
    summary: "Cancel a subscription, now or at period end",
    ...common,
    body: SubscriptionCancel,
    example: { at_period_end: true, reason: "customer_request" },
    status: 200,
    codes: ["resource_missing", "subscription_state_invalid", "test_clock_advancing"],
  }),
  reportUnits: declare({
    method: "POST",
    path: "/subscriptions/:id/unit-records",
    summary: "Report units used in the current period",
    access: "subscriptions",
    body: UnitReport,
    example: { quantity: 40, description: "litres" },
    status: 201,
    answers: "unit_record",
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
