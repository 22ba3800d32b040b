/** Makes subscriptions a payment subject: applies rails' answers to them, and retries overdue bills (decision E16). */
import { Effect } from "effect"
import { problem } from "../../base/problem.ts"
import { type Ref, refOf, type Tenant } from "../../db/tenant.ts"
import { PIPELINED } from "../../postgres/pipelining.ts"
import { isRetryable } from "../../rails/rail/PaymentRail.ts"
import { advance } from "../../runtime/lifecycle.ts"
import { type ChargeRow, isHostedByLink, isOfCheckout } from "../charge/charge.ts"
import type { Answered, PaymentSubject, Settle } from "../payments/PaymentSubjects.ts"
import { apply, lockWithMethod } from "./apply.ts"
import { type SubscriptionRow, subscriptionLifecycle, subscriptions } from "./subscription.ts"
import { refuseWhileCharging } from "./subscriptions.ts"
import { policyOf, type RulesOfPlans, readRulesOf, readTerms, type Terms, unitFacts } from "./terms.ts"
import { outcomesOf, type SubscriptionCommand, type TransitionServices } from "./transition.ts"

/** The subscriptions that charges are for. */
export const refsOf = (charges: ReadonlyArray<ChargeRow>): ReadonlyArray<Ref> =>
  charges.flatMap((charge) =>
    charge.subscription_id === null ? [] : [{ ...refOf(charge), id: charge.subscription_id }],
  )

/** Returns the event that an answer means to the charge's subscription, if any. */
export const eventOf = (
  subscription: SubscriptionRow,
  { before, after, at, methodId, retryNotBefore }: Answered,
  terms: Terms | undefined,
): SubscriptionCommand["event"] | undefined => {
  if (before.status !== "pending") return undefined
  if (after.status === "succeeded")
    return { type: "charge.succeeded", at, ...(methodId === undefined ? {} : { methodId }) }
  if (after.status === "pending") return subscription.state === "opening" ? { type: "charge.unsettled", at } : undefined
  const isLate = subscription.bill !== null && before.created_at > subscription.bill.attemptedAt
  return {
    type: "charge.failed",
    at,
    retryable: isRetryable(after.failure_code),
    policy: policyOf(terms!),
    ...(subscription.cancel_at_period_end ? unitFacts(subscription, terms!) : {}),
    ...(isLate ? { attemptedAt: before.created_at } : {}),
    ...(retryNotBefore === undefined ? {} : { retryNotBefore }),
  }
}

/** Moves locked subscriptions by the rail's answers to their charges. */
const settleWith = (locked: ReadonlyArray<SubscriptionRow>, rules: RulesOfPlans): Settle<TransitionServices> =>
  Effect.fnUntraced(function* (all, nowOf) {
    const rows = new Map(locked.map((row) => [row.id, row]))
    const terms = yield* readTerms(refsOf(all.flatMap(({ after }) => (after.status === "failed" ? [after] : []))))
    const answered = new Map<string, Answered>()
    const commands = all.flatMap((one): ReadonlyArray<SubscriptionCommand> => {
      const row = rows.get(one.after.subscription_id!)
      const event = row === undefined ? undefined : eventOf(row, one, terms.get(row.id))
      if (row === undefined || event === undefined) return []
      answered.set(row.id, one)
      return [{ row, event }]
    })
    const transitions = advance(subscriptionLifecycle, commands)
    const { outcomes, attempts, settled } = yield* outcomesOf(transitions, { nowOf, terms, rules, answered })
    return { charges: new Map(settled.map((row) => [row.id, { row }])), outcomes, attempts }
  })

/** Locks subscriptions by one statement, and reads in the same pipeline the facts for settling their charges. */
export const lockToSettle = (refs: ReadonlyArray<Ref>) =>
  Effect.map(Effect.all([subscriptions.lock(refs), readRulesOf(refs)], PIPELINED), ([rows, rules]) => ({
    rows,
    rules,
    settle: settleWith(rows, rules),
  }))

/** Commits a further attempt at the bill of `charge`, which is its newest charge and failed. Uses up no automatic retry. */
export const retryBill = Effect.fn("subscription.retry")(function* (
  tenant: Tenant,
  charge: ChargeRow,
  named: string | undefined,
) {
  const { method, ...locked } = yield* lockWithMethod(tenant, charge.subscription_id!, named)
  const { row, now } = locked
  yield* refuseWhileCharging(row)
  if (row.dunning === null)
    return yield* problem(
      "charge_not_retryable",
      `The subscription ${row.id} is ${row.status} and has no overdue payment.`,
    )
  if (row.latest_charge_id !== charge.id)
    return yield* problem(
      "charge_not_retryable",
      `Only the newest charge of the subscription can be retried: ${row.latest_charge_id}.`,
    )
  const [attempt] = yield* apply(locked, { type: "retry", at: now, methodId: method?.id ?? null })
  return { charge: attempt!, now }
})

export const subscriptionSubject = Effect.gen(function* () {
  const context = yield* Effect.context<TransitionServices>()
  return {
    handles: (charge) => charge.subscription_id !== null && !isOfCheckout(charge) && !isHostedByLink(charge),
    locksAtOnce: true,
    lock: (charges) =>
      Effect.map(
        lockToSettle(refsOf(charges)),
        ({ settle }): Settle =>
          (answered, nowOf) =>
            Effect.provideContext(settle(answered, nowOf), context),
      ),
    retry: (tenant, charge, named) => Effect.provideContext(retryBill(tenant, charge, named), context),
  } satisfies PaymentSubject
})
