/** Carries out what subscriptions decided: their rows, new charges, the books and the events, in the running transaction. */
import { Effect } from "effect"
import type { Effect as MachineEffect } from "../../machines/decide.ts"
import type { Posting, Settlement } from "../../machines/events.ts"
import type { Bill } from "../../machines/periods.ts"
import type { subscriptionMachine } from "../../machines/subscription.ts"
import type { Emission } from "../../machines/subscription_setup.ts"
import { renderCharge } from "../charge/Charge.ts"
import { type ChargeRow, closePaidPeriods, insertCharges, newCharge, updateCharges } from "../charge/rows.ts"
import { appendEvents, type NewEvent, previousAttributes } from "../event/Events.ts"
import { type NewEntry, postEntries } from "../ledger/Ledger.ts"
import * as postings from "../ledger/postings.ts"
import type { Transition } from "../lifecycle/advance.ts"
import { recordTransitions } from "../lifecycle/commit.ts"
import { Runner } from "../lifecycle/Runner.ts"
import { makeNudges } from "../nudge/make.ts"
import { findPaymentMethods } from "../payment_method/PaymentMethods.ts"
import { type PaymentMethodSummary, PaymentRail } from "../rail/PaymentRail.ts"
import { reminding } from "./reminding.ts"
import {
  type Details,
  machineColumns,
  type SubscriptionRow,
  type Terms,
  updateDetails,
  updateSubscriptions,
} from "./rows.ts"
import { renderSubscription, subscriptionLifecycle } from "./Subscription.ts"

export type SubscriptionTransition = Transition<typeof subscriptionMachine, SubscriptionRow>

/** A charge whose answer moved its subscription: as it was, and as it is now. */
export interface Settled {
  readonly before: ChargeRow
  readonly after: ChargeRow
}

export interface Facts {
  /** Now, in the actors' own clock: when rows and events say that they were made. */
  readonly now: number
  /** By subscription ID; needed where a charge is attempted. */
  readonly terms: ReadonlyMap<string, Terms>
  /** By subscription ID. */
  readonly settled?: ReadonlyMap<string, Settled>
  /** What the merchant changed beside what the machine knows, by subscription ID. */
  readonly details?: ReadonlyMap<string, Details>
}

/** {@link Facts} with what is looked up for them here. */
interface Known extends Facts {
  readonly rail: string
  /** This process, which sends the charges. */
  readonly sender: number
  /** Payment methods that decisions name and that are still attached, by {@link methodKey}. */
  readonly methods: ReadonlyMap<string, PaymentMethodSummary>
}

type Shown = Readonly<Record<string, unknown>>

interface Outcome {
  readonly row: SubscriptionRow
  readonly detailed: boolean
  readonly attempt: ChargeRow | undefined
  readonly settled: ChargeRow | undefined
  readonly events: ReadonlyArray<NewEvent>
  readonly entries: ReadonlyArray<NewEntry>
}

const methodKey = (row: SubscriptionRow, methodId: string): string => `${row.customer_id} ${methodId}`

const paramsOf = (effects: ReadonlyArray<MachineEffect>, type: string) =>
  effects.find((effect) => effect.type === type)?.params

/** The payment methods that the decisions name. */
const namedMethods = (transitions: ReadonlyArray<SubscriptionTransition>) =>
  findPaymentMethods(
    transitions.flatMap(({ row, decision: { effects } }) =>
      [paramsOf(effects, "attemptCharge")?.methodId, paramsOf(effects, "adoptMethod")?.methodId]
        .filter((id) => typeof id === "string")
        .map((method) => ({ account_id: row.account_id, livemode: row.livemode, id: row.customer_id, method })),
    ),
  )

/** The method named for the attempt while the customer has it, else the subscription's. */
const methodOf = (row: SubscriptionRow, bill: Bill, { terms, methods }: Known): PaymentMethodSummary | null =>
  (bill.methodId === null ? undefined : methods.get(methodKey(row, bill.methodId))) ?? terms.get(row.id)!.payment_method

const chargeFor = (row: SubscriptionRow, bill: Bill, facts: Known): ChargeRow =>
  newCharge({
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
    payment_method: methodOf(row, bill, facts),
    payment_method_named: bill.methodId !== null,
    retry_of: null,
    rail: facts.rail,
    sent_at: bill.attemptedAt,
    sender: facts.sender,
    description: null,
    metadata: {},
    created_at: facts.now,
  })

const entryFor = (
  row: SubscriptionRow,
  posting: Posting,
  bill: Bill,
  charge: ChargeRow | undefined,
  at: number,
): NewEntry => {
  const billed = { lines: bill.lines, customerId: row.customer_id, rail: charge?.rail ?? "" }
  const lines = {
    paid: postings.paid,
    owed: postings.owed,
    overdue_paid: postings.overduePaid,
    written_off: postings.writtenOff,
    waived: postings.waived,
  }[posting](billed)
  return {
    account_id: row.account_id,
    livemode: row.livemode,
    event: posting,
    idempotencyKey: `${posting}:${row.id}:${bill.no}`,
    customerId: row.customer_id,
    subscriptionId: row.id,
    chargeId: charge?.id ?? null,
    at,
    lines,
  }
}

const refundEntry = (row: SubscriptionRow, charge: ChargeRow, at: number): NewEntry => ({
  account_id: row.account_id,
  livemode: row.livemode,
  event: "refund_due",
  idempotencyKey: `refund_due:${charge.id}`,
  customerId: row.customer_id,
  subscriptionId: row.id,
  chargeId: charge.id,
  at,
  lines: postings.refundDue(charge.amount_kobo, charge.rail, row.customer_id),
})

/** The settled charge with what its subscription decided: the next retry, the period that it bought. */
const settle = (charge: ChargeRow, effects: ReadonlyArray<MachineEffect>, row: SubscriptionRow): ChargeRow => {
  const settlement = paramsOf(effects, "settleCharge") as Settlement | undefined
  if (settlement === undefined) return charge
  const paid = charge.status === "succeeded" && !settlement.refundDue
  return {
    ...charge,
    will_retry: settlement.willRetry,
    next_retry_at: settlement.nextRetryAt,
    refund_due: settlement.refundDue && charge.status === "succeeded",
    period_start_at: paid ? row.period_start_at : charge.period_start_at,
    period_end_at: paid ? row.period_end_at : charge.period_end_at,
  }
}

/**
 * The events of a transition, each about its object as it was at that point. What several events tell of at one point is
 * one change, so they say the same of what was before.
 */
const eventsOf = (
  { row: before, decision, to }: SubscriptionTransition,
  row: SubscriptionRow,
  charges: { readonly before: ChargeRow | undefined; readonly after: ChargeRow | undefined },
  now: number,
): ReadonlyArray<NewEvent> => {
  let told: { readonly point: Emission; readonly object: Shown; readonly changes: Shown } | undefined
  const about = { account_id: row.account_id, livemode: row.livemode, test_clock_id: row.test_clock_id, at: now }
  return decision.effects
    .filter(({ type }) => type === "emit")
    .map(({ params }): NewEvent => {
      const point = params as unknown as Emission
      const { type } = point
      if (type.startsWith("charge.")) {
        const object = renderCharge(charges.after!)
        const changes =
          type === "charge.retry_scheduled" ? {} : previousAttributes(renderCharge(charges.before!), object)
        return { ...about, type, object, previous: changes }
      }
      if (told === undefined || told.point.context !== point.context || told.point.state !== point.state) {
        const known = told?.object ?? renderSubscription({ ...before, latest_charge_id: before.told_charge_id })
        const columns = machineColumns(point.state ?? to, point.context)
        const object = renderSubscription({ ...row, ...columns })
        told = { point, object, changes: previousAttributes(known, object) }
      }
      return { ...about, type, object: told.object, previous: type === "subscription.created" ? {} : told.changes }
    })
}

const outcomeOf = (transition: SubscriptionTransition, facts: Known): Outcome => {
  const { row: before, decision, to, version, event } = transition
  const { effects } = decision
  const bill = paramsOf(effects, "attemptCharge") as Bill | undefined
  const adopted = paramsOf(effects, "adoptMethod")?.methodId as string | null | undefined
  const details = facts.details?.get(before.id)
  const adopts = adopted != null && facts.methods.has(methodKey(before, adopted))
  const moved: SubscriptionRow = {
    ...before,
    ...details,
    ...(adopts ? { payment_method_id: adopted } : {}),
    ...machineColumns(to, decision.snapshot.context),
    version,
  }
  const attempt = bill === undefined ? undefined : chargeFor(moved, bill, facts)
  const latest = attempt?.id ?? before.latest_charge_id
  const tells = effects.some(({ type, params }) => type === "emit" && !String(params.type).startsWith("charge."))
  const row = { ...moved, latest_charge_id: latest, told_charge_id: tells ? latest : before.told_charge_id }
  const answered = facts.settled?.get(row.id)
  const settled = answered === undefined ? undefined : settle(answered.after, effects, row)

  const entries = effects
    .filter(({ type }) => type === "post")
    .map(({ params }) => entryFor(row, params.posting as Posting, params.bill as Bill, settled, event.at))
    // Nothing is waived where the credit covers the whole bill.
    .filter(({ lines }) => lines.length > 0)
  if (settled?.refund_due === true) entries.push(refundEntry(row, settled, event.at))
  const events = eventsOf(transition, row, { before: answered?.before, after: settled }, facts.now)
  return { row, detailed: details !== undefined || adopts, attempt, settled, events, entries }
}

const closedPeriods = (transitions: ReadonlyArray<SubscriptionTransition>) =>
  transitions.flatMap(({ row, decision }) => {
    const closed = paramsOf(decision.effects, "closePeriod")
    return closed === undefined
      ? []
      : [{ account_id: row.account_id, livemode: row.livemode, id: row.id, at: closed.at as number }]
  })

/**
 * Writes transitions of locked subscriptions, and the settled charges with what their subscriptions decided on them.
 * Answers these, and the charges to attempt once the transaction is committed.
 */
export const commitSubscriptions = (transitions: ReadonlyArray<SubscriptionTransition>, facts: Facts) =>
  Effect.gen(function* () {
    const rail = yield* PaymentRail
    const runner = yield* Runner
    const known: Known = { ...facts, rail: rail.name, sender: runner.id, methods: yield* namedMethods(transitions) }
    const outcomes = transitions.map((transition) => outcomeOf(transition, known))
    const attempts = outcomes.flatMap(({ attempt }) => (attempt === undefined ? [] : [attempt]))
    const settled = outcomes.flatMap((outcome) => (outcome.settled === undefined ? [] : [outcome.settled]))
    runner.inFlight.add(attempts)
    yield* updateSubscriptions(outcomes.map(({ row }) => row))
    yield* updateDetails(outcomes.filter(({ detailed }) => detailed).map(({ row }) => row))
    // What is over makes room: for the next attempt, and for the next paid period.
    yield* closePaidPeriods(closedPeriods(transitions))
    yield* updateCharges(settled)
    yield* insertCharges(attempts)
    const reminders = yield* reminding(
      outcomes.map(({ row }, index) => ({ transition: transitions[index]!, row })),
      facts.now,
    )
    yield* recordTransitions(subscriptionLifecycle, transitions, reminders.timers)
    yield* postEntries(outcomes.flatMap(({ entries }) => entries))
    yield* appendEvents(outcomes.flatMap(({ events }) => events))
    yield* makeNudges(reminders.wanted)
    return { attempts, settled }
  })
