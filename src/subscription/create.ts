/** Creating subscriptions (spec 4.5; decisions D3 to D6). */
import { Effect } from "effect"
import { begin, stateName } from "../../machines/decide.ts"
import { subscriptionMachine } from "../../machines/subscription.ts"
import { standingTime } from "../clock/Clocks.ts"
import { findCustomers, lockCustomer } from "../customer/Customers.ts"
import { refOf, type Tenant } from "../db/tenant.ts"
import { newId } from "../ids.ts"
import { mergeMetadata } from "../metadata.ts"
import { nameMethod } from "../payment_method/PaymentMethods.ts"
import { findPlans } from "../plan/Plans.ts"
import { invalid, noSuchReference, problem } from "../problem.ts"
import { formatInstant, parseInstant } from "../time.ts"
import type { SubscriptionCreate } from "./api.ts"
import { collect } from "./collect.ts"
import { commitSubscriptions } from "./commit.ts"
import { insertSubscriptions, machineColumns, readTerms, type SubscriptionRow } from "./rows.ts"
import { checkAmount } from "./Subscriptions.ts"

/** Creates a subscription and commits its first charge where one is due now, to be collected after. */
export const createSubscription = (tenant: Tenant, input: SubscriptionCreate) =>
  Effect.gen(function* () {
    const [found] = yield* findCustomers(tenant, [input.customer])
    if (found === undefined) return yield* noSuchReference("customer", input.customer, "customer")
    const plan = (yield* findPlans(tenant, [input.plan])).get(input.plan)
    if (plan === undefined) return yield* noSuchReference("plan", input.plan, "plan")
    const quantity = input.quantity ?? 1
    yield* checkAmount(plan.amount_kobo, quantity)
    const now = yield* standingTime(tenant, found.test_clock_id)
    const startAt = input.start_at === undefined ? now : parseInstant(input.start_at)!
    if (startAt < now)
      return yield* invalid(
        "start_at",
        `start_at must lie in the future: it is ${formatInstant(now)} for this customer.`,
      )
    const customer = yield* lockCustomer(tenant, found.id, "SHARE")
    const method =
      input.payment_method === undefined
        ? undefined
        : yield* nameMethod(customer, input.payment_method, "payment_method", now)
    if (plan.status === "archived")
      return yield* problem("plan_archived", `The plan ${plan.id} is archived: it takes no new subscriptions.`)
    if (method === undefined && customer.default_payment_method_id === null) {
      return yield* problem(
        "payment_method_required",
        "The customer has no default payment method: name one in payment_method, or use a checkout session.",
      )
    }

    const metadata = yield* mergeMetadata({}, input.metadata)
    const machineInput = {
      at: now,
      billingCycle: plan.billing_cycle,
      priceKobo: plan.amount_kobo,
      quantity,
      trialDays: input.trial_days ?? plan.trial_days,
      startAt,
    }
    const decision = begin(subscriptionMachine, machineInput)
    const to = stateName(decision.snapshot)
    const row: SubscriptionRow = {
      account_id: tenant.account_id,
      livemode: tenant.livemode,
      id: newId("subscription"),
      customer_id: customer.id,
      plan_id: plan.id,
      payment_method_id: method?.id ?? null,
      test_clock_id: customer.test_clock_id,
      latest_charge_id: null,
      told_charge_id: null,
      metadata,
      created_at: now,
      version: 0,
      ...machineColumns(to, decision.snapshot.context),
    }
    yield* insertSubscriptions([row])
    const terms = yield* readTerms([refOf(row)])
    const event = { type: "create", ...machineInput }
    const transition = { row: { ...row, state: "created" }, event, decision, to, version: 1 }
    const { attempts } = yield* commitSubscriptions([transition], { now, terms })
    return { id: row.id, after: collect(attempts, now) }
  })
