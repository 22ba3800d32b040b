/** Creates subscriptions (decisions D3 to D6). */
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

/** The inputs of a new subscription. */
interface NewSubscription extends Tenant {
  readonly customer: Pick<CustomerRow, "id" | "test_clock_id">
  readonly planId: string
  readonly billingCycle: BillingCycle
  /** Fixed from now on, even if the plan's price changes (decision C3). */
  readonly priceKobo: number
  readonly trialDays: number
  readonly quantity: number
  readonly startAt: number
  readonly methodId: string | null
  readonly metadata: Metadata
  /** Whether it waits for its checkout session (decision G2). */
  readonly checkout?: boolean
  /** Now, on the customer's clock. */
  readonly now: number
}

/** Creates a subscription by its first transition. */
export const newSubscription = (input: NewSubscription): SubscriptionTransition => {
  const { now: at, billingCycle, priceKobo, quantity, trialDays, startAt, checkout } = input
  const first = start(subscriptionMachine, {
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
    account_id: input.account_id,
    livemode: input.livemode,
    id: newId("subscription"),
    customer_id: input.customer.id,
    plan_id: input.planId,
    payment_method_id: input.methodId,
    test_clock_id: input.customer.test_clock_id,
    latest_charge_id: null,
    announced_charge_id: null,
    metadata: input.metadata,
    created_at: at,
    version: first.version,
    ...subscriptions.snapshotColumns(first.to, first.decision.snapshot.context),
  }
  return { ...first, row }
}

/** Returns what a new subscription has from its plan and from the request; refuses what the plan does not take. */
export const beginningOf = Effect.fnUntraced(function* (
  input: Pick<SubscriptionCreate, "quantity" | "start_at" | "trial_days">,
  plan: PlanTerms,
  now: number,
) {
  const quantity = input.quantity ?? 1
  yield* checkAmount(plan.amount_kobo, quantity)
  const startAt = input.start_at === undefined ? now : parseInstant(input.start_at)!
  if (startAt < now)
    return yield* invalid("start_at", `start_at must be in the future: it is ${formatInstant(now)} for this customer.`)
  if (plan.status === "archived")
    return yield* problem("plan_archived", `The plan ${plan.id} is archived: it takes no new subscriptions.`)
  return {
    planId: plan.id,
    billingCycle: plan.billing_cycle,
    priceKobo: plan.amount_kobo,
    trialDays: input.trial_days ?? plan.trial_days,
    quantity,
    startAt,
    now,
  } satisfies Partial<NewSubscription>
})

/** Decides one request for a subscription. */
const decide = Effect.fnUntraced(function* (
  tenant: Tenant,
  input: SubscriptionCreate,
  payer: Payer,
  plan: PlanTerms | undefined,
) {
  const customer = yield* payer.found
  if (plan === undefined) return yield* noSuchReference("plan", input.plan, "plan")
  const named = yield* payer.named
  const now = yield* payer.now
  const beginning = yield* beginningOf(input, plan, now)
  const paying = payingBy(payer, named, customer, now)
  if (paying === undefined) {
    return yield* problem(
      "payment_method_required",
      "The customer has no default payment method: name one in payment_method, or use a checkout session.",
    )
  }
  const transition = newSubscription({
    ...tenantOf(tenant),
    ...beginning,
    customer,
    methodId: named?.method.id ?? null,
    metadata: yield* mergeMetadata({}, input.metadata),
  })
  const { id } = transition.row
  const terms: Terms = { ...plan, id, payment_method: summaryOf(paying.method), rail: paying.method.rail }
  return { id, transition, terms, now, paying }
})

/**
 * Creates subscriptions for requests that are processed together, and commits the first charges of those due now, to be collected
 * afterwards; returns the result of each request.
 */
export const createSubscriptions = Effect.fn("subscription.create")(function* (
  tenant: Tenant,
  inputs: ReadonlyArray<SubscriptionCreate>,
) {
  const ids = inputs.map(({ plan }) => plan)
  const [payers, plans] = yield* Effect.all([readPayers(tenant, inputs), plansToBegin(tenant, ids)], PIPELINED)
  const decided = yield* Effect.forEach(inputs, (input, at) =>
    Effect.exit(decide(tenant, input, payers[at]!, plans.get(input.plan))),
  )
  const accepted = decided.filter(Exit.isSuccess).map(({ value }) => value)
  attachNew(
    yield* unitOfWork,
    accepted.map(({ paying }) => paying),
  )
  // Subscriptions on one clock share one now.
  const groups = [...Map.groupBy(accepted, ({ now }) => now)]
  const outcomes = yield* Effect.forEach(groups, ([now, group]) =>
    outcomesOf(
      group.map(({ transition }) => transition),
      { nowOf: sameForAll(now), terms: new Map(group.map(({ id, terms }) => [id, terms])), rules: plans },
      true,
    ),
  )
  const attempts = outcomes.flatMap((one) => one.attempts)
  yield* commitAttempts(
    outcomes.flatMap((one) => one.outcomes),
    attempts,
  )
  const attemptsOf = Map.groupBy(attempts, ({ subscription_id }) => subscription_id)
  const rows = new Map(outcomes.flatMap((one) => one.rows.map((row) => [row.id, row])))
  return decided.map(Exit.map(({ id, now }) => payAndRender(rows.get(id)!, attemptsOf.get(id) ?? [], now)))
})
