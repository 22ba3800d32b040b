/** Carries out what subscriptions decided: their rows, new charges, the books and the events, in the running transaction. */
import { Effect } from "effect"
import type { Effect as MachineEffect } from "../../machines/decide.ts"
import type { Posting, Settlement } from "../../machines/events.ts"
import type { Bill } from "../../machines/periods.ts"
import type { subscriptionMachine } from "../../machines/subscription.ts"
import { renderCharge } from "../charge/Charge.ts"
import { type ChargeRow, insertCharges } from "../charge/rows.ts"
import { appendEvents, type NewEvent, previousAttributes } from "../event/Events.ts"
import { newId } from "../ids.ts"
import { type NewEntry, postEntries } from "../ledger/Ledger.ts"
import * as postings from "../ledger/postings.ts"
import type { Transition } from "../lifecycle/advance.ts"
import { recordTransitions } from "../lifecycle/commit.ts"
import { Runner } from "../lifecycle/Runner.ts"
import { PaymentRail } from "../rail/PaymentRail.ts"
import { machineColumns, type SubscriptionRow, type Terms, updateSubscriptions } from "./rows.ts"
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
  readonly settled: ReadonlyMap<string, Settled>
}

interface Outcome {
  readonly row: SubscriptionRow
  readonly attempt: ChargeRow | undefined
  readonly settled: ChargeRow | undefined
  readonly events: ReadonlyArray<NewEvent>
  readonly entries: ReadonlyArray<NewEntry>
}

const chargeFor = (row: SubscriptionRow, bill: Bill, facts: Facts, rail: string, sender: number): ChargeRow => ({
  account_id: row.account_id,
  livemode: row.livemode,
  id: newId("charge"),
  customer_id: row.customer_id,
  subscription_id: row.id,
  test_clock_id: row.test_clock_id,
  bill_no: bill.no,
  attempt_number: bill.attempt,
  amount_kobo: bill.amountKobo,
  currency: "NGN",
  period_start_at: bill.periodStart,
  period_end_at: bill.periodEnd,
  lines: bill.lines,
  payment_method: facts.terms.get(row.id)!.payment_method,
  rail,
  state: "pending.sending",
  status: "pending",
  version: 0,
  sent_at: bill.attemptedAt,
  asks: 0,
  not_found: 0,
  known_at: null,
  sender,
  will_retry: false,
  next_retry_at: null,
  refund_due: false,
  failure_code: null,
  failure_message: null,
  contradictions: [],
  description: null,
  metadata: {},
  paid_at: null,
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
  const settlement = effects.find(({ type }) => type === "settleCharge")?.params as Settlement | undefined
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

const outcomeOf = (transition: SubscriptionTransition, facts: Facts, rail: string, sender: number): Outcome => {
  const { row: before, decision, to, version, event } = transition
  const moved: SubscriptionRow = { ...before, ...machineColumns(to, decision.snapshot.context), version }
  const bill = decision.effects.find(({ type }) => type === "attemptCharge")?.params as Bill | undefined
  const attempt = bill === undefined ? undefined : chargeFor(moved, bill, facts, rail, sender)
  const row = attempt === undefined ? moved : { ...moved, latest_charge_id: attempt.id }
  const answered = facts.settled.get(row.id)
  const settled = answered === undefined ? undefined : settle(answered.after, decision.effects, row)

  const entries = decision.effects
    .filter(({ type }) => type === "post")
    .map(({ params }) => entryFor(row, params.posting as Posting, params.bill as Bill, settled, event.at))
  if (settled?.refund_due === true) entries.push(refundEntry(row, settled, event.at))

  const shown = renderSubscription(row)
  const changes = previousAttributes(renderSubscription(before), shown)
  const events = decision.effects
    .filter(({ type }) => type === "emit")
    .map(({ params }): NewEvent => {
      const type = params.type as string
      const about = {
        account_id: row.account_id,
        livemode: row.livemode,
        type,
        test_clock_id: row.test_clock_id,
        at: facts.now,
      }
      if (!type.startsWith("charge."))
        return { ...about, object: shown, previous: type === "subscription.created" ? {} : changes }
      const object = renderCharge(settled!)
      return {
        ...about,
        object,
        previous: type === "charge.retry_scheduled" ? {} : previousAttributes(renderCharge(answered!.before), object),
      }
    })
  return { row, attempt, settled, events, entries }
}

/**
 * Writes transitions of locked subscriptions. Answers the charges to attempt once the transaction is committed, and the
 * settled charges with what their subscriptions decided, for the caller to write.
 */
export const commitSubscriptions = (transitions: ReadonlyArray<SubscriptionTransition>, facts: Facts) =>
  Effect.gen(function* () {
    const rail = yield* PaymentRail
    const runner = yield* Runner
    const outcomes = transitions.map((transition) => outcomeOf(transition, facts, rail.name, runner.id))
    const attempts = outcomes.flatMap(({ attempt }) => (attempt === undefined ? [] : [attempt]))
    runner.inFlight.add(attempts)
    yield* updateSubscriptions(outcomes.map(({ row }) => row))
    yield* insertCharges(attempts)
    yield* recordTransitions(subscriptionLifecycle, transitions)
    yield* postEntries(outcomes.flatMap(({ entries }) => entries))
    yield* appendEvents(outcomes.flatMap(({ events }) => events))
    return { attempts, settled: outcomes.flatMap(({ settled }) => (settled === undefined ? [] : [settled])) }
  })
