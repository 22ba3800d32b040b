/** Events on the wire. */
import { Schema } from "effect"
import { declare } from "../http/Endpoint.ts"
import { pageFields } from "../http/lists.ts"
import { instant, text } from "../http/parameters.ts"

const EventList = Schema.Struct({
  ...pageFields,
  type: Schema.optionalKey(text(100)),
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
    answers: "event",
    list: true,
  }),
  get: declare({
    method: "GET",
    path: "/events/:id",
    summary: "Get an event",
    access: "webhooks",
    status: 200,
    answers: "event",
    codes: ["resource_missing"],
  }),
}
