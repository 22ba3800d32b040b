/** Defines the wire schemas and endpoints of charges. */
import { Schema } from "effect"
import { LINE_TYPES } from "../../../machines/billing.ts"
import { CHARGE_STATUSES } from "../../../machines/charge.ts"
import { declare } from "../../http/Endpoint.ts"
import { pageFields } from "../../http/lists.ts"
import { amount, currency, id, metadata, oneOf, textOrNull } from "../../http/parameters.ts"
import { common, exampleId, idOrObject, instant, kobo, metadata as metadataShown } from "../../http/response.ts"
import { FAILURE_CODES } from "../../rails/rail/PaymentRail.ts"
import { timelineEndpoint } from "../../runtime/timelineApi.ts"
import { EXAMPLE_CARD, PaymentMethodSummary } from "../payment_method/api.ts"

const { Boolean: Bool, Int, Literal, Literals, NullOr, optionalKey, String: Text, Struct } = Schema

export const Line = Struct({
  type: Literals(LINE_TYPES),
  description: Text,
  quantity: Int,
  unit_amount: kobo,
  amount: kobo,
})

/** The differences between a received payment and the requested one. */
export const ATTENTION_KINDS = ["amount_differs", "currency_differs"] as const
export type AttentionKind = (typeof ATTENTION_KINDS)[number]

const Attention = Struct({
  kind: Literals(ATTENTION_KINDS),
  expected_amount: kobo,
  received_amount: NullOr(kobo).annotate({ description: "null: the rail gives no readable amount" }),
  currency: Text.annotate({ description: "The currency of the received payment" }),
})

export const Charge = Struct({
  ...common("charge"),
  amount: kobo,
  currency: Literal("NGN"),
  status: Literals(CHARGE_STATUSES),
  customer: idOrObject,
  subscription: NullOr(idOrObject),
  attempt_number: Int,
  will_retry: Bool,
  next_retry_at: NullOr(instant),
  failure_code: NullOr(Text).annotate({ description: `Why it failed: ${FAILURE_CODES.join(", ")}` }),
  failure_message: NullOr(Text),
  payment_method: NullOr(PaymentMethodSummary),
  processor: Text,
  description: NullOr(Text),
  lines: Schema.Array(Line),
  refund_due: Bool.annotate({
    description:
      "The payment succeeded after its subscription was cancelled or its instalment plan ended: the merchant owes it back",
  }),
  attention: NullOr(Attention).annotate({
    description:
      "Set while the charge is pending and the rail received less than was requested, or another currency. Look up the payment at the rail, then refund it or have the rest paid there",
  }),
  paid_at: NullOr(instant),
  metadata: metadataShown,
}).annotate({
  identifier: "charge",
  examples: [
    {
      id: exampleId("charge"),
      object: "charge",
      livemode: false,
      created_at: "2026-11-01T09:00:00.000Z",
      amount: 500_000,
      currency: "NGN",
      status: "succeeded",
      customer: exampleId("customer"),
      subscription: exampleId("subscription"),
      attempt_number: 1,
      will_retry: false,
      next_retry_at: null,
      failure_code: null,
      failure_message: null,
      payment_method: EXAMPLE_CARD,
      processor: "simulator",
      description: null,
      lines: [{ type: "plan", description: "Plan", quantity: 1, unit_amount: 500_000, amount: 500_000 }],
      refund_due: false,
      attention: null,
      paid_at: "2026-11-01T09:00:00.000Z",
      metadata: {},
    },
  ],
})

const method = id("a payment method of the customer, or a pm_test_ ID in the sandbox")

export const ChargeCreate = Struct({
  customer: id("a customer"),
  amount,
  currency,
  description: optionalKey(textOrNull(200)),
  payment_method: optionalKey(method),
  metadata: optionalKey(metadata),
})
export type ChargeCreate = typeof ChargeCreate.Type

const ChargeRetry = Struct({ payment_method: optionalKey(method) })

const ChargeList = Struct({
  ...pageFields,
  customer: optionalKey(id("a customer")),
  subscription: optionalKey(id("a subscription")),
  status: optionalKey(oneOf(CHARGE_STATUSES)),
})

const shared = { access: "charges", success: Charge, expand: ["customer", "subscription"] } as const

export const chargeApi = {
  create: declare({
    method: "POST",
    path: "/charges",
    dryRun: true,
    summary: "Charge a customer once",
    notes:
      "Without payment_method the customer's default payment method is charged. The charge is attempted within the request: the response is 201 with the status succeeded, failed, or pending if the rail has not decided yet.",
    ...shared,
    body: ChargeCreate,
    example: {
      customer: exampleId("customer"),
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
    ...shared,
    query: ChargeList,
    status: 200,
    list: true,
  }),
  timeline: timelineEndpoint("a charge", "/charges/:id/timeline", "charges"),
  get: declare({
    method: "GET",
    path: "/charges/:id",
    summary: "Get a charge",
    ...shared,
    status: 200,
    codes: ["resource_missing"],
  }),
  retry: declare({
    method: "POST",
    path: "/charges/:id/retry",
    dryRun: true,
    summary: "Retry a failed charge now",
    ...shared,
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
