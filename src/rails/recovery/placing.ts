/**
 * Enters charges found at their rail, in the running transaction (decision F9). The subscription, session or plan that each paid makes the
 * same transition as in the lost request or timer. Nothing is sent: the rail has the charges.
 */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { isId } from "../../base/ids.ts"
import { sameForAll } from "../../base/time.ts"
import { type ChargeRow, chargeLifecycle } from "../../billing/charge/charge.ts"
import { findPaymentMethods, methodKey, summaryOf } from "../../billing/payment_method/paymentMethods.ts"
import { subscriptionLifecycle, subscriptions } from "../../billing/subscription/subscription.ts"
import { readTerms } from "../../billing/subscription/terms.ts"
import { outcomesOf } from "../../billing/subscription/transition.ts"
import { checkoutLifecycle, type SessionRow } from "../../buying/checkout/checkout.ts"
import { lockSessions } from "../../buying/checkout/completion.ts"
import { sessionOutcome } from "../../buying/checkout/outcome.ts"
import { instalmentPlans } from "../../buying/instalment/plan.ts"
import { transitionAll } from "../../buying/instalment/transition.ts"
import { ofTenant, refOf, tenantOf } from "../../db/tenant.ts"
import { commit } from "../../runtime/commit.ts"
import { advance } from "../../runtime/lifecycle.ts"
import { created, type Outcome } from "../../runtime/outcome.ts"
import { billOf, chargeOf, type FoundTransaction, type Reason, withinPeriod } from "./found.ts"

/** An entered charge, and when its rail settled it (ms since the epoch). */
export interface EnteredCharge {
  readonly charge: ChargeRow
  readonly settledAt: number
}

const attachedTo = Effect.fnUntraced(function* ({ described: { customer, method }, ...found }: FoundTransaction) {
  if (method === null) return undefined
  const attached = (yield* findPaymentMethods([{ ...tenantOf(found), id: customer, method }])).get(
    methodKey(customer, method),
  )
  return attached === undefined ? undefined : summaryOf(attached)
})

/** The reason if an object that a transaction needs is not in the database. */
const missing = (noun: string, id: string): Reason =>
  `${noun} ${id} is not in the database: it was made after the backup`

/** Returns the outcomes of paying on the charge's checkout session (none if it has none), or the reason why it cannot be entered. */
const sessionPaying = Effect.fnUntraced(function* (charge: ChargeRow) {
  const { page_id: id, customer_id } = charge
  if (id === null || !isId("checkout_session", id)) return { outcomes: [] as ReadonlyArray<Outcome> }
  const { rows } = yield* lockSessions([{ ...tenantOf(charge), id, customer_id }])
  const session: SessionRow | undefined = rows.get(id)
  if (session === undefined) return { reason: missing("checkout session", id) }
  if (session.state === "open.paying") return { reason: `another payment is under way on checkout session ${id}` }
  const notes = {
    customer_id,
    charge_id: charge.id,
    payment_method_id: charge.payment_method?.id ?? null,
    submission: charge.submission,
  }
  const paying = advance(checkoutLifecycle, [{ row: session, event: { type: "pay", at: charge.created_at } }])
  return { outcomes: paying.map((transition) => sessionOutcome(transition, notes, charge.created_at)) }
})

/** Returns the ID of the failed charge that it retries, if that is in the database and has no other retry. */
const retriedCharge = Effect.fnUntraced(function* (found: FoundTransaction) {
  const { retry_of: id } = found.described
  if (id === null) return null
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql`
    SELECT FROM charge f WHERE ${ofTenant(sql, found)} AND id = ${id} AND status = 'failed'
      AND NOT EXISTS (SELECT FROM charge r WHERE (r.account_id, r.livemode, r.retry_of) = (f.account_id, f.livemode, f.id))`
  return row === undefined ? null : id
})

/** Enters an attempt at a subscription's bill. */
const placeAttempt = Effect.fnUntraced(function* (found: FoundTransaction, id: string) {
  const attached = yield* attachedTo(found)
  const [row] = yield* subscriptions.lock([{ ...tenantOf(found), id }])
  if (row === undefined) return missing("subscription", id)
  if (row.customer_id !== found.described.customer) return `subscription ${id} is of another customer`
  const bill = billOf(row, found)
  if (typeof bill === "string") return bill
  const adjusted = withinPeriod(found, bill)
  const charge = chargeOf(adjusted, attached, bill, null)
  const paying = yield* sessionPaying(charge)
  if (paying.reason !== undefined) return paying.reason
  const transitions = advance(subscriptionLifecycle, [
    { row, event: { type: "charge.found", at: adjusted.madeAt, bill } },
  ])
  if (row.state === "cancelled") yield* commit([...paying.outcomes, created(chargeLifecycle, undefined, charge)])
  else if (transitions.length === 0)
    return `attempt ${bill.attempt} at bill ${bill.no} does not follow from the current state of ${id} (${row.status}, ${row.bills_made} bills made)`
  else {
    const { outcomes } = yield* outcomesOf(transitions, {
      nowOf: sameForAll(adjusted.madeAt),
      terms: yield* readTerms([refOf(row)]),
      found: new Map([[id, charge]]),
    })
    yield* commit([...paying.outcomes, ...outcomes])
  }
  return { charge, settledAt: adjusted.settledAt } satisfies EnteredCharge
})

/** Enters a payment of an instalment plan. */
const placeInstalment = Effect.fnUntraced(function* (found: FoundTransaction, planId: string) {
  const charge = chargeOf(found, yield* attachedTo(found), null, null)
  const [plan] = yield* instalmentPlans.lock([{ ...tenantOf(found), id: planId }])
  if (plan === undefined) return missing("instalment plan", planId)
  if (plan.customer_id !== charge.customer_id) return `instalment plan ${planId} is of another customer`
  const at = charge.created_at
  const transitioned = yield* transitionAll(
    [{ row: plan, event: { type: "payment.begun", at, chargeId: charge.id } }],
    {
      nowOf: sameForAll(at),
      notes: new Map([[planId, { charge_id: charge.id }]]),
    },
  )
  if (transitioned.length === 0)
    return `instalment plan ${planId} takes no payment in its current status (${plan.status})`
  yield* commit([...transitioned.map(({ outcome }) => outcome), created(chargeLifecycle, undefined, charge)])
  return { charge, settledAt: found.settledAt } satisfies EnteredCharge
})

/** Enters a one-off charge, or one that saves a payment method. */
const placeAlone = Effect.fnUntraced(function* (found: FoundTransaction) {
  const charge = chargeOf(found, yield* attachedTo(found), null, yield* retriedCharge(found))
  const paying = yield* sessionPaying(charge)
  if (paying.reason !== undefined) return paying.reason
  yield* commit([...paying.outcomes, created(chargeLifecycle, undefined, charge)])
  return { charge, settledAt: found.settledAt } satisfies EnteredCharge
})

/** Enters a transaction as the pending charge that it was. Returns the reason if it cannot be entered. */
export const place = (
  found: FoundTransaction,
): Effect.Effect<EnteredCharge | Reason, Effect.Error<ReturnType<typeof placeAttempt>>, PlaceServices> => {
  const { subscription, page } = found.described
  const { purpose } = chargeOf(found, undefined, null, null)
  if (subscription !== null) return placeAttempt(found, subscription)
  return purpose === "instalment" ? placeInstalment(found, page!) : placeAlone(found)
}

type PlaceServices =
  | Effect.Services<ReturnType<typeof placeAttempt>>
  | Effect.Services<ReturnType<typeof placeInstalment>>
  | Effect.Services<ReturnType<typeof placeAlone>>
