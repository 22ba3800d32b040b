import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { bind } from "../http/Endpoint.ts"
import { mapPage, page } from "../http/lists.ts"
import { subscriptionApi } from "./api.ts"
import type { SubscriptionRow } from "./rows.ts"
import { renderSubscription } from "./Subscription.ts"
import {
  cancelSubscription,
  createSubscription,
  finishOpening,
  getSubscription,
  updateSubscription,
} from "./Subscriptions.ts"
import { reportUnits } from "./units.ts"

export const subscriptionEndpoints = [
  bind(subscriptionApi.create, {
    kind: "staged",
    begin: (request) => createSubscription(request, request.body),
    finish: finishOpening,
    reply: (tenant, id) => Effect.map(getSubscription(tenant, id), renderSubscription),
  }),
  bind(subscriptionApi.list, {
    kind: "list",
    run: (request) =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const { customer, plan, status } = request.query
        const rows = yield* page<SubscriptionRow>("subscription", request, request.query, [
          ...(customer === undefined ? [] : [sql`customer_id = ${customer}`]),
          ...(plan === undefined ? [] : [sql`plan_id = ${plan}`]),
          ...(status === undefined ? [] : [sql`status = ${status}`]),
        ])
        return mapPage(rows, renderSubscription)
      }),
  }),
  bind(subscriptionApi.get, {
    kind: "read",
    run: (request) => Effect.map(getSubscription(request, request.id), renderSubscription),
  }),
  bind(subscriptionApi.update, {
    kind: "write",
    run: (request) => Effect.map(updateSubscription(request, request.id, request.body), renderSubscription),
  }),
  bind(subscriptionApi.reportUnits, {
    kind: "write",
    run: (request) => reportUnits(request, request.id, request.body),
  }),
  bind(subscriptionApi.cancel, {
    kind: "write",
    run: (request) => Effect.map(cancelSubscription(request, request.id, request.body), renderSubscription),
  }),
]
