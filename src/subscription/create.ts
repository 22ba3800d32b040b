/** Creating subscriptions (decisions D3 to D6). */
import { Effect } from "effect"
import type { BillingCycle } from "../../machines/calendar.ts"
import { subscriptionMachine } from "../../machines/subscription.ts"
import { standingTime } from "../clock/clocks.ts"
import { pay } from "../collecting/pay.ts"
import { commitAttempts } from "../collecting/settle.ts"
import { type CustomerRow, customers } from "../customer/customer.ts"
import { lockOnWallClock } from "../customer/customers.ts"
import { IN_ONE_GO } from "../db/pipelining.ts"
import { type Tenant, tenantOf } from "../db/tenant.ts"
import { newId } from "../ids.ts"
import { type Metadata, mergeMetadata } from "../metadata.ts"
import { attachedTo, getPaymentMethod, nameMethod, summaryOf } from "../payment_method/paymentMethods.ts"
import { plans } from "../plan/plan.ts"
import { asReference, invalid, problem } from "../problem.ts"
import { beginLife } from "../runtime/lifecycle.ts"
import { formatInstant, parseInstant } from "../time.ts"
import type { SubscriptionCreate } from "./api.ts"
import { outcomesOf } from "./move.ts"
import { type SubscriptionRow, type SubscriptionTransition, subscriptions } from "./subscription.ts"
import { checkAmount } from "./subscriptions.ts"

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
  const birth = beginLife(subscriptionMachine, {
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

/** Creates a subscription and commits its first charge where one is due now, to be collected after. */
export const createSubscription = Effect.fn("subscription.create")(function* (
  tenant: Tenant,
  input: SubscriptionCreate,
) {
  const of = { ...tenantOf(tenant), id: input.customer }
  const [, found, plan, attached] = yield* Effect.all(
    [
      lockOnWallClock(of),
      asReference(customers.get(tenant, input.customer), "customer"),
      asReference(plans.get(tenant, input.plan), "plan"),
      attachedTo(of, input.payment_method ?? null),
    ],
    IN_ONE_GO,
  )
  const quantity = input.quantity ?? 1
  yield* checkAmount(plan.amount_kobo, quantity)
  const now = yield* standingTime(tenant, found.test_clock_id)
  const startAt = input.start_at === undefined ? now : parseInstant(input.start_at)!
  if (startAt < now)
    return yield* invalid("start_at", `start_at must lie in the future: it is ${formatInstant(now)} for this customer.`)
  const onClock = found.test_clock_id !== null
  const customer = onClock ? yield* customers.lockOne(tenant, found.id, "SHARE") : found
  const named =
    input.payment_method === undefined
      ? undefined
      : attached !== null && !onClock
        ? attached
        : yield* nameMethod(customer, input.payment_method, "payment_method", now)
  if (plan.status === "archived")
    return yield* problem("plan_archived", `The plan ${plan.id} is archived: it takes no new subscriptions.`)
  if (named === undefined && customer.default_payment_method_id === null) {
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
    methodId: named?.id ?? null,
    metadata: yield* mergeMetadata({}, input.metadata),
    now,
  })
  const { id } = transition.row
  const method = named ?? (yield* getPaymentMethod(customer, customer.default_payment_method_id!))
  const terms = new Map([[id, { ...plan, id, payment_method: summaryOf(method), rail: method.rail }]])
  const { outcomes, attempts } = yield* outcomesOf([transition], { now, terms }, true)
  yield* commitAttempts(outcomes, attempts)
  return { id, after: pay(attempts, now) }
})
