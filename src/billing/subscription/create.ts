/** Creating subscriptions (decisions D3 to D6). */
import { Effect, Exit } from "effect"
import type { BillingCycle } from "../../../machines/calendar.ts"
import { subscriptionMachine } from "../../../machines/subscription.ts"
import { newId } from "../../base/ids.ts"
import { type Metadata, mergeMetadata } from "../../base/metadata.ts"
import { invalid, noSuchReference, problem } from "../../base/problem.ts"
import { formatInstant, parseInstant, sameForAll } from "../../base/time.ts"
import { type Tenant, tenantOf } from "../../db/tenant.ts"
import { unitOfWork } from "../../db/UnitOfWork.ts"
import { PIPELINED } from "../../postgres/pipelining.ts"
import { start } from "../../runtime/lifecycle.ts"
import type { CustomerRow } from "../customer/customer.ts"
import { summaryOf } from "../payment_method/paymentMethods.ts"
import { commitAttempts } from "../payments/commitAttempts.ts"
import { attachNew, type Payer, payingBy, readPayers } from "../payments/payers.ts"
import type { PlanTerms } from "../plan/plan.ts"
import { plansToBegin } from "../plan/plans.ts"
import type { SubscriptionCreate } from "./api.ts"
import { payAndRender } from "./payAndRender.ts"
import { type SubscriptionRow, type SubscriptionTransition, subscriptions } from "./subscription.ts"
import { checkAmount } from "./subscriptions.ts"
import type { Terms } from "./terms.ts"
import { outcomesOf } from "./transition.ts"

/** What a subscription is made of. */
interface Made extends Tenant {
  readonly customer: Pick<CustomerRow, "id" | "test_clock_id">
  readonly planId: string
  readonly billingCycle: BillingCycle
  /** Kept from now on, whatever becomes of the plan's (decision C3). */
  readonly priceKobo: number
  readonly trialDays: number
  readonly quantity: number
  readonly startAt: number
  readonly methodId: string | null
  readonly metadata: Metadata
  /** Whether it waits for its checkout session (decision G2). */
  readonly checkout?: boolean
  /** Now, in the customer's clock. */
  readonly now: number
}

/** A new subscription, by its first transition. */
export const newSubscription = (made: Made): SubscriptionTransition => {
  const { now: at, billingCycle, priceKobo, quantity, trialDays, startAt, checkout } = made
  const birth = start(subscriptionMachine, {
    type: "create",
    at,
    billingCycle,
    priceKobo,
    quantity,
    trialDays,
    startAt,
    ...(checkout === true ? { checkout } : {}),
  })
  const row: SubscriptionRow = {
    account_id: made.account_id,
    livemode: made.livemode,
    id: newId("subscription"),
    customer_id: made.customer.id,
    plan_id: made.planId,
    payment_method_id: made.methodId,
    test_clock_id: made.customer.test_clock_id,
    latest_charge_id: null,
    announced_charge_id: null,
    metadata: made.metadata,
    created_at: at,
    version: birth.version,
    ...subscriptions.snapshotColumns(birth.to, birth.decision.snapshot.context),
  }
  return { ...birth, row }
}

/** What one request for a subscription comes to. */
const decide = Effect.fnUntraced(function* (
  tenant: Tenant,
  input: SubscriptionCreate,
  buyer: Payer,
  plan: PlanTerms | undefined,
) {
  const customer = yield* buyer.found
  if (plan === undefined) return yield* noSuchReference("plan", input.plan, "plan")
  const named = yield* buyer.named
  const quantity = input.quantity ?? 1
  yield* checkAmount(plan.amount_kobo, quantity)
  const now = yield* buyer.now
  const startAt = input.start_at === undefined ? now : parseInstant(input.start_at)!
  if (startAt < now)
    return yield* invalid("start_at", `start_at must lie in the future: it is ${formatInstant(now)} for this customer.`)
  if (plan.status === "archived")
    return yield* problem("plan_archived", `The plan ${plan.id} is archived: it takes no new subscriptions.`)
  const paying = payingBy(buyer, named, customer, now)
  if (paying === undefined) {
    return yield* problem(
      "payment_method_required",
      "The customer has no default payment method: name one in payment_method, or use a checkout session.",
    )
  }
  const transition = newSubscription({
    ...tenantOf(tenant),
    customer,
    planId: plan.id,
    billingCycle: plan.billing_cycle,
    priceKobo: plan.amount_kobo,
    trialDays: input.trial_days ?? plan.trial_days,
    quantity,
    startAt,
    methodId: named?.method.id ?? null,
    metadata: yield* mergeMetadata({}, input.metadata),
    now,
  })
  const { id } = transition.row
  const terms: Terms = { ...plan, id, payment_method: summaryOf(paying.method), rail: paying.method.rail }
  return { id, transition, terms, now, paying }
})

/**
 * Creates subscriptions for requests that came together, and commits the first charges of those that are due now, to be
 * collected after; for each request what it comes to.
 */
export const createSubscriptions = Effect.fn("subscription.create")(function* (
  tenant: Tenant,
  inputs: ReadonlyArray<SubscriptionCreate>,
) {
  const ids = inputs.map(({ plan }) => plan)
  const [buyers, plans] = yield* Effect.all([readPayers(tenant, inputs), plansToBegin(tenant, ids)], PIPELINED)
  const decided = yield* Effect.forEach(inputs, (input, at) =>
    Effect.exit(decide(tenant, input, buyers[at]!, plans.get(input.plan))),
  )
  const made = decided.filter(Exit.isSuccess).map(({ value }) => value)
  attachNew(
    yield* unitOfWork,
    made.map(({ paying }) => paying),
  )
  // Those of one clock have one now.
  const groups = [...Map.groupBy(made, ({ now }) => now)]
  const outcomes = yield* Effect.forEach(groups, ([now, its]) =>
    outcomesOf(
      its.map(({ transition }) => transition),
      { nowOf: sameForAll(now), terms: new Map(its.map(({ id, terms }) => [id, terms])), rules: plans },
      true,
    ),
  )
  const attempts = outcomes.flatMap((one) => one.attempts)
  yield* commitAttempts(
    outcomes.flatMap((one) => one.outcomes),
    attempts,
  )
  const byOwner = Map.groupBy(attempts, ({ subscription_id }) => subscription_id)
  const rows = new Map(outcomes.flatMap((one) => one.rows.map((row) => [row.id, row])))
  return decided.map(Exit.map(({ id, now }) => payAndRender(rows.get(id)!, byOwner.get(id) ?? [], now)))
})
