/** Subscriptions: the verbs of the API on one that exists (spec 4.5; decisions E9 to E15). */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import type { SubscriptionEvent } from "../../machines/events.ts"
import { isCharging } from "../../machines/status.ts"
import { canonical } from "../canonical.ts"
import { standingTime } from "../clock/Clocks.ts"
import { type CustomerRow, lockCustomer } from "../customer/Customers.ts"
import { refOf, type Tenant } from "../db/tenant.ts"
import { advance } from "../lifecycle/advance.ts"
import { mergeMetadata } from "../metadata.ts"
import { formatKobo, MAX_AMOUNT_KOBO } from "../money.ts"
import { nameMethod } from "../payment_method/PaymentMethods.ts"
import { invalid, noSuch, problem } from "../problem.ts"
import type { PaymentMethodSummary } from "../rail/PaymentRail.ts"
import { formatInstant, parseInstant } from "../time.ts"
import type { SubscriptionCancel, SubscriptionPatch, SubscriptionPause } from "./api.ts"
import { collect } from "./collect.ts"
import { commitSubscriptions } from "./commit.ts"
import { type Details, lockSubscriptions, readTerms, type SubscriptionRow } from "./rows.ts"
import { subscriptionLifecycle } from "./Subscription.ts"

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

/** What one period comes to must be chargeable (decision B4). */
export const checkAmount = (priceKobo: number, quantity: number) =>
  priceKobo * quantity <= MAX_AMOUNT_KOBO
    ? Effect.void
    : Effect.fail(
        invalid("quantity", `quantity times the plan's amount may come to at most ${formatKobo(MAX_AMOUNT_KOBO)}.`),
      )

/** A subscription locked for an event from the API, with its own now. */
export interface Locked {
  readonly row: SubscriptionRow
  readonly now: number
}

const lock = (tenant: Tenant, id: string, now: number) =>
  Effect.gen(function* () {
    const [row] = yield* lockSubscriptions([{ account_id: tenant.account_id, livemode: tenant.livemode, id }])
    return { row: row ?? (yield* noSuch("subscription", id)), now } satisfies Locked
  })

/** A subscription locked for an event from the API, and its own now. A clock that moves refuses (422). */
export const lockForEvent = (tenant: Tenant, id: string) =>
  Effect.gen(function* () {
    const { test_clock_id } = yield* getSubscription(tenant, id)
    return yield* lock(tenant, id, yield* standingTime(tenant, test_clock_id))
  })

/**
 * The same for a request that may name a payment method in its `payment_method`: the customer is locked too, so that no
 * method is removed while it is being named.
 */
export const lockWithMethod = (tenant: Tenant, id: string, named: string | null | undefined) =>
  Effect.gen(function* () {
    const { test_clock_id, customer_id } = yield* getSubscription(tenant, id)
    const now = yield* standingTime(tenant, test_clock_id)
    const customer: CustomerRow = yield* lockCustomer(tenant, customer_id, "SHARE")
    const method: PaymentMethodSummary | undefined =
      named == null ? undefined : yield* nameMethod(customer, named, "payment_method", now)
    return { ...(yield* lock(tenant, id, now)), customer, method }
  })

/** Applies one event to a locked subscription, with its plan's terms as they stand. Answers the charges to attempt. */
export const apply = ({ row, now }: Locked, event: SubscriptionEvent, details?: Details) =>
  Effect.gen(function* () {
    const terms = yield* readTerms([refOf(row)])
    const { overage_per_unit_kobo, pro_rate } = terms.get(row.id)!
    const told = event.type === "resume" ? { ...event, unitKobo: overage_per_unit_kobo ?? 0, proRate: pro_rate } : event
    const { attempts } = yield* commitSubscriptions(advance(subscriptionLifecycle, [{ row, event: told }]), {
      now,
      terms,
      ...(details === undefined ? {} : { details: new Map([[row.id, details]]) }),
    })
    return attempts
  })

const stateInvalid = (row: SubscriptionRow, what: string) =>
  problem("subscription_state_invalid", `The subscription is ${row.status}: it cannot be ${what}.`)

/** Pausing, resuming and retrying wait for the rail's word on what is pending (decision E15). */
export const refuseWhileCharging = ({ state, latest_charge_id }: SubscriptionRow) =>
  isCharging(state)
    ? Effect.fail(
        problem("charge_in_progress", `The charge ${latest_charge_id} is pending: wait until it succeeds or fails.`),
      )
    : Effect.void

/** Cancels now or at period end (decision E12); repeating the latter changes nothing. */
export const cancelSubscription = (tenant: Tenant, id: string, input: SubscriptionCancel) =>
  Effect.gen(function* () {
    const locked = yield* lockForEvent(tenant, id)
    if (locked.row.status === "cancelled") return yield* stateInvalid(locked.row, "cancelled")
    const { at_period_end: atPeriodEnd = false, reason = "merchant_request" } = input
    yield* apply(locked, { type: "cancel", at: locked.now, atPeriodEnd, reason })
    return yield* getSubscription(tenant, id)
  })

/** Pauses an active subscription until it is resumed, or until `resumes_at` (decision E10). */
export const pauseSubscription = (tenant: Tenant, id: string, input: SubscriptionPause) =>
  Effect.gen(function* () {
    const locked = yield* lockForEvent(tenant, id)
    const { row, now } = locked
    const resumesAt = input.resumes_at == null ? null : parseInstant(input.resumes_at)!
    if (resumesAt !== null && resumesAt <= now)
      return yield* invalid(
        "resumes_at",
        `resumes_at must lie in the future: it is ${formatInstant(now)} for this customer.`,
      )
    yield* refuseWhileCharging(row)
    if (row.status !== "active") return yield* stateInvalid(row, "paused")
    const terms = (yield* readTerms([refOf(row)])).get(id)!
    if (!terms.pause_enabled)
      return yield* problem("pause_not_enabled", `The plan ${row.plan_id} does not have pause_enabled.`)
    yield* apply(locked, { type: "pause", at: now, resumesAt, reason: input.reason ?? null })
    return yield* getSubscription(tenant, id)
  })

/** Resumes what is paused, by request or by escalation: a new period starts and is charged (decisions E9, E11). */
export const resumeSubscription = (tenant: Tenant, id: string) =>
  Effect.gen(function* () {
    const locked = yield* lockForEvent(tenant, id)
    yield* refuseWhileCharging(locked.row)
    if (locked.row.status !== "paused") return yield* stateInvalid(locked.row, "resumed")
    const attempts = yield* apply(locked, { type: "resume", at: locked.now })
    return { id, after: collect(attempts, locked.now) }
  })

/** Changes what the merchant may change (decision E14). A new payment method for what is overdue is tried at once. */
export const updateSubscription = (tenant: Tenant, id: string, patch: SubscriptionPatch) =>
  Effect.gen(function* () {
    const { customer, method, ...locked } = yield* lockWithMethod(tenant, id, patch.payment_method)
    const { row, now } = locked
    const { quantity = row.quantity, cancel_at_period_end: cancelAtPeriodEnd = row.cancel_at_period_end } = patch
    yield* checkAmount(row.price_kobo, quantity)
    const metadata = yield* mergeMetadata(row.metadata, patch.metadata)
    if (row.status === "cancelled") return yield* stateInvalid(row, "updated")
    const own = patch.payment_method === undefined ? row.payment_method_id : (method?.id ?? null)
    const details = { metadata, payment_method_id: own }
    const changes = {
      ...(quantity === row.quantity ? {} : { quantity }),
      ...(cancelAtPeriodEnd === row.cancel_at_period_end ? {} : { cancelAtPeriodEnd }),
    }
    const same = own === row.payment_method_id && canonical(metadata) === canonical(row.metadata)
    if (same && Object.keys(changes).length === 0) return { id, after: Effect.void }
    yield* apply(locked, { type: "update", at: now, ...changes }, details)

    const [before, after] = [row.payment_method_id, own].map((mine) => mine ?? customer.default_payment_method_id)
    if (after === before || after === null) return { id, after: Effect.void }
    const updated = yield* lock(tenant, id, now)
    // Of what is paid up nothing is to be tried; a first payment that fails ends the subscription anyway (decision D5).
    if (updated.row.bill === null || updated.row.status === "incomplete") return { id, after: Effect.void }
    const attempts = yield* apply(updated, { type: "method", at: now, methodId: null })
    return { id, after: collect(attempts, now) }
  })
