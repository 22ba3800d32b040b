/** Implements the API's operations on existing subscriptions (decisions E9 to E15). */
import { Effect, Exit } from "effect"
import { isCharging, waitsForCheckout } from "../../../machines/status.ts"
import { canonical } from "../../base/json.ts"
import { mergeMetadata } from "../../base/metadata.ts"
import { formatKobo, MAX_AMOUNT_KOBO } from "../../base/money.ts"
import { checkBeforeStateError, invalid, problem } from "../../base/problem.ts"
import { formatInstant, parseInstant } from "../../base/time.ts"
import { refOf, type Tenant } from "../../db/tenant.ts"
import { LOCKED, WaitForLocks } from "../../postgres/lockWait.ts"
import type { ChargeRow } from "../charge/charge.ts"
import { type Payer, readPayers } from "../payments/payers.ts"
import type { SubscriptionCancel, SubscriptionPatch, SubscriptionPause } from "./api.ts"
import { type Applied, applyAll, type Found, lockAndApply, oneEachRound } from "./apply.ts"
import { Checkouts } from "./Checkouts.ts"
import { isBilled } from "./newMethod.ts"
import { payAndRender } from "./payAndRender.ts"
import { type SubscriptionRow, subscriptions } from "./subscription.ts"
import { unitFacts } from "./terms.ts"

/** Refuses a quantity whose period would cost more than can be charged (decision B4). `usageKobo`: the units billed with it. */
export const checkAmount = (priceKobo: number, quantity: number, usageKobo = 0) =>
  priceKobo * quantity + usageKobo <= MAX_AMOUNT_KOBO
    ? Effect.void
    : Effect.fail(
        invalid(
          "quantity",
          `quantity times the plan's amount${usageKobo > 0 ? `, plus ${formatKobo(usageKobo)} for the units reported,` : ""} must be at most ${formatKobo(MAX_AMOUNT_KOBO)}.`,
        ),
      )

const stateInvalid = (row: SubscriptionRow, verb: string) =>
  problem("subscription_state_invalid", `The subscription is ${row.status}: it cannot be ${verb}.`)

/** Refuses to pause, resume or retry until the rail has decided on a pending charge (decision E15). */
export const refuseWhileCharging = ({ state, latest_charge_id }: SubscriptionRow) =>
  isCharging(state)
    ? Effect.fail(
        problem("charge_in_progress", `The charge ${latest_charge_id} is pending: wait until it succeeds or fails.`),
      )
    : Effect.void

const alreadyEnding = ({ latest_charge_id }: SubscriptionRow) =>
  problem(
    "charge_in_progress",
    `The last period is over and the charge ${latest_charge_id} for its units is pending: cancel_at_period_end stays true.`,
    "cancel_at_period_end",
  )

/** A request on the subscription that its path names. */
interface On<Body> {
  readonly id: string
  readonly body: Body
}

/**
 * Cancels now or at period end (decision E12); repeating the latter changes only the reason. The newest given reason counts (decision E13).
 */
const cancel = Effect.fnUntraced(function* ({ row, now, terms }: Found, { body }: On<SubscriptionCancel>) {
  const { at_period_end: atPeriodEnd = false } = body
  const reason = body.reason ?? row.cancel_reason ?? "merchant_request"
  if (row.status === "cancelled") return yield* stateInvalid(row, "cancelled")
  const event = { type: "cancel" as const, at: now, atPeriodEnd, reason, ...unitFacts(row, terms) }
  return { event, answer: (applied: Applied) => applied }
})

/** Cancels the subscriptions that requests name; returns the result of each. Closes the checkout sessions that they wait for. */
export const cancelSubscriptions = Effect.fn("subscription.cancel")(function* (
  tenant: Tenant,
  requests: ReadonlyArray<On<SubscriptionCancel>>,
) {
  const checkouts = yield* Checkouts
  const waits = yield* WaitForLocks
  const open = new Set<string>()
  const ending = new Set<string>()
  const decide = (found: Found, request: On<SubscriptionCancel>) => {
    const { id, state } = found.row
    if (!waitsForCheckout(state)) return cancel(found, request)
    if (open.has(id)) ending.add(id)
    // Another transaction has locked its session.
    else if (!waits) return LOCKED
    return cancel(found, request)
  }
  const cancelled = yield* applyAll(tenant, requests, decide, (...which) =>
    Effect.map(checkouts.lock(...which), (ids) => {
      for (const id of ids) open.add(id)
    }),
  )
  const ended = cancelled
    .filter(Exit.isSuccess)
    .flatMap(({ value }) => (value.row.status === "cancelled" && ending.has(value.row.id) ? [value] : []))
  if (ended.length > 0) {
    const nows = new Map(ended.map(({ row, now }) => [row.customer_id, now]))
    yield* checkouts.close(
      ended.map(({ row }) => refOf(row)),
      ({ customer_id }) => nows.get(customer_id!)!,
    )
  }
  return cancelled.map(Exit.map(({ row, attempts, now }) => payAndRender(row, attempts, now)))
})

/** Pauses an active subscription until it is resumed, or until `resumes_at` (decision E10). */
const pause = Effect.fnUntraced(function* ({ row, now, terms }: Found, { body }: On<SubscriptionPause>) {
  const resumesAt = body.resumes_at == null ? null : parseInstant(body.resumes_at)!
  if (resumesAt !== null && resumesAt <= now)
    return yield* invalid(
      "resumes_at",
      `resumes_at must be in the future: it is ${formatInstant(now)} for this customer.`,
    )
  yield* refuseWhileCharging(row)
  if (row.status !== "active") return yield* stateInvalid(row, "paused")
  if (!terms.pause_enabled)
    return yield* problem("pause_not_enabled", `The plan ${row.plan_id} does not have pause_enabled.`)
  const event = { type: "pause" as const, at: now, resumesAt, reason: body.reason ?? null, proRate: terms.pro_rate }
  return { event, answer: (applied: Applied) => applied.row }
})

/** Pauses the subscriptions that requests name; returns the result of each. */
export const pauseSubscriptions = Effect.fn("subscription.pause")(
  (tenant: Tenant, requests: ReadonlyArray<On<SubscriptionPause>>) => applyAll(tenant, requests, pause),
)

/** Resumes a subscription paused by request or by escalation: a new period starts and is charged (decisions E9, E11). */
const resume = Effect.fnUntraced(function* ({ row, now, terms }: Found) {
  yield* refuseWhileCharging(row)
  if (row.status !== "paused") return yield* stateInvalid(row, "resumed")
  const unitKobo = terms.overage_per_unit_kobo ?? 0
  const event = { type: "resume" as const, at: now, unitKobo, proRate: terms.pro_rate }
  return {
    event,
    answer: (applied: Applied) => payAndRender(applied.row, applied.attempts, now),
  }
})

/** Resumes the subscriptions that requests name; returns the result of each. */
export const resumeSubscriptions = Effect.fn("subscription.resume")(
  (tenant: Tenant, requests: ReadonlyArray<{ readonly id: string }>) => applyAll(tenant, requests, resume),
)

/** Returns the subscription's own payment method after the request, if any, the method that then pays, and whether that is another than before. */
const payingFrom = Effect.fnUntraced(function* (row: SubscriptionRow, payer: Payer | undefined) {
  if (payer === undefined) return { own: row.payment_method_id, isAnother: false, paying: undefined, method: undefined }
  const customer = yield* payer.found
  const now = yield* payer.now
  const named = yield* payer.named
  const own = named?.method.id ?? null
  const [before, after] = [row.payment_method_id, own].map((mine) => mine ?? customer.default_payment_method_id)
  return {
    own,
    isAnother: after !== null && after !== before,
    paying: named === undefined ? undefined : { ...named, customer, now },
    method: named?.method ?? payer.byDefault ?? null,
  }
})

/** Applies the merchant's changes (decision E14). `payer`: set if the request names a payment method or removes it. */
const update = Effect.fnUntraced(function* (
  { row, now, terms }: Found,
  { body: patch }: On<SubscriptionPatch>,
  payer: Payer | undefined,
) {
  const { own, isAnother, paying, method } = yield* payingFrom(row, payer)
  const { quantity = row.quantity, cancel_at_period_end: cancelAtPeriodEnd = row.cancel_at_period_end } = patch
  // Units of a trial are free (decision E1).
  const usageKobo = row.status === "trialing" ? 0 : row.units * (terms.overage_per_unit_kobo ?? 0)
  if (quantity > row.quantity) yield* checkAmount(row.price_kobo, quantity, usageKobo)
  const metadata = yield* mergeMetadata(row.metadata, patch.metadata)
  if (row.status === "cancelled") return yield* stateInvalid(row, "updated")
  if (row.state === "ending" && !cancelAtPeriodEnd) return yield* alreadyEnding(row)
  const changes = {
    ...(quantity === row.quantity ? {} : { quantity }),
    ...(cancelAtPeriodEnd === row.cancel_at_period_end ? {} : { cancelAtPeriodEnd, ...unitFacts(row, terms) }),
  }
  const same = own === row.payment_method_id && canonical(metadata) === canonical(row.metadata)
  return {
    event: same && Object.keys(changes).length === 0 ? undefined : { type: "update" as const, at: now, ...changes },
    details: { metadata, payment_method_id: own },
    paying,
    method,
    answer: (applied: Applied) => ({ ...applied, isAnother }),
  }
})

/** Tries a new payment method on a subscription's bill immediately. */
const tryMethod = ({ row, now }: Found) =>
  Effect.succeed({
    event: isBilled(row) ? { type: "method" as const, at: now, methodId: null } : undefined,
    answer: ({ attempts }: Applied) => attempts,
  })

/** Locks and returns the payer of each request that names or removes a payment method. */
const payersOf = Effect.fnUntraced(function* (tenant: Tenant, requests: ReadonlyArray<On<SubscriptionPatch>>) {
  const naming = requests.filter(({ body }) => body.payment_method !== undefined)
  if (naming.length === 0) return new Map<On<SubscriptionPatch>, Payer>()
  const existing = yield* subscriptions.find(tenant, [...new Set(naming.map(({ id }) => id))])
  const named = naming.flatMap((request) => {
    const row = existing.get(request.id)
    return row === undefined
      ? []
      : [{ request, customer: row.customer_id, payment_method: request.body.payment_method ?? undefined }]
  })
  const payers = yield* readPayers(tenant, named)
  return new Map(named.map(({ request }, at) => [request, payers[at]!]))
})

/** Changes the subscriptions that requests name; returns the result of each. */
export const updateSubscriptions = Effect.fn("subscription.update")(function* (
  tenant: Tenant,
  requests: ReadonlyArray<On<SubscriptionPatch>>,
) {
  const payers = yield* payersOf(tenant, requests)
  const applyDecided = yield* lockAndApply(tenant, requests)
  // Requests for one subscription run in sequence, each with the payment that it causes.
  return yield* oneEachRound(
    requests,
    Effect.fnUntraced(function* (distinct) {
      const updated = yield* applyDecided(distinct, (found, request) => update(found, request, payers.get(request)))
      const others = updated.flatMap((one) => (Exit.isSuccess(one) && one.value.isAnother ? [one.value.row] : []))
      const attempts = new Map<string, ReadonlyArray<ChargeRow>>()
      // A failure here fails the whole transaction, since the change is already written.
      for (const [at, tried] of (yield* applyDecided(others, tryMethod)).entries())
        attempts.set(others[at]!.id, yield* tried)
      const answered = updated.map(
        Exit.map((one) => payAndRender(one.row, [...one.attempts, ...(attempts.get(one.row.id) ?? [])], one.now)),
      )
      return yield* Effect.forEach(answered, (one, at) =>
        Effect.exit(checkBeforeStateError(payers.get(distinct[at]!)?.named ?? Effect.succeed(undefined), one)),
      )
    }),
  )
})
