/** Creates checkout sessions (decisions G1 to G5, G9). */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { checkoutMachine } from "../../../machines/checkout.ts"
import { newId } from "../../base/ids.ts"
import { mergeMetadata } from "../../base/metadata.ts"
import { asReference, invalid, problem } from "../../base/problem.ts"
import { MINUTE_MS, sameForAll } from "../../base/time.ts"
import { currentTime } from "../../base/wallClock.ts"
import { clockTime } from "../../billing/clock/clocks.ts"
import { type CustomerRow, customers } from "../../billing/customer/customer.ts"
import { type PlanRow, plans } from "../../billing/plan/plan.ts"
import { newSubscription } from "../../billing/subscription/create.ts"
import { checkAmount } from "../../billing/subscription/subscriptions.ts"
import { outcomesOf } from "../../billing/subscription/transition.ts"
import { ofTenant, type Tenant, tenantOf } from "../../db/tenant.ts"
import { commit } from "../../runtime/commit.ts"
import { start } from "../../runtime/lifecycle.ts"
import { created } from "../../runtime/outcome.ts"
import { hashToken } from "../../security/secret/linkTokens.ts"
import { type CheckoutCreate, MAX_LIFETIME_MINUTES } from "./api.ts"
import { CheckoutLinks } from "./CheckoutLinks.ts"
import { checkoutLifecycle, type SessionRow, sessions } from "./checkout.ts"
import { checkPageUrl } from "./urls.ts"

/** Most open sessions of one customer: more is a loop. Completing one closes the others for its plan. */
const MAX_OPEN = 100

/** Refuses a parameter that belongs to the other mode (decision G5), and an address that buyers cannot be sent to (decision G4). */
export const checkCreate = (name: string, input: CheckoutCreate, { livemode }: Tenant) => {
  switch (name) {
    case "plan":
    case "quantity":
      return input.mode === "setup"
        ? Effect.fail(invalid(name, `${name} goes with mode subscription only.`))
        : undefined
    case "success_url":
    case "cancel_url":
      return checkPageUrl(name, input[name], livemode)
    default:
      return undefined
  }
}

/** Mode subscription needs a plan. */
export const missingOfCreate = ({ mode, plan }: CheckoutCreate) =>
  mode === "subscription" && plan === undefined
    ? problem("parameter_missing", "plan is needed if mode is subscription.", "plan")
    : undefined

/** Locks the customer, and returns it with the time of its clock. Without `found`, the buyer is not identified yet. */
const lockCustomer = Effect.fnUntraced(function* (tenant: Tenant, found: CustomerRow | undefined) {
  if (found === undefined) return { customer: null, now: currentTime() }
  const now = yield* asReference(clockTime(tenant, found.test_clock_id), "customer")
  const customer: CustomerRow = yield* customers.lockOne(tenant, found.id, "NO KEY UPDATE")
  const sql = yield* SqlClient.SqlClient
  const open = yield* sql`
    SELECT 1 FROM checkout_session
    WHERE ${ofTenant(sql, tenant)} AND customer_id = ${found.id} AND status = 'open' LIMIT ${MAX_OPEN}`
  return open.length < MAX_OPEN
    ? { customer, now }
    : yield* problem(
        "checkout_session_limit_reached",
        `The customer has ${MAX_OPEN} open checkout sessions: expire some, or send the buyer to one of them.`,
      )
})

/** Copies the plan's terms: later changes of the plan do not affect them. */
const termsOf = (plan: PlanRow, quantity: number) => ({
  planId: plan.id,
  billingCycle: plan.billing_cycle,
  priceKobo: plan.amount_kobo,
  trialDays: plan.trial_days,
  quantity,
})

/** Creates a session; for an existing customer also the subscription that waits for it. */
export const createSession = Effect.fn("checkout.create")(function* (tenant: Tenant, input: CheckoutCreate) {
  const found =
    input.customer === undefined ? undefined : yield* asReference(customers.get(tenant, input.customer), "customer")
  const plan = input.plan === undefined ? undefined : yield* asReference(plans.get(tenant, input.plan), "plan")
  const terms = plan === undefined ? null : termsOf(plan, input.quantity ?? 1)
  if (terms !== null) yield* checkAmount(terms.priceKobo, terms.quantity)
  const { customer, now } = yield* lockCustomer(tenant, found)
  if (plan?.status === "archived")
    return yield* problem("plan_archived", `The plan ${plan.id} is archived: it takes no new checkout sessions.`)
  const owner = tenantOf(tenant)
  const subscription =
    customer === null || terms === null
      ? undefined
      : newSubscription({
          ...owner,
          customer,
          ...terms,
          startAt: now,
          methodId: null,
          metadata: {},
          checkout: true,
          now,
        })
  const id = newId("checkout_session")
  const expiresAt = now + (input.expires_in_minutes ?? MAX_LIFETIME_MINUTES) * MINUTE_MS
  const first = start(checkoutMachine, { type: "create", at: now, expiresAt })
  const { token } = yield* CheckoutLinks
  const row: SessionRow = {
    ...owner,
    id,
    mode: input.mode,
    plan_id: terms?.planId ?? null,
    quantity: terms?.quantity ?? null,
    price_kobo: terms?.priceKobo ?? null,
    trial_days: terms?.trialDays ?? null,
    test_clock_id: customer?.test_clock_id ?? null,
    success_url: input.success_url,
    cancel_url: input.cancel_url,
    metadata: yield* mergeMetadata({}, input.metadata),
    token_hash: hashToken(token({ ...owner, id })),
    created_at: now,
    customer_id: customer?.id ?? null,
    customer_is_new: false,
    subscription_id: subscription?.row.id ?? null,
    charge_id: null,
    payment_method_id: null,
    submission: null,
    replaced_by: null,
    version: first.version,
    ...sessions.snapshotColumns(first.to, first.decision.snapshot.context),
  }
  const { outcomes } = yield* outcomesOf(
    subscription === undefined ? [] : [subscription],
    { nowOf: sameForAll(now), terms: new Map() },
    true,
  )
  yield* commit([...outcomes, created(checkoutLifecycle, first, row)])
  return row
})
