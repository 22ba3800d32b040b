import { Effect } from "effect"
import { bind, bindPublic, each } from "../../http/Endpoint.ts"
import { timelineHandler } from "../../runtime/timeline.ts"
import { DEFAULT_PERIOD, instalmentApi } from "./api.ts"
import { findPlan, whoseProduct, whoseToken } from "./find.ts"
import { listPlans } from "./lists.ts"
import { PlanStartLimit } from "./PlanStartLimit.ts"
import { ProductViews } from "./ProductViews.ts"
import { instalmentPlans, renderInstalmentPlan } from "./plan.ts"
import {
  cancelPlan,
  checkBuyer,
  checkExtension,
  createPlan,
  deliverPlan,
  extendPlan,
  missingOfExtension,
  shipPlan,
} from "./plans.ts"
import { type ProductRow, products, slotsOf } from "./product.ts"
import {
  checkCreate,
  createProduct,
  readProducts,
  readSold,
  renderOffer,
  renderProduct,
  updateProduct,
} from "./products.ts"
import { summarise } from "./summary.ts"

const shown = Effect.fnUntraced(function* (row: ProductRow) {
  return renderProduct(row, yield* readSold(row, [row.id]), yield* ProductViews)
})

/** What its timers do. */
const MEANS = {
  expiry: "The plan ends if its first payment has not been made.",
  missed: "The instalment is overdue: the late fee is added.",
  reminder: "The buyer is reminded.",
}

export const instalmentEndpoints = [
  bind(instalmentApi.createProduct, {
    kind: "write",
    check: checkCreate,
    run: each((request) => Effect.flatMap(createProduct(request, request.body), shown)),
  }),
  bind(instalmentApi.listProducts, {
    kind: "read",
    run: Effect.fnUntraced(function* (request) {
      const { rows, sold } = yield* readProducts(request)
      const views = yield* ProductViews
      return rows.map((row) => renderProduct(row, sold, views))
    }),
  }),
  bind(instalmentApi.updateProduct, {
    kind: "write",
    run: each((request) => Effect.flatMap(updateProduct(request, request.id, request.body), shown)),
  }),
  bind(instalmentApi.list, { kind: "read", run: (request) => listPlans(request, request.query) }),
  bind(instalmentApi.summary, {
    kind: "read",
    run: (request) => summarise(request, request.query.period ?? DEFAULT_PERIOD),
  }),
  bind(instalmentApi.get, {
    kind: "read",
    run: (request) => Effect.map(instalmentPlans.get(request, request.id), renderInstalmentPlan),
  }),
  bind(instalmentApi.timeline, timelineHandler(instalmentPlans.get, MEANS)),
  bind(instalmentApi.extend, {
    kind: "write",
    check: checkExtension,
    missing: missingOfExtension,
    run: each((request) => Effect.map(extendPlan(request, request.id, request.body), renderInstalmentPlan)),
  }),
  bind(instalmentApi.ship, {
    kind: "write",
    run: each((request) => Effect.map(shipPlan(request, request.id), renderInstalmentPlan)),
  }),
  bind(instalmentApi.deliver, {
    kind: "write",
    run: each((request) => Effect.map(deliverPlan(request, request.id), renderInstalmentPlan)),
  }),
  bindPublic(instalmentApi.getOffer, whoseProduct, {
    kind: "read",
    run: Effect.fnUntraced(function* (request) {
      const row = yield* products.get(request, request.params.productId!)
      ;(yield* ProductViews).count(row)
      return renderOffer(row)
    }),
  }),
  bindPublic(instalmentApi.create, whoseProduct, {
    kind: "write",
    check: checkBuyer,
    before: (request) => Effect.flatMap(PlanStartLimit, ({ look }) => look(request.caller.name)),
    // Requests that are refused for another reason do not count.
    run: each((request) =>
      Effect.tap(createPlan(request, request.params.productId!, request.body), () =>
        Effect.flatMap(PlanStartLimit, ({ take }) => take(request.caller.name)),
      ),
    ),
  }),
  bindPublic(instalmentApi.getByToken, whoseToken, {
    kind: "read",
    run: (request) => Effect.map(findPlan(request.params.token!), renderInstalmentPlan),
  }),
  bindPublic(instalmentApi.cancel, whoseToken, {
    kind: "write",
    run: each((request) =>
      Effect.map(cancelPlan(request.params.token!), ({ plan, product }) => ({
        plan: renderInstalmentPlan(plan),
        slot: { productId: product.id, ...slotsOf(product) },
      })),
    ),
  }),
]
