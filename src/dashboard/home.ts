/** The start page of an environment: what needs attention, then the figures; for a new account the first steps (decision R9). */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { subscriptionApi } from "../billing/subscription/api.ts"
import { TenantDatabase } from "../db/TenantDatabase.ts"
import { ofTenant } from "../db/tenant.ts"
import { usageApi } from "../merchants/usage/api.ts"
import type { Steps } from "../pages/dashboard/firstSteps.ts"
import { type Attention, homeMain } from "../pages/dashboard/home.ts"
import { may } from "../security/role/rights.ts"
import { readFigures } from "./figures.ts"
import { call, memberPage, show, type Viewer } from "./pages.ts"

/** How many overdue subscriptions Home shows; the list has all. */
const SHOWN = "8"
/** Up to how many problems of a kind are counted. */
const MAX_PROBLEMS = 100

/** Reads what needs attention besides overdue subscriptions, each from an index of just those. */
const readAttention = Effect.fnUntraced(function* ({ tenant }: Viewer) {
  const sql = yield* SqlClient.SqlClient
  const mine = ofTenant(sql, tenant)
  const [row] = yield* sql<Attention>`
    SELECT
      (SELECT count(*)::integer FROM webhook_endpoint WHERE ${mine} AND state = 'disabled' AND disabled_reason IS NOT NULL) AS disabled_endpoints,
      (SELECT count(*)::integer FROM (SELECT 1 FROM charge WHERE ${mine} AND attention IS NOT NULL LIMIT ${MAX_PROBLEMS}) c) AS other_amounts,
      (SELECT count(*)::integer FROM (SELECT 1 FROM charge WHERE ${mine} AND contradictions <> '[]' LIMIT ${MAX_PROBLEMS}) c)
        + (SELECT count(*)::integer FROM (SELECT 1 FROM rail_exception WHERE ${mine} LIMIT ${MAX_PROBLEMS}) x) AS exceptions,
      (SELECT count(*)::integer FROM (SELECT 1 FROM refund WHERE status = 'failed' AND ${mine} LIMIT ${MAX_PROBLEMS}) f) AS failed_refunds,
      (SELECT count(*)::integer FROM (SELECT 1 FROM test_clock WHERE ${mine} AND state = 'internal_failure' LIMIT ${MAX_PROBLEMS}) k) AS stopped_clocks`
  return row!
})

/** Reads which first steps are done. Without a subscription the account is new. The order makes it read an index that begins with the tenant. */
const readSteps = Effect.fnUntraced(function* ({ tenant }: Viewer) {
  const sql = yield* SqlClient.SqlClient
  const has = (table: string) =>
    sql`(SELECT id FROM ${sql(table)} WHERE ${ofTenant(sql, tenant)} ORDER BY id LIMIT 1) IS NOT NULL`
  const [row] = yield* sql<Steps>`
    SELECT ${has("api_key")} AS key, ${has("plan")} AS plan, ${has("subscription")} AS subscription, ${has("charge")} AS charge,
      ${has("webhook_endpoint")} AS webhook`
  return row!
})

const home = memberPage(
  "/dashboard/:environment",
  { right: "see" },
  {
    GET: Effect.fnUntraced(function* (viewer) {
      const { tenant, base, session } = viewer
      const { reading } = yield* TenantDatabase
      const query = { status: "past_due", limit: SHOWN }
      const [{ steps, attention, figures }, overdue, usage] = yield* Effect.all(
        [
          reading(
            tenant,
            Effect.all(
              { steps: readSteps(viewer), attention: readAttention(viewer), figures: readFigures(tenant) },
              { concurrency: "unbounded" },
            ),
          ),
          call(viewer, subscriptionApi.list, { query, expand: ["plan", "customer", "latest_charge"] }),
          call(viewer, usageApi.get),
        ],
        { concurrency: "unbounded" },
      )
      const mayIn = (right: Parameters<typeof may>[1]) => may(session.role, right, tenant.livemode)
      const view = {
        base,
        isSandbox: !tenant.livemode,
        steps,
        attention,
        overdue: overdue.data,
        figures,
        usage: usage.data,
        may: { operate: mayIn("operate"), develop: mayIn("develop"), finance: mayIn("finance") },
      }
      return show(viewer, "Home", homeMain(view))
    }),
  },
)

export const homeRoutes = [home]
