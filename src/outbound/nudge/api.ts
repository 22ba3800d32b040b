/** The wire schemas and endpoints of nudges. */
import { Schema } from "effect"
import { ATTEMPT_STATUSES, CHANNELS, NUDGE_FAILURES, NUDGE_STATUSES, NUDGE_TEMPLATES } from "../../../machines/nudge.ts"
import { channels } from "../../billing/plan/api.ts"
import { declare } from "../../http/Endpoint.ts"
import { pageFields } from "../../http/lists.ts"
import { id, oneOf, text } from "../../http/parameters.ts"
import { common, exampleId, idOrObject, instant } from "../../http/response.ts"

const { Boolean: Bool, Literals, NullOr, String: Text } = Schema

export const NUDGE_SOURCES = ["automatic", "api", "dashboard"] as const

const failureReason = NullOr(Text).annotate({ description: `Why it failed: ${NUDGE_FAILURES.join(", ")}` })

const fields = {
  ...common("nudge"),
  customer: idOrObject,
  subscription: NullOr(idOrObject),
  channel: Literals(CHANNELS),
  template: Literals(NUDGE_TEMPLATES),
  source: Literals(NUDGE_SOURCES),
  status: Literals(NUDGE_STATUSES),
  failure_reason: failureReason,
  counts_toward_allowance: Bool,
  billed_as_overage: Bool,
  sent_at: NullOr(instant),
  delivered_at: NullOr(instant),
  attempts: Schema.Array(
    Schema.Struct({
      channel: Literals(CHANNELS),
      status: Literals(ATTEMPT_STATUSES),
      failure_reason: failureReason,
      at: instant,
    }),
  ).annotate({ description: "Every channel that was tried" }),
}

const EXAMPLE = {
  id: exampleId("nudge"),
  object: "nudge",
  livemode: false,
  created_at: "2026-11-01T09:00:00.000Z",
  customer: exampleId("customer"),
  subscription: null,
  channel: "sms",
  template: "payment_due",
  source: "automatic",
  status: "sent",
  failure_reason: null,
  counts_toward_allowance: false,
  billed_as_overage: false,
  sent_at: "2026-11-01T09:00:00.000Z",
  delivered_at: null,
  attempts: [{ channel: "sms", status: "sent", failure_reason: null, at: "2026-11-01T09:00:00.000Z" }],
} as const

export const Nudge = Schema.Struct(fields).annotate({ identifier: "nudge", examples: [EXAMPLE] })

const EXAMPLE_LINK = "https://billing.example/pay/zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz"

/** A nudge with the message that its simulated messenger got. */
export const OutboxNudge = Schema.Struct({
  ...fields,
  to: Text.annotate({ description: "The recipient: a phone number or an e-mail address" }),
  rendered_message: Text,
  payment_link: Text.annotate({ description: "Good for 30 days; treat it like a password" }),
}).annotate({
  identifier: "outbox_nudge",
  examples: [
    {
      ...EXAMPLE,
      to: "+2348031234567",
      rendered_message: `Hello Ada Obi, NGN 5,000.00 for Gym is due to Fit Lagos on 1 December 2026. To pay or change how you pay: ${EXAMPLE_LINK}`,
      payment_link: EXAMPLE_LINK,
    },
  ],
})

/** The length of a few SMS. */
const MAX_MESSAGE = 480

export const NudgeCreate = Schema.Struct({
  customer: id("a customer"),
  subscription: Schema.optionalKey(
    Schema.NullOr(id("a subscription")).annotate({ description: "the ID of a subscription of the customer, or null" }),
  ),
  channels: Schema.optionalKey(channels),
  template: oneOf(NUDGE_TEMPLATES),
  custom_message: Schema.optionalKey(text(MAX_MESSAGE)),
})
export type NudgeCreate = typeof NudgeCreate.Type

const NudgeList = Schema.Struct({
  ...pageFields,
  customer: Schema.optionalKey(id("a customer")),
  subscription: Schema.optionalKey(id("a subscription")),
  channel: Schema.optionalKey(oneOf(CHANNELS)),
  status: Schema.optionalKey(oneOf(NUDGE_STATUSES)),
})

const Outbox = Schema.Struct({ ...pageFields, customer: Schema.optionalKey(id("a customer")) })

const shared = { access: "nudges", success: Nudge, expand: ["customer", "subscription"] } as const

export const nudgeApi = {
  create: declare({
    method: "POST",
    path: "/nudges",
    dryRun: true,
    summary: "Send a reminder to a customer",
    notes:
      "custom_message is required with the template custom, and not allowed with others. Without channels, those of the subscription's plan are tried; without a subscription, all three.",
    ...shared,
    body: NudgeCreate,
    example: { customer: exampleId("customer"), template: "payment_due", channels: ["whatsapp", "sms"] },
    status: 201,
    codes: ["resource_missing", "nudge_limit_reached", "test_clock_advancing"],
  }),
  list: declare({
    method: "GET",
    path: "/nudges",
    summary: "List nudges",
    ...shared,
    query: NudgeList,
    status: 200,
    list: true,
  }),
  get: declare({
    method: "GET",
    path: "/nudges/:id",
    summary: "Get a nudge",
    ...shared,
    status: 200,
    codes: ["resource_missing"],
  }),
  outbox: declare({
    method: "GET",
    path: "/test/nudge-outbox",
    summary: "List the messages that the simulated messengers got",
    access: "secret",
    sandboxOnly: true,
    query: Outbox,
    status: 200,
    success: OutboxNudge,
    list: true,
  }),
}
