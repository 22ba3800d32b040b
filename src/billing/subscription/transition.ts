/** Moves locked subscriptions by events: reads the facts that decisions need, decides, commits. */
import { Effect } from "effect"
import { paramsOf } from "../../../machines/decide.ts"
import { isReminding } from "../../../machines/reminders.ts"
import type { subscriptionMachine } from "../../../machines/subscription.ts"
import type { NowOf } from "../../base/time.ts"
import { refOf } from "../../db/tenant.ts"
import { readSchedules } from "../../ledger/schedules.ts"
import { VatRate } from "../../ledger/VatRate.ts"
import { readAddressees } from "../../outbound/nudge/create.ts"
import { Nudging } from "../../outbound/nudge/Nudging.ts"
import { PIPELINED } from "../../postgres/pipelining.ts"
import { ProcessLease } from "../../process/ProcessLease.ts"
import { advance, type Command } from "../../runtime/lifecycle.ts"
import type { ChargeRow } from "../charge/charge.ts"
import { closePaidPeriods } from "../charge/paidPeriods.ts"
import { findPaymentMethods } from "../payment_method/paymentMethods.ts"
import { commitAttempts } from "../payments/commitAttempts.ts"
import type { Answered } from "../payments/PaymentSubjects.ts"
import { type Details, type Facts, outcomeOf, type Page } from "./outcome.ts"
import { needsSchedule } from "./postings.ts"
import { asksForNudges, movesReminders } from "./reminders.ts"
import { type SubscriptionRow, type SubscriptionTransition, subscriptionLifecycle } from "./subscription.ts"
import { type RulesOfPlans, readRules, type Terms } from "./terms.ts"

export type SubscriptionCommand = Command<typeof subscriptionMachine, SubscriptionRow>

/** The services for moving a subscription, beside the database. */
export type TransitionServices = Nudging | ProcessLease | VatRate

/** The facts that the caller already has. */
export interface Given {
  readonly nowOf: NowOf
  readonly terms: ReadonlyMap<string, Terms>
  /** The rules of all plans involved, if already read. */
  readonly rules?: RulesOfPlans
  readonly answered?: ReadonlyMap<string, Answered>
  readonly details?: ReadonlyMap<string, Details>
  /** The pages on which buyers cause the events, by subscription ID. */
  readonly pages?: ReadonlyMap<string, Page>
  /** Attempts that are entered as the original charges, by subscription ID. */
  readonly found?: ReadonlyMap<string, ChargeRow>
}

/** The facts of transitions that no answer, page or request caused. */
export const NO_FACTS: Pick<Facts, "answered" | "details" | "pages" | "found"> = {
  answered: new Map(),
  details: new Map(),
  pages: new Map(),
  found: new Map(),
}

/** Reads the payment methods that decisions name. */
const namedMethods = (transitions: ReadonlyArray<SubscriptionTransition>) =>
  findPaymentMethods(
    transitions.flatMap(({ row, decision }) =>
      [paramsOf(decision, "attemptCharge")?.methodId, paramsOf(decision, "adoptMethod")?.methodId]
        .filter((id) => typeof id === "string")
        .map((method) => ({ account_id: row.account_id, livemode: row.livemode, id: row.customer_id, method })),
    ),
  )

const closedCharges = (transitions: ReadonlyArray<SubscriptionTransition>) =>
  closePaidPeriods(
    transitions.flatMap(({ row, decision }) => {
      const closed = paramsOf(decision, "closePeriod")
      return closed === undefined ? [] : [{ ...refOf(row), at: closed.at }]
    }),
  )

const openSchedules = (transitions: ReadonlyArray<SubscriptionTransition>) =>
  readSchedules(
    transitions.flatMap((transition) => {
      const day = needsSchedule(transition)
      return day === undefined ? [] : [{ ...refOf(transition.row), day }]
    }),
  )

/** The subscriptions whose plans' rules are needed: their reminders move, or they ask for nudges. */
const withRules = (transitions: ReadonlyArray<SubscriptionTransition>): ReadonlyArray<SubscriptionRow> =>
  transitions
    .filter((transition) => asksForNudges(transition) || (isReminding(transition.to) && movesReminders(transition)))
    .map(({ row }) => row)

/** Reads the facts that the outcomes of these transitions need. */
const readFacts = Effect.fnUntraced(function* (transitions: ReadonlyArray<SubscriptionTransition>, given: Given) {
  const withNudges = transitions.filter(asksForNudges)
  const [closed, methods, schedules, rules, addressees] = yield* Effect.all(
    [
      closedCharges(transitions),
      namedMethods(transitions),
      openSchedules(transitions),
      given.rules === undefined ? readRules(withRules(transitions)) : Effect.succeed(given.rules),
      readAddressees(withNudges.map(({ row }) => ({ ...row, customerId: row.customer_id, planId: row.plan_id }))),
    ],
    PIPELINED,
  )
  const { quietOf, token } = yield* Nudging
  return {
    ...NO_FACTS,
    ...given,
    methods,
    closed: Map.groupBy(closed, ({ after }) => after.subscription_id!),
    schedules,
    vatBps: yield* VatRate,
    rules,
    addressees,
    quietOf,
    token,
    runner: (yield* ProcessLease).id,
  } satisfies Facts
})

/** Computes the outcomes of transitions, and the charges among them to attempt. */
export const outcomesOf = Effect.fnUntraced(function* (
  transitions: ReadonlyArray<SubscriptionTransition>,
  given: Given,
  isNew = false,
) {
  if (transitions.length === 0) return { outcomes: [], rows: [], attempts: [], settled: [] }
  const facts = yield* readFacts(transitions, given)
  const all = transitions.map((transition) => outcomeOf(transition, facts, isNew))
  return {
    outcomes: all.map(({ outcome }) => outcome),
    rows: all.map(({ row }) => row),
    attempts: all.flatMap(({ attempt }) => (attempt === undefined ? [] : [attempt])),
    settled: all.flatMap(({ settled }) => (settled === undefined ? [] : [settled])),
  }
})

/**
 * Moves subscriptions by commands, in the running transaction. Returns the new rows of those that moved, by ID, and the charges to attempt
 * after the commit.
 */
export const transitionRows = Effect.fnUntraced(function* (commands: ReadonlyArray<SubscriptionCommand>, given: Given) {
  const { outcomes, rows, attempts } = yield* outcomesOf(advance(subscriptionLifecycle, commands), given)
  yield* commitAttempts(outcomes, attempts)
  return { rows: new Map(rows.map((row) => [row.id, row])), attempts }
})

/** Like {@link transitionRows}; returns only the charges to attempt. */
export const transition = (commands: ReadonlyArray<SubscriptionCommand>, given: Given) =>
  Effect.map(transitionRows(commands, given), ({ attempts }) => attempts)
