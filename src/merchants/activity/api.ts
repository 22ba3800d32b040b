/** The wire schema and endpoint of the record of activity (decision R7). */
import { Schema } from "effect"
import { ACTOR_KINDS } from "../../http/activity.ts"
import { declare } from "../../http/Endpoint.ts"
import { pageFields } from "../../http/lists.ts"
import { common, exampleId } from "../../http/response.ts"

const { Literals, NullOr, String: Text, Struct } = Schema

export const Activity = Struct({
  ...common("activity"),
  actor: Struct({
    kind: Literals(ACTOR_KINDS),
    id: NullOr(Text).annotate({ description: "The ID of the member or of the API key" }),
    name: NullOr(Text).annotate({
      description: "The member's e-mail address, the last four characters of the API key, or the administrator's name",
    }),
  }),
  action: Text.annotate({ description: "An object and a verb, such as subscription.pause" }),
  target: NullOr(Struct({ kind: Text, id: Text })).annotate({ description: "The object that was changed" }),
  address: NullOr(Text).annotate({ description: "The network address that it was done from" }),
  request: NullOr(Text).annotate({ description: "The ID of the request that did it" }),
}).annotate({
  identifier: "activity",
  examples: [
    {
      id: exampleId("activity"),
      object: "activity",
      livemode: false,
      created_at: "2026-11-01T09:00:00.000Z",
      actor: { kind: "member", id: exampleId("member"), name: "ada@example.com" },
      action: "subscription.pause",
      target: { kind: "subscription", id: exampleId("subscription") },
      address: "203.0.113.7",
      request: exampleId("request"),
    },
  ],
})

export const activityApi = {
  list: declare({
    method: "GET",
    path: "/activity",
    summary: "List the activity",
    notes:
      "Who did what to which object, newest first. It is append-only. What concerns the whole account (its team, its live access) is with the live data.",
    access: "secret",
    right: "account",
    query: Struct(pageFields),
    status: 200,
    success: Activity,
    list: true,
  }),
}
