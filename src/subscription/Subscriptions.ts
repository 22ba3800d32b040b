/** Subscriptions: the verbs of the API (spec 4.5; decisions D3 to D6, E12 to E14). */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { begin, stateName, type TimedEvent } from "../../machines/decide.ts"
import { subscriptionMachine } from "../../machines/subscription.ts"
import type { ChargeRow } from "../charge/rows.ts"
import { standingTime } from "../clock/Clocks.ts"
import { findCustomers } from "../customer/Customers.ts"
import { refOf, type Tenant } from "../db/tenant.ts"
import { newId } from "../ids.ts"
import { advance } from "../lifecycle/advance.ts"
import { Runner } from "../lifecycle/Runner.ts"
import { mergeMetadata } from "../metadata.ts"
import { formatKobo, MAX_AMOUNT_KOBO } from "../money.ts"
import { nameMethod } from "../payment_method/PaymentMethods.ts"
import { findPlans, type PlanRow } from "../plan/Plans.ts"
import { invalid, noSuch, noSuchReference, problem } from "../problem.ts"
import { formatInstant, parseInstant } from "../time.ts"
import type { SubscriptionCancel, SubscriptionCreate, SubscriptionPatch } from "./api.ts"
import { collect, recoverCharges } from "./collect.ts"
import { commitSubscriptions } from "./commit.ts"
import { insertSubscriptions, lockSubscriptions, machineColumns, readTerms, type SubscriptionRow } from "./rows.ts"
import { subscriptionLifecycle } from "./Subscription.ts"

const NOTHING_SETTLED = new Map()

export const findSubscriptions = (tenant: Tenant, ids: ReadonlyArray<string>) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    return yield* sql<SubscriptionRow>`
      SELECT * FROM subscription WHERE account_id = ${tenant.account_id} AND livemode = ${tenant.livemode} AND id = ANY(${ids}::text[])`
  })

export const getSubscription = (tenant: Tenant, id: string) =>
  Effect.gen(function* () {
    const [row] = yield* findSubscriptions(tenant, [id])
    return row ?? (yield* noSuch("subscription", id))
  })

const checkQuantity = (plan: PlanRow, quantity: number) =>
  plan.amount_kobo * quantity <= MAX_AMOUNT_KOBO
    ? Effect.void
    : Effect.fail(
        invalid("quantity", `quantity times the plan's amount may come to at most ${formatKobo(MAX_AMOUNT_KOBO)}.`),
      )

/**
 * Creates a subscription and commits its first charge where one is due now; {@link finishOpening} then takes the
 * payment. Answers the ID.
 */
export const createSubscription = (tenant: Tenant, input: SubscriptionCreate) =>
  Effect.gen(function* () {
    const [customer] = yield* findCustomers(tenant, [input.customer])
    if (customer === undefined) return yield* noSuchReference("customer", input.customer, "customer")
    const plan = (yield* findPlans(tenant, [input.plan])).get(input.plan)
    if (plan === undefined) return yield* noSuchReference("plan", input.plan, "plan")
    const quantity = input.quantity ?? 1
    yield* checkQuantity(plan, quantity)
    const now = yield* standingTime(tenant, customer.test_clock_id)
    const startAt = input.start_at === undefined ? now : parseInstant(input.start_at)!
    if (startAt < now)
      return yield* invalid(
        "start_at",
        `start_at must lie in the future: it is ${formatInstant(now)} for this customer.`,
      )
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
      metadata,
      created_at: now,
      version: 0,
      ...machineColumns(to, decision.snapshot.context),
    }
    yield* insertSubscriptions([row])
    const terms = yield* readTerms([refOf(row)])
    const event = { type: "create", ...machineInput }
    yield* commitSubscriptions([{ row: { ...row, state: "created" }, event, decision, to, version: 1 }], {
      now,
      terms,
      settled: NOTHING_SETTLED,
    })
    return row.id
  })

/** Takes the first payment of a subscription that waits for it. Safe to repeat: a settled charge is left alone. */
export const finishOpening = (tenant: Tenant, id: string) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const { id: runner } = yield* Runner
    const waiting = yield* sql<ChargeRow>`
      SELECT c.* FROM charge c
      WHERE c.account_id = ${tenant.account_id} AND c.livemode = ${tenant.livemode} AND c.subscription_id = ${id}
        AND c.state = 'pending.sending' AND c.bill_no = 1`
    const [charge] = waiting
    if (charge === undefined) return
    // The charge of a try that died: ask before sending.
    if (charge.sender !== runner) return yield* recoverCharges({ subscriptionId: id })
    const now = charge.test_clock_id === null ? Date.now() : charge.created_at
    yield* collect([charge], now)
  })

/** A subscription locked for an event from the API, and its own now. A clock that moves refuses (422). */
export const lockForEvent = (tenant: Tenant, id: string) =>
  Effect.gen(function* () {
    const { test_clock_id } = yield* getSubscription(tenant, id)
    const now = yield* standingTime(tenant, test_clock_id)
    const [row] = yield* lockSubscriptions([{ account_id: tenant.account_id, livemode: tenant.livemode, id }])
    return { row: row ?? (yield* noSuch("subscription", id)), now }
  })

/** Applies an event to a locked subscription. */
export const applyEvent = <E extends TimedEvent>(row: SubscriptionRow, event: E, now: number) =>
  commitSubscriptions(advance(subscriptionLifecycle, [{ row, event }]), {
    now,
    terms: new Map(),
    settled: NOTHING_SETTLED,
  })

/** One event to one subscription that isn't over. */
const send = (tenant: Tenant, id: string, attempted: string, eventAt: (now: number) => TimedEvent | undefined) =>
  Effect.gen(function* () {
    const { row, now } = yield* lockForEvent(tenant, id)
    if (row.status === "cancelled") {
      return yield* problem("subscription_state_invalid", `The subscription is cancelled: it cannot be ${attempted}.`)
    }
    const event = eventAt(now)
    if (event === undefined) return row
    yield* applyEvent(row, event, now)
    return yield* getSubscription(tenant, id)
  })

/** Cancels now or at period end (decision E12); repeating the latter changes nothing. */
export const cancelSubscription = (tenant: Tenant, id: string, input: SubscriptionCancel) =>
  send(tenant, id, "cancelled", (at) => ({
    type: "cancel",
    at,
    atPeriodEnd: input.at_period_end ?? false,
    reason: input.reason ?? "merchant_request",
  }))

export const updateSubscription = (tenant: Tenant, id: string, patch: SubscriptionPatch) =>
  send(tenant, id, "updated", (at) => {
    if (patch.cancel_at_period_end === undefined) return undefined
    return patch.cancel_at_period_end
      ? { type: "cancel", at, atPeriodEnd: true, reason: "merchant_request" }
      : { type: "keep", at }
  })
