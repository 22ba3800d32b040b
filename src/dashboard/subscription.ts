/** The page of one subscription (decision R10). */
import { Effect } from "effect"
import type { SqlError } from "effect/sql"
import { isProblem, type Problem } from "../base/problem.ts"
import { DAY_MS, formatInstant } from "../base/time.ts"
import { customerApi } from "../billing/customer/api.ts"
import { subscriptionApi } from "../billing/subscription/api.ts"
import { forecastApi } from "../billing/subscription/forecastApi.ts"
import { subscriptions } from "../billing/subscription/subscription.ts"
import { TenantDatabase } from "../db/TenantDatabase.ts"
import { idIn, nameIn } from "../pages/dashboard/expanded.ts"
import { type SubscriptionView, subscriptionMain, type Upcoming } from "../pages/dashboard/subscription.ts"
import { may } from "../security/role/rights.ts"
import { readBrought } from "./lanes.ts"
import { readLife, versionIn } from "./lives.ts"
import { call, memberPage, show, type Viewer } from "./pages.ts"
import { subscriptionActions } from "./subscriptionActions.ts"

/** Transitions on a page. */
const SHOWN = 20
/** How far the forecasts look beyond the current period: the next charge of every cycle, and a whole schedule of retries. */
const FORESEEN_MS = 100 * DAY_MS

/** What the page shows if a part cannot be read, such as the forecast of a subscription whose clock is advancing. */
const orNull = <A, R>(part: Effect.Effect<A, Problem | SqlError.SqlError, R>) =>
  Effect.catchIf(part, isProblem, () => Effect.succeed(null))

const readForecast = (viewer: Viewer, assume: "success" | "failure", until: string) =>
  orNull(
    Effect.map(call(viewer, forecastApi.get, { params: viewer.params, query: { assume, until } }), ({ data }) => data),
  )

/** The payment method that is charged: the subscription's own, or the customer's default. */
const readMethod = (viewer: Viewer, customer: string, own: string | null) =>
  Effect.map(
    call(viewer, customerApi.listMethods, { params: { id: customer }, query: { limit: "100" } }),
    ({ data }) => data.find(({ id }) => id === own) ?? null,
  )

const readTimeline = (viewer: Viewer, limit: number, after?: string) =>
  call(viewer, subscriptionApi.timeline, {
    params: viewer.params,
    query: { limit: String(limit), starting_after: after },
  })

/** The ID of the customer's default payment method, in the expanded customer. */
const defaultMethod = (customer: unknown): string | null => {
  const method =
    customer instanceof Object && "default_payment_method" in customer ? customer.default_payment_method : null
  return method === null ? null : idIn(method)
}

const readRow = Effect.fnUntraced(function* ({ tenant, params, search }: Viewer) {
  const { reading } = yield* TenantDatabase
  return yield* reading(
    tenant,
    Effect.gen(function* () {
      const row = yield* subscriptions.get(tenant, params.id!)
      const life = yield* readLife(row, versionIn(search.get("version"), row.version))
      return { row, life }
    }),
  )
})

/** Timers that end a subscription, if that was asked. */
const ENDS: ReadonlySet<string> = new Set(["billPeriodEnd", "pausedPeriodEnd"])

/** The timers in the `meta` of the newest page, without those that change nothing. */
const upcomingIn = (meta: object, isEnding: boolean): ReadonlyArray<Upcoming> =>
  ((meta as { readonly upcoming?: ReadonlyArray<Upcoming> }).upcoming ?? []).filter(
    ({ name }) => isEnding || !ENDS.has(name),
  )

/** Everything that the page reads, in two rounds: what the second one needs is in the first. */
const read = Effect.fnUntraced(function* (viewer: Viewer) {
  const { params, search, tenant } = viewer
  const before = search.get("before") ?? undefined
  const [{ data: subscription }, { row, life }, newest, older] = yield* Effect.all(
    [
      call(viewer, subscriptionApi.get, { params, expand: ["customer", "plan", "latest_charge"] }),
      readRow(viewer),
      readTimeline(viewer, SHOWN),
      before === undefined ? Effect.succeed(null) : readTimeline(viewer, SHOWN, before),
    ],
    { concurrency: "unbounded" },
  )
  const { data: items, meta } = older ?? newest
  const until = formatInstant(row.period_end_at + FORESEEN_MS)
  const shown = [...items, ...newest.data].find(({ version }) => version === life.version)
  const [success, failure, method, at] = yield* Effect.all(
    [
      subscription.status === "cancelled" ? Effect.succeed(null) : readForecast(viewer, "success", until),
      subscription.status === "cancelled" ? Effect.succeed(null) : readForecast(viewer, "failure", until),
      readMethod(viewer, row.customer_id, row.payment_method_id ?? defaultMethod(subscription.customer)),
      shown === undefined
        ? Effect.map(readTimeline(viewer, 1, `${row.id}:${life.version + 1}`), ({ data }) => data[0] ?? null)
        : Effect.succeed(shown),
    ],
    { concurrency: "unbounded" },
  )
  const { reading } = yield* TenantDatabase
  const all = at === null || items.some(({ version }) => version === at.version) ? items : [...items, at]
  const brought = yield* reading(tenant, readBrought(tenant, all))
  return {
    subscription,
    row,
    life,
    items,
    next: (meta as { readonly next_cursor?: string | null }).next_cursor ?? null,
    upcoming: upcomingIn(newest.meta, subscription.cancel_at_period_end),
    forecasts: { success, failure },
    method,
    at,
    brought,
  }
})

const one = memberPage(
  "/dashboard/:environment/subscriptions/:id",
  { right: "see" },
  {
    GET: Effect.fnUntraced(function* (viewer) {
      const { base, path, search, session, environment } = viewer
      const found = yield* read(viewer)
      const { subscription, row, life, items, next, brought, at } = found
      const title = `${nameIn(subscription.plan)} for ${nameIn(subscription.customer)}`
      const view: SubscriptionView = {
        base,
        title,
        path,
        subscription,
        priceKobo: row.price_kobo,
        method: found.method,
        actions: subscriptionActions(subscription, viewer),
        upcoming: found.upcoming,
        forecasts: found.forecasts,
        life: { title, path, life, item: at, brought },
        lanes: { base, items, brought, canDevelop: may(session.role, "develop", environment === "live") },
        pages: {
          first: search.has("before") ? path : null,
          next: next === null ? null : `${path}?before=${encodeURIComponent(next)}`,
        },
      }
      return show(viewer, title, subscriptionMain(view))
    }),
  },
)

export const subscriptionPageRoutes = [one]
