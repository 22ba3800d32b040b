/**
 * Submits the page behind a payment link (decisions E8, E16, F5): tries the chosen method on the bills due; if none is due, saves the
 * method. The subscription's row lock claims the payment, as for every payment of its bills: of simultaneous submissions one pays, and the
 * others get the result.
 */
import { Effect } from "effect"
import { type Problem, problem } from "../../base/problem.ts"
import { formatInstant, sameForAll } from "../../base/time.ts"
import { type ChargeRow, charges } from "../../billing/charge/charge.ts"
import { clockTime } from "../../billing/clock/clocks.ts"
import { type CustomerRow, customers } from "../../billing/customer/customer.ts"
import { Payments } from "../../billing/payments/Payments.ts"
import type { Page } from "../../billing/subscription/outcome.ts"
import type { SubscriptionRow } from "../../billing/subscription/subscription.ts"
import { readTerms } from "../../billing/subscription/terms.ts"
import { transition } from "../../billing/subscription/transition.ts"
import { TenantDatabase } from "../../db/TenantDatabase.ts"
import { refOf, tenantOf } from "../../db/tenant.ts"
import { orMade } from "../../http/failures.ts"
import type { NudgeRow } from "../../outbound/nudge/nudge.ts"
import { retryingDeadlocks } from "../../postgres/deadlock.ts"
import type { OutsideRail } from "../../rails/rail/Rail.ts"
import { lockDue } from "../payment_page/amountDue.ts"
import { checkCode, checkShown, codesFor, MAX_ATTEMPTS, tooManyAttempts } from "../payment_page/checks.ts"
import { methodOf, verify, withEmail } from "../payment_page/hosted.ts"
import { pageWaitingLimit, paymentInWords, waitForCharge } from "../payment_page/settled.ts"
import type { Submission } from "../payment_page/submission.ts"
import { readTries, triesOf } from "./read.ts"
import { applySavedMethod } from "./saveMethod.ts"
import { type LinkState, linkStateOf } from "./status.ts"

/** What the page offered, and so what the buyer meant to do. */
export type Intent = "pay" | "save"

type Started =
  /** This form was submitted before. */
  | { readonly kind: "again"; readonly chargeIds: ReadonlyArray<string> }
  | { readonly kind: "too_late"; readonly refusal: Problem }
  | { readonly kind: "under_way"; readonly chargeId: string }
  | {
      readonly kind: "started"
      /** The payments of the bills due. */
      readonly payments: ReadonlyArray<ChargeRow>
      /** Further charges to attempt, with the saved method. */
      readonly others: ReadonlyArray<ChargeRow>
      readonly now: number
    }

/** The result of a submission. */
export type Paid =
  /** `others`: further overdue bills that were tried with the saved method. */
  | { readonly kind: "saved"; readonly others: ReadonlyArray<ChargeRow> }
  /** The payments of the submission, settled or not. */
  | { readonly kind: "tried"; readonly charges: ReadonlyArray<ChargeRow> }
  | { readonly kind: "too_late"; readonly refusal: Problem }
  /** The payment of another request is still in progress after the longest wait. */
  | { readonly kind: "busy"; readonly charge: ChargeRow }

/** Explains why a link accepts nothing, and what to do; undefined: it accepts a submission. */
export const closedBecause = (linkState: LinkState): string | undefined => {
  switch (linkState.kind) {
    case "used":
      return `${linkState.charges.map(paymentInWords).join("; ")} by this link. If something is owed again, use the link in the newest message.`
    case "cancelled":
      return `The subscription was cancelled at ${formatInstant(linkState.at)}: nothing is owed on it any more.`
    case "expired":
      return `The link expired at ${formatInstant(linkState.at)}: use the one in the newest message.`
    default:
      return undefined
  }
}

const closed = (message: string) => problem("payment_link_closed", message)

/** The subscription was cancelled while its bill was being paid. */
export const cameTooLate = (charges: ReadonlyArray<ChargeRow>) =>
  closed(`${charges.map(paymentInWords).join("; ")}: it was cancelled meanwhile.`)

/** Refuses a payment because the bill was paid in another way meanwhile. */
const paidOtherwise = Effect.fnUntraced(function* (linked: ReadonlyArray<SubscriptionRow>) {
  const [subscription] = linked
  const charge =
    subscription?.latest_charge_id == null ? undefined : yield* charges.get(subscription, subscription.latest_charge_id)
  const refusal = closed(
    charge?.status === "succeeded"
      ? `Nothing is owed any more: ${paymentInWords(charge)}.`
      : "Nothing is owed any more: it was paid in another way, or given up.",
  )
  return { kind: "too_late", refusal } satisfies Started
})

interface Claimed {
  readonly nudge: NudgeRow
  readonly customer: CustomerRow
  readonly submitted: Submission
  readonly hostedBy: OutsideRail | null
  readonly now: number
}

const payOwing = Effect.fnUntraced(function* (
  { nudge, customer, submitted, hostedBy, now }: Claimed,
  { due, totalKobo }: Extract<LinkState, { readonly kind: "due" }>,
  tries: number,
) {
  yield* checkShown(submitted.amountKobo, totalKobo)
  yield* checkCode(submitted, totalKobo)
  if (tries >= MAX_ATTEMPTS) return yield* tooManyAttempts
  const methodId = yield* methodOf(customer, submitted, now)
  yield* withEmail(customer, submitted.email)
  const page: Page = { id: nudge.id, hostedBy: methodId === null ? hostedBy : null, submission: submitted.number }
  // On the rail's page the buyer pays one bill. The method that it saves then pays the others (paymentSubject.ts).
  const paying = page.hostedBy === null ? due : due.slice(0, 1)
  const commands = paying.map((row) => ({ row, event: { type: "retry" as const, at: now, methodId } }))
  const payments = yield* transition(commands, {
    nowOf: sameForAll(now),
    terms: yield* readTerms(paying.map(refOf)),
    pages: new Map(paying.map(({ id }) => [id, page])),
  })
  return { kind: "started", payments, others: [], now } satisfies Started
})

/** Saves the chosen method, or starts a verification charge on the rail's page. */
const save = Effect.fnUntraced(function* (
  { nudge, customer, submitted, hostedBy, now }: Claimed,
  linked: ReadonlyArray<SubscriptionRow>,
  tries: number,
) {
  yield* checkCode(submitted, 0)
  const methodId = yield* methodOf(customer, submitted, now)
  if (methodId === null && hostedBy !== null) {
    if (tries >= MAX_ATTEMPTS) return yield* tooManyAttempts
    const updated = yield* withEmail(customer, submitted.email)
    const verified = { customer: updated, rail: hostedBy, pageId: nudge.id, submission: submitted.number, now }
    return { kind: "started", payments: [yield* verify(verified)], others: [], now } satisfies Started
  }
  const own = nudge.subscription_id === null ? undefined : linked[0]
  const others = yield* applySavedMethod({ own, customer, methodId: methodId!, now })
  return { kind: "started", payments: [], others, now } satisfies Started
})

const begin = Effect.fnUntraced(function* (
  nudge: NudgeRow,
  submitted: Submission,
  intent: Intent,
  hostedBy: OutsideRail | null,
) {
  const now = yield* clockTime(nudge, nudge.test_clock_id)
  const customer = yield* customers.lockOne(nudge, nudge.customer_id, "NO KEY UPDATE")
  const locked = yield* lockDue(customer, nudge.subscription_id === null ? [] : [nudge.subscription_id])
  const linked = nudge.subscription_id === null ? locked : locked.filter(({ id }) => id === nudge.subscription_id)
  const tries = yield* readTries(nudge)
  const { number } = submitted
  const same = tries.filter(({ submission }) => number !== null && submission === number)
  if (same.length > 0) return { kind: "again", chargeIds: same.map(({ id }) => id) } satisfies Started
  const linkState = linkStateOf(nudge, linked, tries, now)
  const reason = closedBecause(linkState)
  if (reason !== undefined) return { kind: "too_late", refusal: closed(reason) } satisfies Started
  const claimed = { nudge, customer, submitted, hostedBy, now }
  if (linkState.kind === "under_way") return { kind: "under_way", chargeId: linkState.chargeId } satisfies Started
  if (linkState.kind === "due") return yield* payOwing(claimed, linkState, triesOf(tries))
  return intent === "pay" ? yield* paidOtherwise(linked) : yield* save(claimed, linked, triesOf(tries))
})

/** Submits the page of a link; returns the result, as far as it is known. */
export const submitPayment = Effect.fn("paymentLink.submit")(function* (
  nudge: NudgeRow,
  submitted: Submission,
  intent: Intent,
  hostedBy: OutsideRail | null,
) {
  const { reading, writing } = yield* TenantDatabase
  const tenant = tenantOf(nudge)
  const limit = pageWaitingLimit()
  const read = (ids: ReadonlyArray<string>) =>
    Effect.map(reading(tenant, charges.find(tenant, ids)), (found) => [...found.values()])
  for (;;) {
    const started: Started = yield* retryingDeadlocks(writing(tenant, begin(nudge, submitted, intent, hostedBy)))
    switch (started.kind) {
      case "too_late":
        return started satisfies Paid
      case "again":
        for (const id of started.chargeIds) yield* waitForCharge(tenant, id, limit)
        return { kind: "tried", charges: yield* read(started.chargeIds) } satisfies Paid
      case "under_way": {
        const charge = yield* waitForCharge(tenant, started.chargeId, limit)
        if (charge.status === "pending") return { kind: "busy", charge } satisfies Paid
        break
      }
      case "started": {
        const { payments, others, now } = started
        const all = [...payments, ...others]
        const finished = Effect.gen(function* () {
          yield* (yield* Payments).collect(all, now, codesFor(all, submitted))
          for (const { id } of all) yield* waitForCharge(tenant, id, limit)
          return yield* read(all.map(({ id }) => id))
        })
        const tried = yield* orMade(finished, () => all)
        return payments.length === 0
          ? ({ kind: "saved", others: tried } satisfies Paid)
          : ({ kind: "tried", charges: tried } satisfies Paid)
      }
    }
  }
})

/** Sums the charges of one status (kobo). */
export const sumOf = (all: ReadonlyArray<ChargeRow>, status: ChargeRow["status"]): number =>
  all.filter((charge) => charge.status === status).reduce((sum, { amount_kobo }) => sum + amount_kobo, 0)
