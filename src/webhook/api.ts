/** Webhook endpoints and deliveries on the wire. */
import { Schema } from "effect"
import { declare } from "../http/Endpoint.ts"
import { pageFields } from "../http/lists.ts"
import { id, oneOf, text, textOrNull } from "../http/parameters.ts"

const { optionalKey } = Schema

const MOST_URL = 2048
const MOST_PATTERNS = 50

const url = Schema.String.check(
  Schema.makeFilter(
    (value: string) =>
      value.length <= MOST_URL &&
      URL.canParse(value) &&
      /^https?:$/.test(new URL(value).protocol) &&
      !value.includes("\0"),
  ),
).annotate({
  description: `an address of at most ${MOST_URL} characters that begins with https:// (http:// only in the sandbox)`,
})

const enabledEvents = Schema.Array(text(100))
  .check(Schema.isMinLength(1), Schema.isMaxLength(MOST_PATTERNS))
  .annotate({
    description: `an array of 1 to ${MOST_PATTERNS} types such as charge.failed, families such as charge.*, or *`,
  })

const EndpointCreate = Schema.Struct({
  url,
  description: optionalKey(textOrNull(200)),
  enabled_events: enabledEvents,
})
export type EndpointCreate = typeof EndpointCreate.Type

const EndpointPatch = Schema.Struct({
  url: optionalKey(url),
  description: optionalKey(textOrNull(200)),
  enabled_events: optionalKey(enabledEvents),
  status: optionalKey(oneOf(["enabled", "disabled"])),
})
export type EndpointPatch = typeof EndpointPatch.Type

const Resend = Schema.Struct({ webhook_endpoint: optionalKey(id("a webhook endpoint")) })

const common = { access: "webhooks", status: 200, answers: "webhook_endpoint" } as const

export const webhookApi = {
  create: declare({
    ...common,
    method: "POST",
    path: "/webhook-endpoints",
    summary: "Add a webhook endpoint; the answer has its secret",
    body: EndpointCreate,
    example: { url: "https://shop.example/webhooks", enabled_events: ["subscription.*", "charge.failed"] },
    status: 201,
    answers: "webhook_endpoint_secret",
    codes: ["webhook_endpoint_limit_reached"],
  }),
  list: declare({
    ...common,
    method: "GET",
    path: "/webhook-endpoints",
    summary: "List webhook endpoints",
    query: Schema.Struct(pageFields),
    list: true,
  }),
  get: declare({
    ...common,
    method: "GET",
    path: "/webhook-endpoints/:id",
    summary: "Get a webhook endpoint",
    codes: ["resource_missing"],
  }),
  update: declare({
    ...common,
    method: "PATCH",
    path: "/webhook-endpoints/:id",
    summary: "Change, disable or enable a webhook endpoint",
    body: EndpointPatch,
    example: { status: "enabled" },
    codes: ["resource_missing"],
  }),
  remove: declare({
    ...common,
    method: "DELETE",
    path: "/webhook-endpoints/:id",
    summary: "Delete a webhook endpoint",
    answers: "deleted",
    codes: ["resource_missing"],
  }),
  test: declare({
    ...common,
    method: "POST",
    path: "/webhook-endpoints/:id/test",
    summary: "Send a test event now, and say what came of it",
    answers: "webhook_test",
    codes: ["resource_missing"],
  }),
  rollSecret: declare({
    ...common,
    method: "POST",
    path: "/webhook-endpoints/:id/roll-secret",
    summary: "Make a new secret; the old one signs beside it for 24 hours",
    answers: "webhook_endpoint_secret",
    codes: ["resource_missing"],
  }),
  deliveries: declare({
    ...common,
    method: "GET",
    path: "/events/:id/deliveries",
    summary: "List the deliveries of an event",
    query: Schema.Struct(pageFields),
    answers: "delivery",
    list: true,
    codes: ["resource_missing"],
  }),
  resend: declare({
    ...common,
    method: "POST",
    path: "/events/:id/resend",
    summary: "Deliver an event again: to one endpoint, or to all that are enabled for it",
    body: Resend,
    example: {},
    status: 202,
    answers: "delivery",
    list: true,
    codes: ["resource_missing", "webhook_endpoint_disabled"],
  }),
}
