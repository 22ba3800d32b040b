import { Effect } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import type { Tenant } from "../db/tenant.ts"
import { type App, bind } from "../http/Endpoint.ts"
import { mapPage, page } from "../http/lists.ts"
import { planApi } from "./api.ts"
import { createPlan, getPlan, type PlanRow, renderPlan, setPlanStatus, updatePlan } from "./Plans.ts"

/** Told when a plan's reminders change: its subscriptions follow (decision C3). */
type RemindersChanged = (tenant: Tenant, planId: string) => Effect.Effect<void, SqlError.SqlError, App>

export const planEndpoints = (remindersChanged: RemindersChanged) => [
  bind(planApi.create, { kind: "write", run: (request) => Effect.map(createPlan(request, request.body), renderPlan) }),
  bind(planApi.list, {
    kind: "list",
    run: (request) =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const { status } = request.query
        const rows = yield* page<PlanRow>(
          "plan",
          request,
          request.query,
          status === undefined ? [] : [sql`status = ${status}`],
        )
        return mapPage(rows, renderPlan)
      }),
  }),
  bind(planApi.get, { kind: "read", run: (request) => Effect.map(getPlan(request, request.id), renderPlan) }),
  bind(planApi.update, {
    kind: "write",
    run: (request) =>
      Effect.gen(function* () {
        const row = yield* updatePlan(request, request.id, request.body)
        if (request.body.reminders !== undefined) yield* remindersChanged(request, row.id)
        return renderPlan(row)
      }),
  }),
  bind(planApi.archive, {
    kind: "write",
    run: (request) => Effect.map(setPlanStatus(request, request.id, "archived"), renderPlan),
  }),
  bind(planApi.unarchive, {
    kind: "write",
    run: (request) => Effect.map(setPlanStatus(request, request.id, "active"), renderPlan),
  }),
]
