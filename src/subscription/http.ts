import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import type { Tenant } from "../db/tenant.ts"
import { bind } from "../http/Endpoint.ts"
import { mapPage, page } from "../http/lists.ts"
import { subscriptionApi } from "./api.ts"
import { recoverCharges } from "./collect.ts"
import { createSubscription } from "./create.ts"
import type { SubscriptionRow } from "./rows.ts"
import { renderSubscription } from "./Subscription.ts"
import {
  cancelSubscription,
  getSubscription,
  pauseSubscription,
  resumeSubscription,
  updateSubscription,
} from "./Subscriptions.ts"
import { getUnitRecord, reportUnits, resumeReport } from "./units.ts"

/** How a request that charges a subscription is finished after a crash, and what it answers. */
const staged = {
  kind: "staged",
  resume: (_: Tenant, id: string) => recoverCharges({ subscriptionId: id }),
  reply: (tenant: Tenant, id: string) => Effect.map(getSubscription(tenant, id), renderSubscription),
} as const

export const subscriptionEndpoints = [
  bind(subscriptionApi.create, { ...staged, begin: (request) => createSubscription(request, request.body) }),
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
    ...staged,
    begin: (request) => updateSubscription(request, request.id, request.body),
  }),
  bind(subscriptionApi.pause, {
    kind: "write",
    run: (request) => Effect.map(pauseSubscription(request, request.id, request.body), renderSubscription),
  }),
  bind(subscriptionApi.resume, { ...staged, begin: (request) => resumeSubscription(request, request.id) }),
  bind(subscriptionApi.cancel, {
    kind: "write",
    run: (request) => Effect.map(cancelSubscription(request, request.id, request.body), renderSubscription),
  }),
  bind(subscriptionApi.reportUnits, {
    kind: "staged",
    begin: (request) => reportUnits(request, request.id, request.body),
    resume: resumeReport,
    reply: getUnitRecord,
  }),
]
