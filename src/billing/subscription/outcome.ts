/** Computes the outcome of a subscription's transition: its row, the charge to attempt, ledger entries, events, nudges. Pure. */
import { allParamsOf, paramsOf } from "../../../machines/decide.ts"
import type { Bill } from "../../../machines/periods.ts"
import type { QuietHours } from "../../../machines/reminders.ts"
import type { Emission } from "../../../machines/subscription_setup.ts"
import type { Json } from "../../base/json.ts"
import type { NowOf } from "../../base/time.ts"
import type { Ref, Tenant } from "../../db/tenant.ts"
import type { OpenSchedule } from "../../ledger/schedules.ts"
import { type NewEvent, previousAttributes } from "../../outbound/event/events.ts"
import { type Addressees, newNudge } from "../../outbound/nudge/create.ts"
import type { OutsideRail } from "../../rails/rail/Rail.ts"
import { rowAfter } from "../../runtime/lifecycle.ts"
import { amended, created, type Outcome, transitioned } from "../../runtime/outcome.ts"
import { type ChargeRow, chargeLifecycle, newCharge, renderCharge } from "../charge/charge.ts"
import type { ClosedCharge } from "../charge/paidPeriods.ts"
import { type AttachedMethod, methodKey, summaryOf } from "../payment_method/paymentMethods.ts"
import type { Answered } from "../payments/PaymentSubjects.ts"
import { movementsOf } from "./mrr.ts"
import { booksOf } from "./postings.ts"
import { movesReminders, nudgesOf, type Rules, remindersAfter } from "./reminders.ts"
import {
  renderSubscription,
  type SubscriptionRow,
  type SubscriptionTransition,
  subscriptionLifecycle,
  subscriptions,
} from "./subscription.ts"
import type { Terms } from "./terms.ts"

/** The columns that the merchant sets and the machine never reads. */
export type Details = Pick<SubscriptionRow, "metadata" | "payment_method_id">

/** A page on which a buyer pays: the checkout session, or the nudge with the payment link. */
export interface Page {
  readonly id: string
  /** The rail on whose own page the buyer continues; null: the buyer pays with an existing payment method. */
  readonly hostedBy: OutsideRail | null
  /** The hash of the submitted form's number; null: it had none. */
  readonly submission: string | null
}

export interface Facts {
  /** Now, on each actor's own clock: the creation time of rows and events. */
  readonly nowOf: NowOf
  /** By subscription ID; required if a charge is attempted. */
  readonly terms: ReadonlyMap<string, Terms>
  /** The charges whose answers caused the transitions, by subscription ID. */
  readonly answered: ReadonlyMap<string, Answered>
  /** The merchant's changes outside the machine's context, by subscription ID. */
  readonly details: ReadonlyMap<string, Details>
  /** The pages on which buyers caused the transitions, by subscription ID. */
  readonly pages: ReadonlyMap<string, Page>
  /** Earlier attempts that are entered again as the original charges (decision F9), by subscription ID. */
  readonly found: ReadonlyMap<string, ChargeRow>
  /** Payment methods that decisions name and that are still attached, by {@link methodKey}. */
  readonly methods: ReadonlyMap<string, AttachedMethod>
  /** The charges whose paid periods end early, by subscription ID. */
  readonly closed: ReadonlyMap<string, ReadonlyArray<ClosedCharge>>
  /** The newest revenue schedules, by subscription ID, for transitions selected by `needsSchedule` (postings.ts). */
  readonly schedules: ReadonlyMap<string, OpenSchedule>
  /** VAT in basis points. */
  readonly vatBps: number
  /** By plan ID; at least the plans of subscriptions whose reminders move. */
  readonly rules: ReadonlyMap<string, Rules>
  readonly addressees: Addressees
  readonly quietOf: (tenant: Tenant) => QuietHours | null
  /** The token of a nudge's payment link. */
  readonly token: (nudge: Ref) => string
  /** This process, which sends the charges that are not queued. */
  readonly runner: number
}

export interface SubscriptionOutcome {
  readonly outcome: Outcome
  /** The subscription after the transition. */
  readonly row: SubscriptionRow
  /** The charge that the transition creates. */
  readonly attempt: ChargeRow | undefined
  /** The charge whose answer caused the transition, with the decision on it. */
  readonly settled: ChargeRow | undefined
}

/** Returns the method named for the attempt if the customer still has it, else the subscription's; and the rail that charges it. */
const methodAndRailOf = (row: SubscriptionRow, bill: Bill, { terms, methods, pages }: Facts) => {
  const rail = pages.get(row.id)?.hostedBy ?? null
  if (rail !== null) return { rail, hosted: true, payment_method: null }
  const named = bill.methodId === null ? undefined : methods.get(methodKey(row.customer_id, bill.methodId))
  const { payment_method, rail: usual } = terms.get(row.id)!
  return named === undefined
    ? { rail: usual, hosted: false, payment_method }
    : { rail: named.rail, hosted: false, payment_method: summaryOf(named) }
}

const chargeFor = (row: SubscriptionRow, bill: Bill, facts: Facts): ChargeRow =>
  newCharge({
    ...methodAndRailOf(row, bill, facts),
    purpose: "sale",
    account_id: row.account_id,
    livemode: row.livemode,
    customer_id: row.customer_id,
    subscription_id: row.id,
    test_clock_id: row.test_clock_id,
    bill_no: bill.no,
    attempt_number: bill.attempt,
    amount_kobo: bill.amountKobo,
    period_start_at: bill.periodStart,
    period_end_at: bill.periodEnd,
    lines: bill.lines,
    payment_method_named: bill.methodId !== null,
    retry_of: null,
    page_id: facts.pages.get(row.id)?.id ?? null,
    submission: facts.pages.get(row.id)?.submission ?? null,
    sent_at: bill.attemptedAt,
    runner: facts.runner,
    description: null,
    metadata: {},
    created_at: facts.nowOf(row),
  })

/** Returns the settled charge with its subscription's decision: the next retry, the period that it paid for. */
const settledCharge = (charge: ChargeRow, { decision }: SubscriptionTransition, row: SubscriptionRow): ChargeRow => {
  const settlement = paramsOf(decision, "settleCharge")
  if (settlement === undefined) return charge
  // A charge for no time, such as the last period's units, pays for no period.
  const isForTime = charge.period_start_at !== charge.period_end_at
  const paid = charge.status === "succeeded" && !settlement.refundDue && isForTime
  return {
    ...charge,
    will_retry: settlement.willRetry,
    next_retry_at: settlement.nextRetryAt,
    refund_due: settlement.refundDue && charge.status === "succeeded",
    period_start_at: paid ? row.period_start_at : charge.period_start_at,
    period_end_at: paid ? row.period_end_at : charge.period_end_at,
  }
}

/** The event about the charge whose answer caused the transition. */
const chargeEvent = (type: Emission["type"], before: ChargeRow | undefined, after: ChargeRow | undefined) => {
  const object = renderCharge(after!)
  const previous = type === "charge.retry_scheduled" ? {} : previousAttributes(renderCharge(before!), object)
  return { type, object, previous }
}

/**
 * Returns the events of a transition, each with its object at that point. Events at the same point are about one change, so they have the
 * same previous attributes.
 */
const eventsOf = (
  { row: before, decision, to }: SubscriptionTransition,
  row: SubscriptionRow,
  charges: { readonly before: ChargeRow | undefined; readonly after: ChargeRow | undefined },
  now: number,
): ReadonlyArray<NewEvent> => {
  let latest: { readonly point: Emission; readonly object: Json; readonly changes: Json } | undefined
  const about = { account_id: row.account_id, livemode: row.livemode, test_clock_id: row.test_clock_id, at: now }
  return allParamsOf(decision, "emit").map((point): NewEvent => {
    const { type, context, state } = point
    if (type.startsWith("charge.")) return { ...about, ...chargeEvent(type, charges.before, charges.after) }
    if (latest === undefined || latest.point.context !== context || latest.point.state !== state) {
      const previous = latest?.object ?? renderSubscription({ ...before, latest_charge_id: before.announced_charge_id })
      const isLast = state === undefined && context === decision.snapshot.context
      const rowAtPoint = isLast ? row : subscriptions.withSnapshot(row, state ?? to, context)
      const object = renderSubscription(rowAtPoint)
      latest = { point, object, changes: previousAttributes(previous, object) }
    }
    return { ...about, type, object: latest.object, previous: type === "subscription.created" ? {} : latest.changes }
  })
}

/** The subscription after a transition, and the charge that it attempts. */
const subscriptionAfter = (transition: SubscriptionTransition, facts: Facts) => {
  const { row: before, decision } = transition
  const bill = paramsOf(decision, "attemptCharge")
  const adopted = paramsOf(decision, "adoptMethod")?.methodId
  const adopts = adopted != null && facts.methods.has(methodKey(before.customer_id, adopted))
  // A new object, to be completed below.
  const changed: { -readonly [K in keyof SubscriptionRow]: SubscriptionRow[K] } = rowAfter(
    subscriptionLifecycle,
    transition,
  )
  Object.assign(changed, facts.details.get(before.id))
  if (adopts) changed.payment_method_id = adopted
  const attempt = bill === undefined ? undefined : (facts.found.get(before.id) ?? chargeFor(changed, bill, facts))
  changed.latest_charge_id = attempt?.id ?? before.latest_charge_id
  const announces = allParamsOf(decision, "emit").some(({ type }) => !type.startsWith("charge."))
  if (announces) changed.announced_charge_id = changed.latest_charge_id
  return { row: changed, attempt }
}

/** The nudges that a transition creates. */
const nudgesCreated = (
  transition: SubscriptionTransition,
  row: SubscriptionRow,
  { rules, addressees, quietOf, token, nowOf }: Facts,
): ReadonlyArray<Outcome> => {
  const planRules = rules.get(row.plan_id)
  return planRules === undefined
    ? []
    : nudgesOf(transition, row, planRules, quietOf(row), nowOf(row)).flatMap(
        (request) => newNudge(request, addressees, token)?.outcome ?? [],
      )
}

/** Computes the outcome of a transition. `isNew`: the transition creates the subscription. */
export const outcomeOf = (transition: SubscriptionTransition, facts: Facts, isNew = false): SubscriptionOutcome => {
  const { row, attempt } = subscriptionAfter(transition, facts)
  const now = facts.nowOf(row)
  const answered = facts.answered.get(row.id)
  const settled = answered === undefined ? undefined : settledCharge(answered.after, transition, row)
  const timers = movesReminders(transition)
    ? remindersAfter(transition, row, facts.rules.get(row.plan_id), facts.quietOf(row), now)
    : {}
  const parts = {
    timers,
    movements: movementsOf(transition.row, row, transition.event.at),
    ...booksOf(transition, { row, settled, open: facts.schedules.get(row.id), vatBps: facts.vatBps }),
    events: eventsOf(transition, row, { before: answered?.before, after: settled }, now),
    created: [
      ...(facts.closed.get(row.id) ?? []).map(({ before, after }) => amended(chargeLifecycle, before, after)),
      ...(attempt === undefined ? [] : [created(chargeLifecycle, undefined, attempt)]),
      ...nudgesCreated(transition, row, facts),
    ],
  }
  const outcome = isNew
    ? created(subscriptionLifecycle, transition, row, parts)
    : transitioned(subscriptionLifecycle, transition, row, parts)
  return { outcome, row, attempt, settled }
}
