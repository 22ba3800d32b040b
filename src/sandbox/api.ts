/** The wire schemas and endpoints of the sandbox helpers. */
import { Schema } from "effect"
import { declare } from "../http/Endpoint.ts"
import { freeObject, id, text } from "../http/parameters.ts"
import { Event } from "../outbound/event/api.ts"

const SandboxReset = Schema.Struct({ status: Schema.Literal("resetting") }).annotate({
  identifier: "sandbox_reset",
  examples: [{ status: "resetting" }],
})

const EventTrigger = Schema.Struct({
  type: text(100),
  object: Schema.optionalKey(id("an object of the sandbox")),
  overrides: Schema.optionalKey(freeObject("an object, laid over the event's object,")),
})

const Reset = Schema.Struct({
  confirm: Schema.Literal("RESET").annotate({ description: "RESET, to prevent accidental resets" }),
})

const sandbox = { method: "POST", access: "secret", right: "develop", sandboxOnly: true } as const

export const sandboxApi = {
  trigger: declare({
    ...sandbox,
    path: "/test/events/trigger",
    summary: "Create a test event",
    body: EventTrigger,
    example: { type: "charge.failed", overrides: { failure_code: "expired_card" } },
    status: 201,
    success: Event,
    codes: ["resource_missing"],
  }),
  reset: declare({
    ...sandbox,
    path: "/test/reset",
    summary: "Delete all data of the sandbox; keys and webhook endpoints stay",
    body: Reset,
    example: { confirm: "RESET" },
    status: 202,
    success: SandboxReset,
    codes: ["reset_in_progress"],
  }),
}
