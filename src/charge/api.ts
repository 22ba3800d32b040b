/** Charges on the wire. */
import { Schema } from "effect"
import { declare } from "../http/Endpoint.ts"
import { pageFields } from "../http/lists.ts"
import { amount, currency, id, metadata, oneOf, textOrNull } from "../http/parameters.ts"

const method = id("a payment method of the customer, or a pm_test_ ID in the sandbox")

export const ChargeCreate = Schema.Struct({
  customer: id("a customer"),
  amount,
  currency,
  description: Schema.optionalKey(textOrNull(200)),
  payment_method: Schema.optionalKey(method),
  metadata: Schema.optionalKey(metadata),
})
export type ChargeCreate = typeof ChargeCreate.Type

const ChargeRetry = Schema.Struct({ payment_method: Schema.optionalKey(method) })

const ChargeList = Schema.Struct({
  ...pageFields,
  customer: Schema.optionalKey(id("a customer")),
  subscription: Schema.optionalKey(id("a subscription")),
  status: Schema.optionalKey(oneOf(["pending", "succeeded", "failed"])),
})

const common = { access: "charges", answers: "charge", expand: ["customer", "subscription"] } as const

export const chargeApi = {
  create: declare({
    method: "POST",
    path: "/charges",
    summary: "Charge a customer once",
    ...common,
    body: ChargeCreate,
    example: {
      customer: "cus_01m7yyp0a6e08v7r97jkyz1pj0",
      amount: 250_000,
      currency: "NGN",
      description: "Registration",
    },
    status: 201,
    codes: ["resource_missing", "payment_method_required", "test_clock_advancing"],
  }),
  list: declare({
    method: "GET",
    path: "/charges",
    summary: "List charges",
    ...common,
    query: ChargeList,
    status: 200,
    list: true,
  }),
  get: declare({
    method: "GET",
    path: "/charges/:id",
    summary: "Get a charge",
    ...common,
    status: 200,
    codes: ["resource_missing"],
  }),
  retry: declare({
    method: "POST",
    path: "/charges/:id/retry",
    summary: "Retry a failed charge now",
    ...common,
    body: ChargeRetry,
    example: { payment_method: "pm_test_visa" },
    status: 201,
    codes: [
      "resource_missing",
      "charge_not_retryable",
      "charge_in_progress",
      "payment_method_required",
      "test_clock_advancing",
    ],
  }),
}
