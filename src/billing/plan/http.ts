import { Effect } from "effect"
import { bind, each } from "../../http/Endpoint.ts"
import { equals, listOf } from "../../http/lists.ts"
import { planApi } from "./api.ts"
import { plans, renderPlan } from "./plan.ts"
import { checkCreate, createPlan, setPlanStatus, updatePlan } from "./plans.ts"

export const planEndpoints = [
  bind(planApi.create, {
    kind: "write",
    check: checkCreate,
    run: each((request) => Effect.map(createPlan(request, request.body), renderPlan)),
  }),
  bind(planApi.list, {
    kind: "read",
    run: (request) => listOf(plans, request, renderPlan, [equals("status", request.query.status)]),
  }),
  bind(planApi.get, { kind: "read", run: (request) => Effect.map(plans.get(request, request.id), renderPlan) }),
  bind(planApi.update, {
    kind: "write",
    run: each((request) => Effect.map(updatePlan(request, request.id, request.body), renderPlan)),
  }),
  bind(planApi.archive, {
    kind: "write",
    run: each((request) => Effect.map(setPlanStatus(request, request.id, "archived"), renderPlan)),
  }),
  bind(planApi.unarchive, {
    kind: "write",
    run: each((request) => Effect.map(setPlanStatus(request, request.id, "active"), renderPlan)),
  }),
]
