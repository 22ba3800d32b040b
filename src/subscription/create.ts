/** Creating subscriptions (decisions D3 to D6). */
import { Effect } from "effect"
import { subscriptionMachine } from "../../machines/subscription.ts"
import { standingTime } from "../clock/clocks.ts"
import { collect, commitAttempts } from "../collecting/collect.ts"
import { customers } from "../customer/customer.ts"
import type { Tenant } from "../db/tenant.ts"
import { newId } from "../ids.ts"
import { mergeMetadata } from "../metadata.ts"
import { nameMethod, summaryOf } from "../payment_method/paymentMethods.ts"
import { plans } from "../plan/plan.ts"
import { asReference, invalid, problem } from "../problem.ts"
import { beginLife } from "../runtime/lifecycle.ts"
import { formatInstant, parseInstant } from "../time.ts"
import type { SubscriptionCreate } from "./api.ts"
import { outcomesOf } from "./move.ts"
import { type SubscriptionRow, subscriptions } from "./subscription.ts"
import { checkAmount } from "./subscriptions.ts"

/** Creates a subscription and commits its first charge where one is due now, to be collected after. */
export const createSubscription = Effect.fn("subscription.create")(function* (
  tenant: Tenant,
  input: SubscriptionCreate,
) {
  const found = yield* asReference(customers.get(tenant, input.customer), "customer")
  const plan = yield* asReference(plans.get(tenant, input.plan), "plan")
  const quantity = input.quantity ?? 1
  yield* checkAmount(plan.amount_kobo, quantity)
  const now = yield* standingTime(tenant, found.test_clock_id)
  const startAt = input.start_at === undefined ? now : parseInstant(input.start_at)!
  if (startAt < now)
    return yield* invalid("start_at", `start_at must lie in the future: it is ${formatInstant(now)} for this customer.`)
  const customer = yield* customers.lockOne(tenant, found.id, "SHARE")
  const named =
    input.payment_method === undefined
      ? undefined
      : yield* nameMethod(customer, input.payment_method, "payment_method", now)
  if (plan.status === "archived")
    return yield* problem("plan_archived", `The plan ${plan.id} is archived: it takes no new subscriptions.`)
  if (named === undefined && customer.default_payment_method_id === null) {
    return yield* problem(
      "payment_method_required",
      "The customer has no default payment method: name one in payment_method, or use a checkout session.",
    )
  }
  const birth = beginLife(subscriptionMachine, {
    type: "create",
    at: now,
    billingCycle: plan.billing_cycle,
    priceKobo: plan.amount_kobo,
    quantity,
    trialDays: input.trial_days ?? plan.trial_days,
    startAt,
  })
  const row: SubscriptionRow = {
    account_id: tenant.account_id,
    livemode: tenant.livemode,
    id: newId("subscription"),
    customer_id: customer.id,
    plan_id: plan.id,
    payment_method_id: named?.id ?? null,
    test_clock_id: customer.test_clock_id,
    latest_charge_id: null,
    announced_charge_id: null,
    metadata: yield* mergeMetadata({}, input.metadata),
    created_at: now,
    version: birth.version,
    ...subscriptions.snapshotColumns(birth.to, birth.decision.snapshot.context),
  }
  const payment_method = named ?? (yield* summaryOf(customer, customer.default_payment_method_id))
  const terms = new Map([[row.id, { ...plan, id: row.id, payment_method }]])
  const { outcomes, attempts } = yield* outcomesOf([{ ...birth, row }], { now, terms }, true)
  yield* commitAttempts(outcomes, attempts)
  return { id: row.id, after: collect(attempts, now) }
})
