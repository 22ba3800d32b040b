/** Reads the data behind a payment link. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { problem } from "../../base/problem.ts"
import { type ChargeRow, charges } from "../../billing/charge/charge.ts"
import { customers } from "../../billing/customer/customer.ts"
import { plans } from "../../billing/plan/plan.ts"
import { type SubscriptionRow, subscriptions } from "../../billing/subscription/subscription.ts"
import { ofTenant } from "../../db/tenant.ts"
import { type NudgeRow, nudges } from "../../outbound/nudge/nudge.ts"
import { findByToken } from "../../security/secret/linkTokens.ts"
import { MAX_BILLS, readDue } from "../payment_page/amountDue.ts"
import { MAX_ATTEMPTS } from "../payment_page/checks.ts"
import { contextOf } from "../payment_page/context.ts"
import { useByLink } from "../payment_page/entered.ts"
import { savedMethods } from "../payment_page/saved.ts"
import { type LinkState, linkStateOf } from "./status.ts"

const NO_LINK = problem(
  "resource_missing",
  "There is no payment at this address: check that the link is complete, or use the one in the newest message.",
)

/** Finds the nudge that a link was sent with. */
export const findLink = (token: string) => findByToken(nudges, "link_token_hash", token, NO_LINK)

/** Most payments of one link: each try is a payment of each bill. */
const MAX_TRIES = MAX_ATTEMPTS * MAX_BILLS

/** Returns how often a link was tried: one try pays each bill once at most. */
export const triesOf = (payments: ReadonlyArray<ChargeRow>): number =>
  Math.max(
    0,
    ...[...Map.groupBy(payments, ({ subscription_id }) => subscription_id).values()].map((group) => group.length),
  )

/** Reads the payments that were tried with a link. */
export const readTries = Effect.fnUntraced(function* (nudge: NudgeRow) {
  const sql = yield* SqlClient.SqlClient
  return yield* sql<ChargeRow>`
    SELECT * FROM charge WHERE ${ofTenant(sql, nudge)} AND page_id = ${nudge.id} ORDER BY id LIMIT ${MAX_TRIES}`
})

/** Reads the subscriptions that a link's pages show: its own, those that were paid with it, or those to pay. */
const readShown = Effect.fnUntraced(function* (
  nudge: NudgeRow,
  linkState: LinkState,
  linked: ReadonlyArray<SubscriptionRow>,
) {
  if (nudge.subscription_id !== null || linkState.kind !== "used") return linked
  const ids = new Set(linkState.charges.flatMap(({ subscription_id }) => subscription_id ?? []))
  return [...(yield* subscriptions.find(nudge, [...ids])).values()]
})

/** Reads everything that the pages of a link show. */
export const readLink = Effect.fnUntraced(function* (nudge: NudgeRow) {
  const context = yield* contextOf(nudge, nudge.test_clock_id)
  const customer = yield* customers.get(nudge, nudge.customer_id)
  const due = yield* readDue([customer])
  const linked = nudge.subscription_id === null ? due : [yield* subscriptions.get(nudge, nudge.subscription_id)]
  const tries = yield* readTries(nudge)
  const linkState = linkStateOf(nudge, linked, tries, context.now)
  const shown = yield* readShown(nudge, linkState, linked)
  const planRows = yield* plans.find(
    nudge,
    [...shown, ...due].map(({ plan_id }) => plan_id),
  )
  const saved = yield* savedMethods(customer, context.now)
  const [own] = nudge.subscription_id === null ? [] : linked
  const use = useByLink(own, customer, due, context.now)
  const latestId = linkState.kind === "under_way" ? linkState.chargeId : linked[0]?.latest_charge_id
  const latest = latestId == null ? undefined : yield* charges.get(nudge, latestId)
  return {
    nudge,
    context,
    customer,
    subscriptions: shown,
    due,
    plans: planRows,
    saved,
    linkState,
    use,
    tries,
    latest,
  }
})

export type ReadLink = Effect.Success<ReturnType<typeof readLink>>
