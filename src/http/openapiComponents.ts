/** The fixed parts of the OpenAPI document: components that all operations share, and webhook deliveries. */

import { CATALOGUE } from "../base/catalogue.ts"
import type { Json } from "../base/json.ts"
import { ASSUMPTIONS } from "./DryRun.ts"

/** A reference to a header of these components. */
export const header = (name: string): Json => ({ $ref: `#/components/headers/${name}` })

/** All components except the schemas. */
export const COMPONENTS = {
  securitySchemes: { apiKey: { type: "http", scheme: "bearer", description: "Authorization: Bearer <API_KEY>" } },
  headers: {
    RequestId: { description: "The request's ID; errors carry it as request_id", schema: { type: "string" } },
    RateLimitLimit: { description: "The size of a burst, in requests", schema: { type: "integer" } },
    RateLimitRemaining: { description: "Requests that may follow immediately", schema: { type: "integer" } },
    RateLimitReset: { description: "Seconds until a whole burst may follow again", schema: { type: "integer" } },
    RetryAfter: {
      description: "Seconds to wait before trying again: of 503, and of 429 with rate_limited or too_many_in_flight",
      schema: { type: "integer" },
    },
    ServiceBillable: {
      description: "Whether the request counted",
      schema: { type: "string", enum: ["true", "false"] },
    },
    ServiceWriteUsage: { description: "Writes counted this month, this one included", schema: { type: "integer" } },
    ServiceWriteLimit: { description: "Writes that the plan includes, or unlimited", schema: { type: "string" } },
    ServiceUsagePeriodEnd: { description: "When the month ends", schema: { type: "string", format: "date-time" } },
    IdempotentReplayed: {
      description: "true if the response is that of an earlier request with the same Idempotency-Key",
      schema: { type: "string", enum: ["true"] },
    },
  },
  parameters: {
    IdempotencyKey: {
      name: "Idempotency-Key",
      in: "header",
      description: "A retry with the same key and body gets the first response (kept 24 hours)",
      schema: { type: "string", minLength: 1, maxLength: 255 },
    },
    DryRun: {
      name: "dry_run",
      in: "query",
      description:
        "true: the request is checked and answered like a real one and then rolled back. meta.changes lists what it would have created",
      schema: { type: "boolean", default: false },
    },
    Assume: {
      name: "assume",
      in: "query",
      description:
        "The result of all payments of a dry run; failure fails them with insufficient_funds. Without it, test methods answer as always and other payments succeed",
      schema: { type: "string", enum: ASSUMPTIONS },
    },
    Cell: {
      name: "cell",
      in: "query",
      description:
        "The cell of the account, if the service has more than one: neither the caller's key nor the address names it",
      schema: { type: "string", pattern: "^[0-9A-Za-z]{2}$" },
    },
  },
} as const satisfies Json

const list = (items: Json): Json => ({ type: "array", items })
const word: Json = { type: "string" }
const instant: Json = { type: "string", format: "date-time" }
const object = (properties: Readonly<Record<string, Json>>): Json => ({
  type: "object",
  properties,
  required: Object.keys(properties),
})

/** The `meta` of a page. */
const LIST_META = {
  type: "object",
  properties: {
    has_more: { type: "boolean" },
    next_cursor: { type: ["string", "null"] },
    limit: { type: "integer" },
  },
  required: ["has_more", "next_cursor", "limit"],
} as const satisfies Json

/** What a dry run adds to a response (decision S1). */
const DRY_RUN_META: Json = object({
  dry_run: { const: true },
  changes: object({
    charges: list({ $ref: "#/components/schemas/charge" }),
    refunds: list({ type: "object" }),
    events: list(object({ type: word, object: { type: "object" }, previous_attributes: { type: "object" } })),
    ledger_entries: list(
      object({
        kind: word,
        lines: list(object({ account: word, debit: { type: "integer" }, credit: { type: "integer" } })),
      }),
    ),
    nudges: list(object({ template: word, channel: word, at: instant })),
    timers: list(object({ name: word, at: instant })),
  }),
})

/** Schemas that no endpoint declares. */
export const SCHEMAS: Json = {
  dry_run_meta: DRY_RUN_META,
  timeline_meta: {
    ...LIST_META,
    properties: {
      ...LIST_META.properties,
      upcoming: {
        ...list(object({ name: word, at: instant, means: word })),
        description: "Only on the first page: the timers that wait, in words",
      },
    },
  },
  list_meta: LIST_META,
  error: {
    type: "object",
    properties: {
      success: { const: false },
      error: {
        type: "object",
        properties: {
          type: { type: "string", enum: [...new Set(Object.values(CATALOGUE).map(({ type }) => type))] },
          code: { type: "string", enum: Object.keys(CATALOGUE) },
          message: { type: "string" },
          failure_code: { type: "string", description: "Only with card_declined: the reason" },
          param: { type: ["string", "null"] },
          request_id: { type: "string" },
          doc_url: { type: "string", format: "uri" },
        },
        required: ["type", "code", "message", "param", "request_id", "doc_url"],
      },
    },
    required: ["success", "error"],
  },
}

const signed = (name: string, description: string): Json => ({
  name,
  in: "header",
  required: true,
  description,
  schema: { type: "string" },
})

/** The delivery of an event to the webhook endpoints that are enabled for its type (decisions I1 to I3). */
export const DELIVERY: Json = {
  description:
    "Signed according to Standard Webhooks: check the signature over `webhook-id.webhook-timestamp.body` with the endpoint's secret, byte for byte. Answer with any 2xx within 15 seconds; else the event is sent again with the same ID after 5 s, 5 min, 30 min, 2 h, 5 h, 10 h and 10 h. Events of one object come in order of creation, unless an earlier one is in retry.",
  tags: ["webhook-endpoints"],
  security: [],
  parameters: [
    signed("webhook-id", "The event's ID: the same in each try, so that you can recognise an event that comes twice"),
    signed("webhook-timestamp", "When this try was signed, in seconds since 1970"),
    signed("webhook-signature", "v1,<base64 HMAC-SHA256>, one for each valid secret, separated by spaces"),
  ],
  responses: {
    "2XX": { description: "It arrived" },
    "410": { description: "The endpoint is gone: it is disabled, and gets nothing more" },
    default: {
      description: "It is sent again, unless it was the last try, and not before a Retry-After of up to 10 h is over",
    },
  },
}
