/** The wire schemas and endpoints of the log of API requests (decision R12). */
import { Schema } from "effect"
import { declare } from "../../http/Endpoint.ts"
import { pageFields } from "../../http/lists.ts"
import { oneOf } from "../../http/parameters.ts"
import { common, exampleId } from "../../http/response.ts"

const { Boolean: Bool, Int, NullOr, Number: Numeric, optionalKey, String: Text, Struct } = Schema

/** The outcomes that the list can be filtered by. */
export const OUTCOMES = ["succeeded", "failed"] as const
export type Outcome = (typeof OUTCOMES)[number]

export const LoggedRequest = Struct({
  ...common("request"),
  method: Text,
  path: Text.annotate({ description: "The path without the query; at most 300 characters" }),
  status: Int.annotate({ description: "The status of the response" }),
  error_code: NullOr(Text).annotate({ description: "The code of the error; null: it succeeded" }),
  key: Text.annotate({ description: "The ID of the API key" }),
  key_last4: Text.annotate({ description: "The last four characters of the API key" }),
  duration_ms: Numeric.annotate({ description: "How long the service took, in milliseconds" }),
  idempotent_replay: Bool.annotate({
    description: "Whether the response was the stored one of an earlier request with the same Idempotency-Key",
  }),
}).annotate({
  identifier: "request",
  examples: [
    {
      id: exampleId("request"),
      object: "request",
      livemode: false,
      created_at: "2026-11-01T09:00:00.000Z",
      method: "POST",
      path: "/sandbox/v1/subscriptions",
      status: 400,
      error_code: "parameter_missing",
      key: exampleId("key"),
      key_last4: "x7Qa",
      duration_ms: 4.2,
      idempotent_replay: false,
    },
  ],
})

const RequestList = Struct({
  ...pageFields,
  status: optionalKey(oneOf(OUTCOMES)),
})

const shared = { method: "GET", access: "secret", right: "develop", status: 200, success: LoggedRequest } as const

export const requestApi = {
  list: declare({
    ...shared,
    path: "/requests",
    summary: "List API requests",
    notes:
      "The requests of the last 30 days, at most 1,000,000. A request is listed a second or two after its response. Bodies, headers and queries are never kept.",
    query: RequestList,
    list: true,
  }),
  get: declare({ ...shared, path: "/requests/:id", summary: "Get an API request", codes: ["resource_missing"] }),
}
