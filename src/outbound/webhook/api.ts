/** The wire schemas and endpoints of webhook endpoints and deliveries. */
import { Schema } from "effect"
import { DELIVERY_STATUSES } from "../../../machines/delivery.ts"
import { DISABLED_REASONS, ENDPOINT_STATUSES } from "../../../machines/webhook_endpoint.ts"
import { declare } from "../../http/Endpoint.ts"
import { pageFields } from "../../http/lists.ts"
import { id, oneOf, text, textOrNull, webAddress } from "../../http/parameters.ts"
import { common, Deleted, exampleId, instant } from "../../http/response.ts"

const { Boolean: Bool, Int, Literals, NullOr, optionalKey, String: Text, Struct } = Schema

const fields = {
  ...common("webhook_endpoint"),
  url: Text,
  description: NullOr(Text),
  enabled_events: Schema.Array(Text),
  status: Literals(ENDPOINT_STATUSES),
  disabled_reason: NullOr(Literals(DISABLED_REASONS)),
}

const EXAMPLE = {
  id: exampleId("webhook_endpoint"),
  object: "webhook_endpoint",
  livemode: false,
  created_at: "2026-11-01T09:00:00.000Z",
  url: "https://shop.example/webhooks",
  description: null,
  enabled_events: ["subscription.*", "charge.failed"],
  status: "enabled",
  disabled_reason: null,
} as const

export const WebhookEndpoint = Struct(fields).annotate({ identifier: "webhook_endpoint", examples: [EXAMPLE] })

const WebhookEndpointSecret = Struct({
  ...fields,
  secret: Text.annotate({ description: "The secret that signs deliveries: whsec_ and base64; shown only this once" }),
  previous_secret_expires_at: optionalKey(instant),
}).annotate({
  identifier: "webhook_endpoint_secret",
  examples: [{ ...EXAMPLE, secret: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo=" }],
})

const WebhookTest = Struct({
  event: Text,
  response_status: NullOr(Int),
  duration_ms: Int,
  delivered: Bool,
}).annotate({
  identifier: "webhook_test",
  examples: [{ event: exampleId("event"), response_status: 200, duration_ms: 42, delivered: true }],
})

export const Delivery = Struct({
  ...common("delivery"),
  event: Text,
  webhook_endpoint: Text,
  attempt: Int.annotate({ description: "Tries made" }),
  status: Literals(DELIVERY_STATUSES),
  response_status: NullOr(Int),
  response_body: NullOr(Text).annotate({ description: "The first 2 KiB of the last answer" }),
  failure_reason: NullOr(Text),
  duration_ms: NullOr(Int),
  next_attempt_at: NullOr(instant),
}).annotate({
  identifier: "delivery",
  examples: [
    {
      id: exampleId("delivery"),
      object: "delivery",
      livemode: false,
      created_at: "2026-11-01T09:00:00.000Z",
      event: exampleId("event"),
      webhook_endpoint: exampleId("webhook_endpoint"),
      attempt: 1,
      status: "pending",
      response_status: 503,
      response_body: "try again later",
      failure_reason: "response_status",
      duration_ms: 118,
      next_attempt_at: "2026-11-01T09:00:05.000Z",
    },
  ],
})

/** More than the number of event types. */
const MAX_PATTERNS = 50

const url = webAddress("http:// only in the sandbox")

const enabledEvents = Schema.Array(text(100))
  .check(Schema.isMinLength(1), Schema.isMaxLength(MAX_PATTERNS))
  .annotate({
    description: `an array of 1 to ${MAX_PATTERNS} types such as charge.failed, families such as charge.*, or *`,
  })

const EndpointCreate = Struct({
  url,
  description: optionalKey(textOrNull(200)),
  enabled_events: enabledEvents,
})
export type EndpointCreate = typeof EndpointCreate.Type

const EndpointPatch = Struct({
  url: optionalKey(url),
  description: optionalKey(textOrNull(200)),
  enabled_events: optionalKey(enabledEvents),
  status: optionalKey(oneOf(ENDPOINT_STATUSES)),
})
export type EndpointPatch = typeof EndpointPatch.Type

const Resend = Struct({ webhook_endpoint: optionalKey(id("a webhook endpoint")) })

const shared = { access: "webhooks", status: 200, success: WebhookEndpoint } as const

export const webhookApi = {
  create: declare({
    ...shared,
    method: "POST",
    path: "/webhook-endpoints",
    summary: "Add a webhook endpoint; the response has its secret",
    body: EndpointCreate,
    example: { url: "https://shop.example/webhooks", enabled_events: ["subscription.*", "charge.failed"] },
    status: 201,
    success: WebhookEndpointSecret,
    codes: ["webhook_endpoint_limit_reached"],
  }),
  list: declare({
    ...shared,
    method: "GET",
    path: "/webhook-endpoints",
    summary: "List webhook endpoints",
    query: Struct(pageFields),
    list: true,
  }),
  get: declare({
    ...shared,
    method: "GET",
    path: "/webhook-endpoints/:id",
    summary: "Get a webhook endpoint",
    codes: ["resource_missing"],
  }),
  update: declare({
    ...shared,
    method: "PATCH",
    path: "/webhook-endpoints/:id",
    summary: "Change, disable or enable a webhook endpoint",
    body: EndpointPatch,
    example: { status: "enabled" },
    codes: ["resource_missing"],
  }),
  remove: declare({
    ...shared,
    method: "DELETE",
    path: "/webhook-endpoints/:id",
    summary: "Delete a webhook endpoint",
    success: Deleted,
    codes: ["resource_missing"],
  }),
  test: declare({
    ...shared,
    method: "POST",
    path: "/webhook-endpoints/:id/test",
    summary: "Send a test event now and return the result",
    success: WebhookTest,
    codes: ["resource_missing"],
  }),
  rollSecret: declare({
    ...shared,
    method: "POST",
    path: "/webhook-endpoints/:id/roll-secret",
    summary: "Make a new secret; for 24 hours the old one signs too",
    success: WebhookEndpointSecret,
    codes: ["resource_missing", "webhook_secret_limit_reached"],
  }),
  deliveries: declare({
    ...shared,
    method: "GET",
    path: "/events/:id/deliveries",
    summary: "List the deliveries of an event",
    query: Struct(pageFields),
    success: Delivery,
    list: true,
    codes: ["resource_missing"],
  }),
  resend: declare({
    ...shared,
    method: "POST",
    path: "/events/:id/resend",
    summary: "Deliver an event again: to one endpoint, or to all that are enabled for it",
    body: Resend,
    example: {},
    status: 202,
    success: Delivery,
    list: true,
    codes: ["resource_missing", "webhook_endpoint_disabled"],
  }),
}
