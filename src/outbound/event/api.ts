/** The wire schemas and endpoints of events. */
import { Schema } from "effect"
import { declare } from "../../http/Endpoint.ts"
import { pageFields } from "../../http/lists.ts"
import { id, instant, text } from "../../http/parameters.ts"
import { common, exampleId, open } from "../../http/response.ts"
import { MAX_EVENT_BYTES } from "./data.ts"
import { EVENT_TYPES } from "./types.ts"

const { String: Text, Struct } = Schema

export const Event = Struct({
  ...common("event"),
  type: Text.annotate({
    description: `What happened: ${EVENT_TYPES.join(", ")}; or any type that a test event was created with`,
  }),
  api_version: Text,
  data: Struct({
    object: open.annotate({ description: "The object as the API shows it right after the change" }),
    previous_attributes: open.annotate({
      description: `The previous values of the changed fields. The largest are left out if the event would exceed 64 KiB (${MAX_EVENT_BYTES} bytes)`,
    }),
  }),
}).annotate({
  identifier: "event",
  examples: [
    {
      id: exampleId("event"),
      object: "event",
      livemode: false,
      created_at: "2026-11-01T09:00:00.000Z",
      type: "charge.succeeded",
      api_version: "v1",
      data: {
        object: { id: exampleId("charge"), object: "charge", status: "succeeded", amount: 500_000, currency: "NGN" },
        previous_attributes: { status: "pending", paid_at: null },
      },
    },
  ],
})

const EventList = Struct({
  ...pageFields,
  type: Schema.optionalKey(text(100)),
  test_clock: Schema.optionalKey(id("a test clock")),
  created_after: Schema.optionalKey(instant),
  created_before: Schema.optionalKey(instant),
})

export const eventApi = {
  list: declare({
    method: "GET",
    path: "/events",
    summary: "List events",
    access: "webhooks",
    query: EventList,
    status: 200,
    success: Event,
    list: true,
  }),
  get: declare({
    method: "GET",
    path: "/events/:id",
    summary: "Get an event",
    access: "webhooks",
    status: 200,
    success: Event,
    codes: ["resource_missing"],
  }),
}
