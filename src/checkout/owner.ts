/** Checkout sessions as the owners of the charges on their pages: the rail's word moves the session and its subscription. */
import { Effect } from "effect"
import type { CheckoutEvent } from "../../machines/checkout.ts"
import { type ChargeRow, isOfCheckout } from "../charge/charge.ts"
import type { Answered, ChargeOwner, Settlement } from "../collecting/ChargeOwners.ts"
import { customers } from "../customer/customer.ts"
import type { Nudging } from "../nudge/Nudging.ts"
import type { Runner } from "../process/Runner.ts"
import type { PaymentRail } from "../rail/PaymentRail.ts"
import { advance } from "../runtime/lifecycle.ts"
import type { Outcome } from "../runtime/outcome.ts"
import { retryBill, settleWith } from "../subscription/owner.ts"
import { subscriptions } from "../subscription/subscription.ts"
import { checkoutLifecycle, type SessionRow } from "./checkout.ts"
import { subscriptionRefs } from "./closing.ts"
import { completion, lockSessions, siblingsOf, type Wanted } from "./completion.ts"
import { sessionOutcome } from "./outcome.ts"

/** What an answer means to the session; undefined where nothing was decided by it. */
const eventOf = ({ before, after, at }: Answered): CheckoutEvent | undefined => {
  if (before.status === after.status) return undefined
  return after.status === "succeeded" ? { type: "complete", at } : { type: "decline", at }
}

const lockAll = Effect.fnUntraced(function* (of: ReadonlyArray<ChargeRow>) {
  const customerRows = yield* customers.lock(
    of.map(({ account_id, livemode, customer_id: id }) => ({ account_id, livemode, id })),
    "NO KEY UPDATE",
  )
  const wanted = of.map(
    ({ account_id, livemode, customer_id, page_id }): Wanted => ({ account_id, livemode, id: page_id!, customer_id }),
  )
  const locked = yield* lockSessions(wanted)
  const subscriptionRows = yield* subscriptions.lock(subscriptionRefs([...locked.values()]))
  return { customers: new Map(customerRows.map((row) => [row.id, row])), sessions: locked, subscriptionRows }
})

type Locked = Effect.Success<ReturnType<typeof lockAll>>

/** Moves sessions by what the rail said of their charges; one that is completed changes its customer, too. */
const settleSessions = Effect.fnUntraced(function* (
  { customers, sessions }: Locked,
  all: ReadonlyArray<Answered>,
  now: number,
) {
  const outcomes: Array<Outcome> = []
  const attempts: Array<ChargeRow> = []
  for (const answered of all) {
    const row: SessionRow | undefined = sessions.get(answered.after.page_id!)
    const event = eventOf(answered)
    if (row === undefined || event === undefined) continue
    const [transition] = advance(checkoutLifecycle, [{ row, event }])
    if (transition === undefined) continue
    outcomes.push(sessionOutcome(transition, {}, now))
    const customer = customers.get(answered.after.customer_id)
    if (transition.to !== "completed" || customer === undefined) continue
    const siblings = siblingsOf(row, sessions)
    const completed = yield* completion({ customer, session: row, methodId: row.payment_method_id!, siblings, now })
    outcomes.push(...completed.outcomes)
    attempts.push(...completed.attempts)
  }
  return { outcomes, attempts }
})

export const checkoutOwner = Effect.map(
  Effect.context<Nudging | PaymentRail | Runner>(),
  (context): ChargeOwner => ({
    owns: isOfCheckout,
    lock: (charges) =>
      Effect.map(lockAll(charges), (locked) => {
        const settle = settleWith(locked.subscriptionRows)
        return (answered, now) =>
          Effect.gen(function* () {
            const its = yield* settleSessions(locked, answered, now)
            const settlement = yield* settle(answered, now)
            return {
              ...settlement,
              outcomes: [...settlement.outcomes, ...its.outcomes],
              attempts: [...settlement.attempts, ...its.attempts],
            } satisfies Settlement
          }).pipe(Effect.provideContext(context))
      }),
    retry: (tenant, charge, named) => Effect.provideContext(retryBill(tenant, charge, named), context),
  }),
)
