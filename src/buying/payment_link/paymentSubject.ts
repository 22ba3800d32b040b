/**
 * The payment subject of payment links. It settles what buyers pay on the rail's own page: a bill, or a verification charge (decisions F5,
 * P8). Then it uses the method that the rail saved.
 */
import { Effect } from "effect"
import { isCharging } from "../../../machines/status.ts"
import { type NowOf, sameForAll } from "../../base/time.ts"
import { type ChargeRow, isHostedByLink } from "../../billing/charge/charge.ts"
import { type CustomerRow, customers } from "../../billing/customer/customer.ts"
import type { Answered, PaymentSubject, Settlement } from "../../billing/payments/PaymentSubjects.ts"
import type { Page } from "../../billing/subscription/outcome.ts"
import { lockToSettle, refsOf, retryBill } from "../../billing/subscription/paymentSubject.ts"
import { type SubscriptionRow, subscriptions } from "../../billing/subscription/subscription.ts"
import { readTerms } from "../../billing/subscription/terms.ts"
import { type TransitionServices, transition } from "../../billing/subscription/transition.ts"
import { type Ref, refOf } from "../../db/tenant.ts"
import { type NudgeRow, nudges } from "../../outbound/nudge/nudge.ts"
import { isDue, lockDue } from "../payment_page/amountDue.ts"
import { applySavedMethod } from "./saveMethod.ts"

const customerOf = (charge: ChargeRow): Ref => ({ ...refOf(charge), id: charge.customer_id })

const lockAll = Effect.fnUntraced(function* (charges: ReadonlyArray<ChargeRow>) {
  yield* customers.lock(charges.map(customerOf), "NO KEY UPDATE")
  return yield* lockToSettle(refsOf(charges))
})

interface SavedByLink {
  readonly charge: ChargeRow
  readonly nudge: NudgeRow
  readonly customer: CustomerRow
  readonly methodId: string
  readonly now: number
}

/** Pays the other bills that the buyer saw, if the link is about all of them: the bills due when this payment started. */
const payOthers = Effect.fnUntraced(function* ({ charge, nudge, customer, methodId, now }: SavedByLink) {
  if (nudge.subscription_id !== null) return []
  const isShown = (row: SubscriptionRow) => isDue(row) && row.dunning!.firstFailedAt <= charge.created_at
  const due = (yield* lockDue(customer, [])).filter((row) => isShown(row) && !isCharging(row.state))
  const page: Page = { id: nudge.id, hostedBy: null, submission: charge.submission }
  return yield* transition(
    due.map((row) => ({ row, event: { type: "retry" as const, at: now, methodId } })),
    {
      nowOf: sameForAll(now),
      terms: yield* readTerms(due.map(refOf)),
      pages: new Map(due.map(({ id }) => [id, page])),
    },
  )
})

/** Continues with the saved method: after a bill, pays the link's other bills; after a verification charge, applies it as {@link applySavedMethod} does. */
const useSaved = Effect.fnUntraced(function* (saved: SavedByLink) {
  const { charge, nudge, customer, methodId, now } = saved
  if (charge.purpose === "sale") return yield* payOthers(saved)
  const [own] =
    nudge.subscription_id === null ? [] : yield* subscriptions.lock([{ ...refOf(nudge), id: nudge.subscription_id }])
  return yield* applySavedMethod({ own, customer, methodId, now })
})

const afterPayments = Effect.fnUntraced(function* (answered: ReadonlyArray<Answered>, nowOf: NowOf) {
  const attempts: Array<ChargeRow> = []
  for (const { after: charge, methodId } of answered) {
    if (methodId == null) continue
    const [nudge] = (yield* nudges.find(charge, [charge.page_id!])).values()
    const [customer] = yield* customers.lock([customerOf(charge)], "NO KEY UPDATE")
    if (nudge !== undefined && customer !== undefined)
      attempts.push(...(yield* useSaved({ charge, nudge, customer, methodId, now: nowOf(charge) })))
  }
  return attempts
})

export const paymentLinkSubject = Effect.map(
  Effect.context<TransitionServices>(),
  (context): PaymentSubject => ({
    handles: isHostedByLink,
    locksAtOnce: false,
    lock: (charges) =>
      Effect.map(
        lockAll(charges),
        ({ settle }) =>
          (answered, nowOf) =>
            Effect.gen(function* () {
              const bills = answered.filter(({ after }) => after.purpose === "sale")
              return {
                ...(yield* settle(bills, nowOf)),
                afterwards: Effect.provideContext(afterPayments(answered, nowOf), context),
              } satisfies Settlement
            }).pipe(Effect.provideContext(context)),
      ),
    retry: (tenant, charge, named) => Effect.provideContext(retryBill(tenant, charge, named), context),
  }),
)
