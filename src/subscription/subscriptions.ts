/** Subscriptions: the verbs of the API on one that exists (decisions E9 to E15). */
import { Effect } from "effect"
import { isCharging, waitsForCheckout } from "../../machines/status.ts"
import { standingTime } from "../clock/clocks.ts"
import { pay } from "../collecting/pay.ts"
import { refOf, type Tenant } from "../db/tenant.ts"
import { canonical } from "../json.ts"
import { mergeMetadata } from "../metadata.ts"
import { formatKobo, MAX_AMOUNT_KOBO } from "../money.ts"
import { invalid, problem } from "../problem.ts"
import { formatInstant, parseInstant } from "../time.ts"
import type { SubscriptionCancel, SubscriptionPatch, SubscriptionPause } from "./api.ts"
import { type Applied, apply, applyAll, type Found, lockWithMethod } from "./apply.ts"
import { Checkouts } from "./Checkouts.ts"
import { type SubscriptionRow, subscriptions } from "./subscription.ts"

/** What one period comes to must be chargeable (decision B4). */
export const checkAmount = (priceKobo: number, quantity: number) =>
  priceKobo * quantity <= MAX_AMOUNT_KOBO
    ? Effect.void
    : Effect.fail(
        invalid("quantity", `quantity times the plan's amount may come to at most ${formatKobo(MAX_AMOUNT_KOBO)}.`),
      )

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
export const cancelSubscription = Effect.fn("subscription.cancel")(function* (
  tenant: Tenant,
  id: string,
  input: SubscriptionCancel,
) {
  const { at_period_end: atPeriodEnd = false, reason = "merchant_request" } = input
  const found = yield* subscriptions.get(tenant, id)
  const now = yield* standingTime(tenant, found.test_clock_id)
  const checkouts = yield* Checkouts
  const closeCheckout = waitsForCheckout(found.state) ? yield* checkouts.lock(refOf(found)) : undefined
  const row = yield* subscriptions.lockOne(tenant, id)
  if (row.status === "cancelled") return yield* stateInvalid(row, "cancelled")
  yield* apply({ row, now }, { type: "cancel", at: now, atPeriodEnd, reason })
  if (closeCheckout !== undefined && !atPeriodEnd) yield* closeCheckout(now)
  return yield* subscriptions.get(tenant, id)
})

/** A request on the subscription that its path names. */
interface On<Body> {
  readonly id: string
  readonly body: Body
}

/** Pauses an active subscription until it is resumed, or until `resumes_at` (decision E10). */
const pause = Effect.fnUntraced(function* ({ row, now, terms }: Found, { body }: On<SubscriptionPause>) {
  const resumesAt = body.resumes_at == null ? null : parseInstant(body.resumes_at)!
  if (resumesAt !== null && resumesAt <= now)
    return yield* invalid(
      "resumes_at",
      `resumes_at must lie in the future: it is ${formatInstant(now)} for this customer.`,
    )
  yield* refuseWhileCharging(row)
  if (row.status !== "active") return yield* stateInvalid(row, "paused")
  if (!terms.pause_enabled)
    return yield* problem("pause_not_enabled", `The plan ${row.plan_id} does not have pause_enabled.`)
  const event = { type: "pause" as const, at: now, resumesAt, reason: body.reason ?? null, proRate: terms.pro_rate }
  return { event, answer: (applied: Applied) => applied.row }
})

/** Pauses those that requests name which came together: for each what it comes to. */
export const pauseSubscriptions = Effect.fn("subscription.pause")(
  (tenant: Tenant, requests: ReadonlyArray<On<SubscriptionPause>>) => applyAll(tenant, requests, pause),
)

/** Resumes what is paused, by request or by escalation: a new period starts and is charged (decisions E9, E11). */
const resume = Effect.fnUntraced(function* ({ row, now, terms }: Found) {
  yield* refuseWhileCharging(row)
  if (row.status !== "paused") return yield* stateInvalid(row, "resumed")
  const unitKobo = terms.overage_per_unit_kobo ?? 0
  const event = { type: "resume" as const, at: now, unitKobo, proRate: terms.pro_rate }
  return { event, answer: ({ attempts }: Applied) => ({ id: row.id, after: pay(attempts, now) }) }
})

/** Resumes those that requests name which came together: for each what it comes to. */
export const resumeSubscriptions = Effect.fn("subscription.resume")(
  (tenant: Tenant, requests: ReadonlyArray<{ readonly id: string }>) => applyAll(tenant, requests, resume),
)

/** Changes what the merchant may change (decision E14). A new payment method for what is overdue is tried at once. */
export const updateSubscription = Effect.fn("subscription.update")(function* (
  tenant: Tenant,
  id: string,
  patch: SubscriptionPatch,
) {
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
  const updated = yield* subscriptions.lockOne(tenant, id)
  // Of what is paid up nothing is to be tried; a first payment that fails ends the subscription anyway (decision D5).
  if (updated.bill === null || updated.status === "incomplete") return { id, after: Effect.void }
  const attempts = yield* apply({ row: updated, now }, { type: "method", at: now, methodId: null })
  return { id, after: pay(attempts, now) }
})
