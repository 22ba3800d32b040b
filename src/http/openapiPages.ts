/** The part of the OpenAPI document about the pages on which buyers pay. */
import type { Json } from "../base/json.ts"
import { TEST_CARDS } from "../rails/rail/simulator/methods.ts"
import { HEADERS, inPath, operation, plain, refused, text } from "./openapiOperations.ts"

const data = (properties: Readonly<Record<string, Json>>, required: ReadonlyArray<string>): Json => ({
  type: "object",
  properties: {
    success: { const: true },
    data: { type: "object", properties, required },
  },
  required: ["success", "data"],
})

const METHOD: Readonly<Record<string, Json>> = {
  payment_method: {
    ...(text as object),
    description: "A payment method of the customer, or a pm_test_ ID; or a card, in the fields below",
  },
  card_number: {
    ...(text as object),
    description: `The number of a test card: ${TEST_CARDS.map(({ number, does }) => `${number} ${does}`).join("; ")}`,
  },
  card_expiry: { ...(text as object), description: "MM/YY" },
  card_cvc: text,
  otp: { ...(text as object), description: "The one-time code, once failure_code is authentication_required" },
  amount: {
    type: "integer",
    description: "The amount that the buyer saw, in kobo: the payment is refused if it has changed",
  },
}

const DETAILS: Readonly<Record<string, Json>> = {
  name: { ...(text as object), description: "Needed if the session has no customer" },
  email: text,
  phone: { ...(text as object), description: "E.164, or a local form such as 0803 123 4567" },
  submission: {
    ...(text as object),
    description: "Any number that identifies the form: sent again, it gets the same outcome",
  },
}

const REDIRECT: Json = { type: ["string", "null"], description: "The address to send the buyer to" }

interface Outcome {
  readonly kind: string
  readonly statuses: ReadonlyArray<string>
  /** The fields other than the status. */
  readonly rest: Readonly<Record<string, Json>>
  /** The fields that are present with every status; by default all of them. */
  readonly always?: ReadonlyArray<string>
  readonly example: Json
}

const outcome = ({ kind, statuses, rest, always = Object.keys(rest), example }: Outcome): Json => ({
  description: kind,
  headers: HEADERS,
  content: {
    "application/json": {
      schema: data({ status: { type: "string", enum: statuses }, ...rest }, ["status", ...always]),
      example: { success: true, data: example },
    },
  },
})

/** Describes the pages, by path. `plan`: an example of an instalment plan. */
export const pages = (origin: string, plan: Json): Readonly<Record<string, Json>> => {
  const link = [inPath("token", "The secret token of the link: keep it like a password")]
  const refusals = {
    "400": refused(
      "parameter_missing, parameter_invalid, parameter_unknown, json_invalid, content_type_invalid, request_too_large, resource_missing",
    ),
    "402": refused("card_declined"),
    "403": refused("origin_not_allowed, live_access_required"),
    "404": refused("resource_missing"),
    "409": refused("reset_in_progress, lock_timeout"),
    "429": refused("rate_limited, too_many_attempts"),
    "503": refused("account_moving, service_unavailable"),
  }
  const readRefusals = {
    "404": refused("resource_missing"),
    "429": refused("rate_limited"),
    "503": refused("account_moving, service_unavailable"),
  }
  const amount: Json = { type: "integer", description: "kobo" }
  return {
    "/checkout/{token}/complete": {
      post: operation(origin, {
        id: "completeCheckout",
        summary: "Submit the page of a checkout session",
        tag: "pages",
        parameters: link,
        body: { type: "object", properties: { ...DETAILS, ...METHOD } },
        example: { name: "Ada Obi", email: "ada@example.com", payment_method: "pm_test_success", amount: 500_000 },
        responses: {
          "200": outcome({
            kind: "Completed; or pending at the bank, or on the rail's own page, where the buyer continues",
            statuses: ["completed", "pending"],
            rest: { redirect_url: REDIRECT },
            example: { status: "completed", redirect_url: "https://shop.example/welcome" },
          }),
          ...refusals,
          "422": refused(
            "checkout_session_not_open, charge_in_progress, amount_changed, test_clock_advancing, test_clock_not_ready",
          ),
        },
      }),
    },
    "/checkout/{token}/return": {
      get: operation(origin, {
        id: "getCheckoutOutcome",
        summary: "The status of a checkout session",
        tag: "pages",
        parameters: link,
        responses: {
          "200": outcome({
            kind: "The current status",
            statuses: ["open", "pending", "completed", "expired"],
            rest: { redirect_url: REDIRECT },
            example: { status: "completed", redirect_url: "https://shop.example/welcome" },
          }),
          ...readRefusals,
        },
      }),
    },
    "/pay/{token}/complete": {
      post: operation(origin, {
        id: "completePayment",
        summary: "Pay the amount due by a payment link, or save a payment method if nothing is due",
        tag: "pages",
        parameters: link,
        body: { type: "object", properties: { email: DETAILS.email!, ...METHOD, submission: DETAILS.submission! } },
        example: { payment_method: "pm_test_success", amount: 500_000 },
        responses: {
          "200": outcome({
            kind: "Paid, saved, or pending at the bank, with the amount; or pending on the rail's own page, with its address",
            statuses: ["paid", "saved", "pending"],
            rest: { amount, redirect_url: REDIRECT },
            always: [],
            example: { status: "paid", amount: 500_000 },
          }),
          ...refusals,
          "422": refused(
            "payment_link_closed, charge_in_progress, amount_changed, test_clock_advancing, test_clock_not_ready",
          ),
        },
      }),
    },
    "/save/{token}": {
      get: operation(origin, {
        id: "getInstalmentPage",
        summary: "The buyer's page of an instalment plan; with Accept: application/json the plan itself",
        tag: "pages",
        parameters: link,
        responses: {
          "200": {
            description: "The plan",
            headers: HEADERS,
            content: {
              "application/json": {
                schema: {
                  type: "object",
                  properties: { success: { const: true }, data: { $ref: "#/components/schemas/savings_plan" } },
                  required: ["success", "data"],
                },
                example: { success: true, data: plan },
              },
            },
          },
          "404": refused("resource_missing"),
          "410": plain("A page that says that the plan is cancelled", "text/html", text),
          "429": refused("rate_limited"),
        },
      }),
    },
    "/save/{token}/pay/complete": {
      post: operation(origin, {
        id: "completeInstalment",
        summary: "Pay on an instalment plan: the amount due, or more",
        tag: "pages",
        parameters: link,
        body: {
          type: "object",
          properties: {
            email: DETAILS.email!,
            ...METHOD,
            amount: {
              type: "integer",
              description: "Whole naira: needed if the buyer chooses the amount; else the amount due if it is left out",
            },
            submission: DETAILS.submission!,
          },
        },
        example: { payment_method: "pm_test_success", amount: 80_000 },
        responses: {
          "200": outcome({
            kind: "Paid, or pending at the bank, with the amount in whole naira and the plan; or pending on the rail's own page, with its address",
            statuses: ["paid", "pending"],
            rest: {
              amount: { type: "integer", description: "whole naira" },
              plan: { $ref: "#/components/schemas/savings_plan" },
              redirect_url: REDIRECT,
            },
            always: ["amount", "plan"],
            example: { status: "paid", amount: 80_000, plan },
          }),
          ...refusals,
          "422": refused(
            "savings_plan_state_invalid, charge_in_progress, amount_changed, test_clock_advancing, test_clock_not_ready",
          ),
        },
      }),
    },
    "/save/{token}/pay/return": {
      get: operation(origin, {
        id: "getInstalmentOutcome",
        summary: "The status of payments on an instalment plan",
        tag: "pages",
        parameters: link,
        responses: {
          "200": outcome({
            kind: "The current status",
            statuses: ["open", "pending", "paid", "closed"],
            rest: { redirect_url: REDIRECT },
            example: { status: "pending", redirect_url: null },
          }),
          ...readRefusals,
        },
      }),
    },
    "/pay/{token}/return": {
      get: operation(origin, {
        id: "getPaymentOutcome",
        summary: "The status of a payment link",
        tag: "pages",
        parameters: link,
        responses: {
          "200": outcome({
            kind: "The current status",
            statuses: ["open", "pending", "paid", "saved", "closed"],
            rest: { redirect_url: REDIRECT },
            example: { status: "paid", redirect_url: null },
          }),
          ...readRefusals,
        },
      }),
    },
  }
}
