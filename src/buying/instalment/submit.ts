/**
 * Submits the payment page of an instalment plan (decision L8). The plan's row lock claims the payment: of simultaneous submissions one
 * pays, and the others get the result. The rail's result arrives through the payment subject.
 */
import { PgTypes } from "@effect/sql-pg"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import type { Line } from "../../../machines/billing.ts"
import { isSaving } from "../../../machines/instalment.ts"
import { dueKobo, missedKobo, mostKobo } from "../../../machines/instalment_schedule.ts"
import { formatKobo } from "../../base/money.ts"
import { invalid, type Problem, problem } from "../../base/problem.ts"
import { DAY_MS, sameForAll } from "../../base/time.ts"
import { currentTime } from "../../base/wallClock.ts"
import { type ChargeRow, chargeLifecycle, newCharge } from "../../billing/charge/charge.ts"
import { clockTime } from "../../billing/clock/clocks.ts"
import { type CustomerRow, customers } from "../../billing/customer/customer.ts"
import { findPaymentMethods, methodKey, summaryOf } from "../../billing/payment_method/paymentMethods.ts"
import { commitAttempts } from "../../billing/payments/commitAttempts.ts"
import { Payments } from "../../billing/payments/Payments.ts"
import { TenantDatabase } from "../../db/TenantDatabase.ts"
import { ofTenant, tenantOf } from "../../db/tenant.ts"
import { ArrivedAt } from "../../http/ArrivedAt.ts"
import { orMade } from "../../http/failures.ts"
import { retryingDeadlocks } from "../../postgres/deadlock.ts"
import { ProcessLease } from "../../process/ProcessLease.ts"
import type { OutsideRail } from "../../rails/rail/Rail.ts"
import { created } from "../../runtime/outcome.ts"
import { checkCode, codesFor, MAX_ATTEMPTS } from "../payment_page/checks.ts"
import { methodOf, withEmail } from "../payment_page/hosted.ts"
import { pageWaitingLimit, paymentInWords, waitForCharge } from "../payment_page/settled.ts"
import type { Submission } from "../payment_page/submission.ts"
import { depositedKobo, type InstalmentPlanRow, instalmentPlans } from "./plan.ts"
import { transitionAll } from "./transition.ts"

type Started =
  /** This form was submitted before, for this payment. */
  | { readonly kind: "again"; readonly chargeId: string }
  | { readonly kind: "too_late"; readonly refusal: Problem }
  | { readonly kind: "under_way"; readonly chargeId: string }
  | { readonly kind: "started"; readonly charge: ChargeRow; readonly plan: InstalmentPlanRow; readonly now: number }

/** The result of a submission. */
export type Paid =
  /** `plan`: as last read. */
  | { readonly kind: "tried"; readonly charge: ChargeRow; readonly plan: InstalmentPlanRow }
  | { readonly kind: "too_late"; readonly refusal: Problem }
  /** The payment of another request is still in progress after the longest wait. */
  | { readonly kind: "busy"; readonly charge: ChargeRow }

/** Explains why a plan accepts no payment; undefined: it accepts one. */
export const closedBecause = ({ state, status }: InstalmentPlanRow): Problem | undefined =>
  isSaving(state)
    ? undefined
    : problem(
        "savings_plan_state_invalid",
        status === "cancelled"
          ? "The plan is cancelled: it takes no more payments."
          : `The plan is ${status}: everything is paid.`,
      )

/** The plan was cancelled or fully paid while this payment was in progress. */
export const cameTooLate = ({ status }: InstalmentPlanRow, charge: ChargeRow): Problem =>
  problem("savings_plan_state_invalid", `${paymentInWords(charge)}: the plan is ${status}.`)

const TOO_MANY_FAILED = problem(
  "too_many_attempts",
  `${MAX_ATTEMPTS} payments failed on this page within a day: it takes payments again a day later.`,
)

/** The amount due has changed since the buyer decided to pay. */
const amountChanged = (plan: InstalmentPlanRow): Problem => {
  const due = dueKobo(plan.mode, instalmentPlans.contextOf(plan))
  return problem(
    "amount_changed",
    `A payment was made meanwhile: ${formatKobo(depositedKobo(plan))} is paid in all. The next amount due is ${formatKobo(due)}: submit it once more to pay it as well.`,
    "amount",
  )
}

/** Returns the amount to pay (kobo): the chosen one within the limits, else the amount due (decision L8). */
const amountOf = (plan: InstalmentPlanRow, chosenKobo: number | null) => {
  const savings = instalmentPlans.contextOf(plan)
  const [least, most] = [dueKobo(plan.mode, savings), mostKobo(savings)]
  const isFree = plan.mode === "flexible" && missedKobo(savings) === 0
  if (chosenKobo === null)
    return isFree
      ? Effect.fail(problem("parameter_missing", "amount is needed: how many naira to pay.", "amount"))
      : Effect.succeed(least)
  if (chosenKobo > most)
    return Effect.fail(invalid("amount", `Pay at most ${formatKobo(most)}: no more is outstanding.`))
  return chosenKobo < least
    ? Effect.fail(invalid("amount", `Pay at least ${formatKobo(least)}: so much is due.`))
    : Effect.succeed(chosenKobo)
}

/** Returns the lines of a payment, by the rules that distribute it over the plan. */
const linesOf = (plan: InstalmentPlanRow, amountKobo: number): ReadonlyArray<Line> => {
  const savings = instalmentPlans.contextOf(plan)
  const feesKobo = Math.min(Math.max(amountKobo - missedKobo(savings), 0), plan.pending_fee_kobo)
  const line = (description: string, amount: number): Line => ({
    type: "installment",
    description,
    quantity: 1,
    unit_amount: amount,
    amount,
  })
  return [line(plan.product_name, amountKobo - feesKobo), line("Late fees", feesKobo)].filter(
    ({ amount }) => amount > 0,
  )
}

/**
 * Counts the payments of a plan that failed within the last day of its clock: too many is card testing. Also returns the next attempt
 * number: consecutive failures are attempts at one payment (decision E4).
 */
const readAttempts = Effect.fnUntraced(function* (plan: InstalmentPlanRow, now: number) {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<{ failed: number; attempt: number }>`
    SELECT count(*) FILTER (WHERE status = 'failed' AND created_at > ${PgTypes.timestamptz(now - DAY_MS)}) AS failed,
      1 + coalesce((array_agg(CASE status WHEN 'failed' THEN attempt_number ELSE 0 END ORDER BY id DESC))[1], 0) AS attempt
    FROM charge WHERE ${ofTenant(sql, plan)} AND page_id = ${plan.id}`
  return row!
})

/** Finds the payment that a form with this number was submitted for before. */
const findSame = Effect.fnUntraced(function* (plan: InstalmentPlanRow, number: string | null) {
  if (number === null) return undefined
  const sql = yield* SqlClient.SqlClient
  const [same] = yield* sql<{ id: string }>`
    SELECT id FROM charge WHERE ${ofTenant(sql, plan)} AND page_id = ${plan.id} AND submission = ${number} ORDER BY id LIMIT 1`
  return same?.id
})

/** Returns the chosen payment method and its rail, else the rail's own page. */
const wayOf = Effect.fnUntraced(function* (
  customer: CustomerRow,
  methodId: string | null,
  hostedBy: OutsideRail | null,
) {
  if (methodId === null) return { rail: hostedBy!, hosted: true, payment_method: null }
  const { account_id, livemode, id } = customer
  const found = yield* findPaymentMethods([{ account_id, livemode, id, method: methodId }])
  const method = found.get(methodKey(id, methodId))!
  return { rail: method.rail, hosted: false, payment_method: summaryOf(method) }
})

interface Claimed {
  readonly plan: InstalmentPlanRow
  readonly customer: CustomerRow
  readonly submitted: Submission
  readonly hostedBy: OutsideRail | null
  readonly now: number
}

/** Commits a payment of a plan that has none in progress. The payment is attempted after the commit. */
const claim = Effect.fnUntraced(function* ({ plan, customer, submitted, hostedBy, now }: Claimed) {
  const amountKobo = yield* amountOf(plan, submitted.amountKobo)
  yield* checkCode(submitted, amountKobo)
  const { failed, attempt } = yield* readAttempts(plan, now)
  if (failed >= MAX_ATTEMPTS) return yield* TOO_MANY_FAILED
  const methodId = yield* methodOf(customer, submitted, now)
  const updated = yield* withEmail(customer, submitted.email)
  const { id: runner } = yield* ProcessLease
  const charge = newCharge({
    ...tenantOf(plan),
    ...(yield* wayOf(updated, methodId, hostedBy)),
    customer_id: customer.id,
    subscription_id: null,
    test_clock_id: plan.test_clock_id,
    bill_no: null,
    attempt_number: attempt,
    amount_kobo: amountKobo,
    period_start_at: null,
    period_end_at: null,
    lines: linesOf(plan, amountKobo),
    purpose: "instalment",
    payment_method_named: methodId !== null,
    retry_of: null,
    page_id: plan.id,
    submission: submitted.number,
    sent_at: now,
    runner,
    description: plan.product_name,
    metadata: {},
    created_at: now,
  })
  const command = { row: plan, event: { type: "payment.begun" as const, at: now, chargeId: charge.id } }
  const transitioned = yield* transitionAll([command], {
    nowOf: sameForAll(now),
    notes: new Map([[plan.id, { charge_id: charge.id }]]),
  })
  yield* commitAttempts(
    [...transitioned.map(({ outcome }) => outcome), created(chargeLifecycle, undefined, charge)],
    [charge],
  )
  return { kind: "started", charge, plan: transitioned[0]?.row ?? plan, now } satisfies Started
})

/** Runs the first transaction of a submission. `arrivedAt`: by the wall clock. */
const begin = Effect.fnUntraced(function* (
  found: InstalmentPlanRow,
  submitted: Submission,
  hostedBy: OutsideRail | null,
  arrivedAt: number,
) {
  const now = yield* clockTime(found, found.test_clock_id)
  const customer = yield* customers.lockOne(found, found.customer_id, "NO KEY UPDATE")
  const plan = yield* instalmentPlans.lockOne(found, found.id)
  const same = yield* findSame(plan, submitted.number)
  if (same !== undefined) return { kind: "again", chargeId: same } satisfies Started
  const closed = closedBecause(plan)
  if (closed !== undefined) return { kind: "too_late", refusal: closed } satisfies Started
  if (plan.paying_charge_id !== null) return { kind: "under_way", chargeId: plan.paying_charge_id } satisfies Started
  // A submission sent before the newest payment settled was meant for what that payment has paid.
  const wasPaid = plan.charge_settled_at !== null && plan.charge_settled_at >= arrivedAt
  const seenKobo = submitted.seenKobo ?? depositedKobo(found)
  if (wasPaid || seenKobo !== depositedKobo(plan)) return yield* amountChanged(plan)
  return yield* claim({ plan, customer, submitted, hostedBy, now })
})

/** Submits the payment page of a plan; returns the result, as far as it is known. */
export const submitInstalment = Effect.fn("instalment.submit")(function* (
  found: InstalmentPlanRow,
  submitted: Submission,
  hostedBy: OutsideRail | null,
) {
  const { reading, writing } = yield* TenantDatabase
  const tenant = tenantOf(found)
  const startedAt = performance.now()
  const arrivedAt = currentTime() - (startedAt - ((yield* ArrivedAt) ?? startedAt))
  const limit = pageWaitingLimit()
  const tried = (id: string, plan: InstalmentPlanRow) =>
    Effect.map(waitForCharge(tenant, id, limit), (charge): Paid => ({ kind: "tried", charge, plan }))
  for (;;) {
    const started: Started = yield* retryingDeadlocks(writing(tenant, begin(found, submitted, hostedBy, arrivedAt)))
    switch (started.kind) {
      case "too_late":
        return started satisfies Paid
      case "again":
        return yield* tried(started.chargeId, found)
      case "under_way": {
        const charge = yield* waitForCharge(tenant, started.chargeId, limit)
        if (charge.status === "pending") return { kind: "busy", charge } satisfies Paid
        // After a success the plan has changed, so the amount due has too. After a failure this submission may try.
        const plan = yield* reading(tenant, instalmentPlans.get(tenant, found.id))
        if (charge.status === "succeeded" && closedBecause(plan) === undefined)
          return { kind: "too_late", refusal: amountChanged(plan) } satisfies Paid
        break
      }
      case "started": {
        const { charge, now, plan } = started
        const finished = Effect.andThen(
          Effect.flatMap(Payments, (payments) => payments.collect([charge], now, codesFor([charge], submitted))),
          tried(charge.id, plan),
        )
        return yield* orMade(finished, (): Paid => ({ kind: "tried", charge, plan }))
      }
    }
  }
})
