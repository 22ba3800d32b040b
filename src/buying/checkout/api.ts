/** The API schemas and endpoints of checkout sessions. */
import { Schema } from "effect"
import { CHECKOUT_MODES, CHECKOUT_STATUSES } from "../../../machines/checkout.ts"
import { declare } from "../../http/Endpoint.ts"
import { pageFields } from "../../http/lists.ts"
import { byDefault, count, id, integer, metadata, oneOf, webAddress } from "../../http/parameters.ts"
import { common, exampleId, idOrObject, instant, metadata as metadataShown } from "../../http/response.ts"
import { timelineEndpoint } from "../../runtime/timelineApi.ts"

const { Int, Literals, NullOr, optionalKey, String: Text, Struct } = Schema

export const CheckoutSession = Struct({
  ...common("checkout_session"),
  mode: Literals(CHECKOUT_MODES),
  status: Literals(CHECKOUT_STATUSES),
  url: NullOr(Text).annotate({
    description: "Where to send the buyer: a secret like a password-reset link. Null in events",
  }),
  customer: NullOr(idOrObject),
  plan: NullOr(idOrObject),
  quantity: NullOr(Int),
  subscription: NullOr(idOrObject),
  success_url: Text,
  cancel_url: Text,
  expires_at: instant,
  metadata: metadataShown,
}).annotate({
  identifier: "checkout_session",
  examples: [
    {
      id: exampleId("checkout_session"),
      object: "checkout_session",
      livemode: false,
      created_at: "2026-11-01T09:00:00.000Z",
      mode: "subscription",
      status: "open",
      url: "https://billing.example/checkout/zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz",
      customer: exampleId("customer"),
      plan: exampleId("plan"),
      quantity: 1,
      subscription: exampleId("subscription"),
      success_url: "https://shop.example/welcome",
      cancel_url: "https://shop.example/plans",
      expires_at: "2026-11-02T09:00:00.000Z",
      metadata: {},
    },
  ],
})

const MIN_LIFETIME_MINUTES = 30
export const MAX_LIFETIME_MINUTES = 1440

const returnUrl = webAddress("http:// for localhost in the sandbox")

const CheckoutCreate = Struct({
  mode: oneOf(CHECKOUT_MODES),
  customer: optionalKey(id("a customer")),
  plan: optionalKey(id("a plan")),
  quantity: optionalKey(count),
  success_url: returnUrl,
  cancel_url: returnUrl,
  expires_in_minutes: byDefault(integer(MIN_LIFETIME_MINUTES, MAX_LIFETIME_MINUTES), MAX_LIFETIME_MINUTES),
  metadata: optionalKey(metadata),
})
export type CheckoutCreate = typeof CheckoutCreate.Type

const CheckoutList = Struct({
  ...pageFields,
  customer: optionalKey(id("a customer")),
  status: optionalKey(oneOf(CHECKOUT_STATUSES)),
})

const shared = {
  access: "checkout_sessions",
  success: CheckoutSession,
  expand: ["customer", "plan", "subscription"],
} as const

export const checkoutApi = {
  create: declare({
    method: "POST",
    path: "/checkout-sessions",
    dryRun: true,
    summary: "Create a checkout session, and send the buyer to its url",
    notes:
      "Mode subscription needs plan, and quantity is 1 by default; mode setup takes neither. Without customer the page asks for the buyer's details.",
    ...shared,
    body: CheckoutCreate,
    example: {
      mode: "subscription",
      plan: exampleId("plan"),
      success_url: "https://shop.example/welcome",
      cancel_url: "https://shop.example/plans",
    },
    status: 201,
    codes: [
      "resource_missing",
      "plan_archived",
      "checkout_session_limit_reached",
      "test_clock_advancing",
      "test_clock_not_ready",
    ],
  }),
  list: declare({
    method: "GET",
    path: "/checkout-sessions",
    summary: "List checkout sessions",
    ...shared,
    query: CheckoutList,
    status: 200,
    list: true,
  }),
  get: declare({
    method: "GET",
    path: "/checkout-sessions/:id",
    summary: "Get a checkout session",
    ...shared,
    status: 200,
    codes: ["resource_missing"],
  }),
  timeline: timelineEndpoint("a checkout session", "/checkout-sessions/:id/timeline", "checkout_sessions"),
  expire: declare({
    method: "POST",
    path: "/checkout-sessions/:id/expire",
    dryRun: true,
    summary: "Expire an open checkout session now",
    ...shared,
    status: 200,
    codes: ["resource_missing", "checkout_session_not_open", "test_clock_advancing", "test_clock_not_ready"],
  }),
}
