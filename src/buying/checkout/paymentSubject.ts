/** The payment subject of checkout sessions: the rail's result moves the session and its subscription. */
import { Effect } from "effect"
import type { CheckoutEvent } from "../../../machines/checkout.ts"
import type { NowOf } from "../../base/time.ts"
import { type ChargeRow, isOfCheckout } from "../../billing/charge/charge.ts"
import { customers } from "../../billing/customer/customer.ts"
import type { Answered, PaymentSubject, Settlement } from "../../billing/payments/PaymentSubjects.ts"
import { lockToSettle, retryBill } from "../../billing/subscription/paymentSubject.ts"
import { subscriptionLifecycle } from "../../billing/subscription/subscription.ts"
import { readTerms } from "../../billing/subscription/terms.ts"
import { outcomesOf, type TransitionServices } from "../../billing/subscription/transition.ts"
import { refOf } from "../../db/tenant.ts"
import { advance } from "../../runtime/lifecycle.ts"
import type { Outcome } from "../../runtime/outcome.ts"
import { checkoutLifecycle, type SessionRow } from "./checkout.ts"
import { subscriptionRefs } from "./closing.ts"
import { type Completion, complete, lockSessions, siblingsOf, type Wanted } from "./completion.ts"
import { sessionOutcome } from "./outcome.ts"

/**
 * Returns the session's event for a rail's answer; undefined: the answer decided nothing. A setup without a reusable payment method counts
 * as declined.
 */
const eventOf = ({ mode }: SessionRow, { before, after, at, methodId }: Answered): CheckoutEvent | undefined => {
  if (before.status !== "pending" || after.status === "pending") return undefined
  const isDone = after.status === "succeeded" && !(mode === "setup" && methodId === null)
  return isDone ? { type: "complete", at } : { type: "decline", at }
}

const lockAll = Effect.fnUntraced(function* (charges: ReadonlyArray<ChargeRow>) {
  yield* customers.lock(
    charges.map(({ account_id, livemode, customer_id: id }) => ({ account_id, livemode, id })),
    "NO KEY UPDATE",
  )
  const wanted = charges.map(
    ({ account_id, livemode, customer_id, page_id }): Wanted => ({ account_id, livemode, id: page_id!, customer_id }),
  )
  const { rows: locked } = yield* lockSessions(wanted)
  const { rows, settle } = yield* lockToSettle(subscriptionRefs([...locked.values()]))
  return { sessions: locked, subscriptionRows: rows, settle }
})

type Locked = Effect.Success<ReturnType<typeof lockAll>>

/** Applies answers to their sessions; returns the outcomes, and the completions for customers. */
const settleSessions = ({ sessions }: Locked, all: ReadonlyArray<Answered>, nowOf: NowOf) => {
  const byCustomer = Map.groupBy(sessions.values(), ({ customer_id }) => customer_id)
  const outcomes: Array<Outcome> = []
  const completions: Array<Completion> = []
  for (const answered of all) {
    const row: SessionRow | undefined = sessions.get(answered.after.page_id!)
    const event = row === undefined ? undefined : eventOf(row, answered)
    if (row === undefined || event === undefined) continue
    const [transition] = advance(checkoutLifecycle, [{ row, event }])
    if (transition === undefined) continue
    const now = nowOf(answered.after)
    // For a payment on the rail's page, the method is known only now.
    const { methodId = row.payment_method_id } = answered
    outcomes.push(sessionOutcome(transition, { payment_method_id: methodId }, now))
    if (transition.to !== "completed") continue
    const siblings = siblingsOf(row, byCustomer.get(row.customer_id) ?? [])
    const customerId = answered.after.customer_id
    const submittedAt = answered.after.created_at
    completions.push({ customerId, session: row, methodId, siblings, submittedAt, now })
  }
  return { outcomes, completions }
}

/** Starts the trials whose verification charge succeeded (decision P8). */
const startTrials = Effect.fnUntraced(function* (locked: Locked, all: ReadonlyArray<Answered>, nowOf: NowOf) {
  const rows = new Map(locked.subscriptionRows.map((row) => [row.id, row]))
  const commands = all.flatMap(({ before, after, at, methodId = null }) => {
    const row = rows.get(locked.sessions.get(after.page_id!)?.subscription_id ?? "")
    const isPaid = before.status === "pending" && after.status === "succeeded" && after.purpose === "verification"
    return row === undefined || !isPaid ? [] : [{ row, event: { type: "check_out" as const, at, methodId } }]
  })
  const terms = yield* readTerms(commands.map(({ row }) => refOf(row)))
  return (yield* outcomesOf(advance(subscriptionLifecycle, commands), { nowOf, terms })).outcomes
})

export const checkoutSubject = Effect.map(
  Effect.context<TransitionServices>(),
  (context): PaymentSubject => ({
    handles: isOfCheckout,
    locksAtOnce: false,
    lock: (charges) =>
      Effect.map(lockAll(charges), (locked) => {
        const { settle } = locked
        return (answered, nowOf) =>
          Effect.gen(function* () {
            const { outcomes, completions } = settleSessions(locked, answered, nowOf)
            const settlement = yield* settle(
              answered.filter(({ after }) => after.purpose === "sale"),
              nowOf,
            )
            const trials = yield* startTrials(locked, answered, nowOf)
            return {
              ...settlement,
              outcomes: [...settlement.outcomes, ...trials, ...outcomes],
              afterwards: Effect.provideContext(complete(completions), context),
            } satisfies Settlement
          }).pipe(Effect.provideContext(context))
      }),
    retry: (tenant, charge, named) => Effect.provideContext(retryBill(tenant, charge, named), context),
  }),
)
