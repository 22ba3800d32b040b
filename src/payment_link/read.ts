/** What is behind a payment link, read from the database. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { type ChargeRow, charges } from "../charge/charge.ts"
import { customers } from "../customer/customer.ts"
import { ofTenant, type Tenant } from "../db/tenant.ts"
import type { NudgeRow } from "../nudge/nudge.ts"
import { savedMethods, settingOf } from "../paying/Setting.ts"
import { plans } from "../plan/plan.ts"
import { problem } from "../problem.ts"
import { hashToken } from "../secret/linkTokens.ts"
import { type SubscriptionRow, subscriptions } from "../subscription/subscription.ts"
import { standingOf } from "./standing.ts"

/** The nudge that a link was sent with, whosever it is. */
export const findLink = Effect.fnUntraced(function* (token: string) {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<NudgeRow>`SELECT * FROM nudge WHERE link_token_hash = ${hashToken(token)}`
  return (
    row ??
    (yield* problem(
      "resource_missing",
      "There is no payment at this address: check that the link is whole, or use the one in the newest message.",
    ))
  )
})

/** The payments that were tried by a link, the newest first. */
const tried = Effect.fnUntraced(function* (nudge: NudgeRow) {
  const sql = yield* SqlClient.SqlClient
  return yield* sql<Pick<ChargeRow, "id" | "status" | "refund_due">>`
    SELECT id, status, refund_due FROM charge WHERE ${ofTenant(sql, nudge)} AND page_id = ${nudge.id} ORDER BY id DESC`
})

/** How often a link was tried, and the payment that was made by it. */
export const readTries = Effect.fnUntraced(function* (nudge: NudgeRow) {
  const sql = yield* SqlClient.SqlClient
  const all = yield* tried(nudge)
  const paid = all.find(({ status, refund_due }) => status === "succeeded" && !refund_due)
  const [used] =
    paid === undefined
      ? []
      : yield* sql<ChargeRow>`SELECT * FROM charge WHERE ${ofTenant(sql, nudge)} AND id = ${paid.id}`
  return { count: all.length, used }
})

/** The subscriptions of a customer on which something is owed, in ID order. `lock` is nothing, or FOR UPDATE. */
export const owingOf = Effect.fnUntraced(function* (tenant: Tenant, customerId: string, lock: "" | "FOR UPDATE" = "") {
  const sql = yield* SqlClient.SqlClient
  return yield* sql<SubscriptionRow>`
    SELECT * FROM subscription WHERE ${ofTenant(sql, tenant)} AND customer_id = ${customerId} AND dunning IS NOT NULL
    ORDER BY id ${sql.literal(lock)}`
})

/** Everything that the pages of a link are made from. */
export const readLink = Effect.fnUntraced(function* (nudge: NudgeRow) {
  const setting = yield* settingOf(nudge, nudge.test_clock_id)
  const customer = yield* customers.get(nudge, nudge.customer_id)
  const its =
    nudge.subscription_id === null
      ? yield* owingOf(nudge, nudge.customer_id)
      : [yield* subscriptions.get(nudge, nudge.subscription_id)]
  const { used } = yield* readTries(nudge)
  const planRows = yield* plans.find(
    nudge,
    its.map(({ plan_id }) => plan_id),
  )
  const saved = yield* savedMethods(customer)
  const standing = standingOf(nudge, its, used, setting.now)
  const latestId = standing.kind === "under_way" ? standing.chargeId : its[0]?.latest_charge_id
  const latest = latestId == null ? undefined : yield* charges.get(nudge, latestId)
  return { nudge, setting, customer, plans: planRows, saved, standing, latest }
})

export type ReadLink = Effect.Success<ReturnType<typeof readLink>>
