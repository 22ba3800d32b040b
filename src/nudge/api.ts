/** Nudges on the wire. */
import { Schema } from "effect"
import { declare } from "../http/Endpoint.ts"
import { pageFields } from "../http/lists.ts"
import { id, oneOf, text } from "../http/parameters.ts"
import { CHANNELS, channels } from "../plan/api.ts"
import { TEMPLATES } from "./messages.ts"

const LONGEST_MESSAGE = 480

export const NudgeCreate = Schema.Struct({
  customer: id("a customer"),
  subscription: Schema.optionalKey(
    Schema.NullOr(id("a subscription")).annotate({ description: "the ID of a subscription of the customer, or null" }),
  ),
  channels: Schema.optionalKey(channels),
  template: oneOf(TEMPLATES),
  custom_message: Schema.optionalKey(text(LONGEST_MESSAGE)),
})
export type NudgeCreate = typeof NudgeCreate.Type

const NudgeList = Schema.Struct({
  ...pageFields,
  customer: Schema.optionalKey(id("a customer")),
  subscription: Schema.optionalKey(id("a subscription")),
  channel: Schema.optionalKey(oneOf(CHANNELS)),
  status: Schema.optionalKey(oneOf(["queued", "sent", "delivered", "failed"])),
})

const Outbox = Schema.Struct({ ...pageFields, customer: Schema.optionalKey(id("a customer")) })

const common = { access: "nudges", answers: "nudge", expand: ["customer", "subscription"] } as const

export const nudgeApi = {
  create: declare({
    method: "POST",
    path: "/nudges",
    summary: "Send a reminder to a customer",
    ...common,
    body: NudgeCreate,
    example: { customer: "cus_01m7yyp0a6e08v7r97jkyz1pj0", template: "payment_due", channels: ["whatsapp", "sms"] },
    status: 201,
    codes: ["resource_missing", "nudge_limit_reached", "test_clock_advancing"],
  }),
  list: declare({
    method: "GET",
    path: "/nudges",
    summary: "List nudges",
    ...common,
    query: NudgeList,
    status: 200,
    list: true,
  }),
  get: declare({
    method: "GET",
    path: "/nudges/:id",
    summary: "Get a nudge",
    ...common,
    status: 200,
    codes: ["resource_missing"],
  }),
  outbox: declare({
    method: "GET",
    path: "/test/nudge-outbox",
    summary: "List what the simulated messengers were given",
    access: "secret",
    sandboxOnly: true,
    query: Outbox,
    status: 200,
    answers: "outbox_nudge",
    list: true,
  }),
}
