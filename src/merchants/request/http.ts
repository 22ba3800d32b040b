import { Effect } from "effect"
import { bind } from "../../http/Endpoint.ts"
import { type Filter, listOf } from "../../http/lists.ts"
import { type Outcome, requestApi } from "./api.ts"
import { renderRequest, requests } from "./request.ts"

/** Selects requests by their outcome. Each condition is that of an index. */
const withOutcome = (outcome: Outcome | undefined): Filter => {
  if (outcome === undefined) return undefined
  return outcome === "failed" ? (sql) => sql`status >= 400` : (sql) => sql`status < 400`
}

export const requestEndpoints = [
  bind(requestApi.list, {
    kind: "read",
    run: (request) => listOf(requests, request, renderRequest, [withOutcome(request.query.status)]),
  }),
  bind(requestApi.get, {
    kind: "read",
    run: (request) => Effect.map(requests.get(request, request.id), renderRequest),
  }),
]
