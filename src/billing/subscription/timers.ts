/** Handles due timers of subscriptions. */
import { Effect } from "effect"
import type { QuietHours } from "../../../machines/reminders.ts"
import type { subscriptionMachine } from "../../../machines/subscription.ts"
import type { NowOf } from "../../base/time.ts"
import { refOf } from "../../db/tenant.ts"
import { Nudging } from "../../outbound/nudge/Nudging.ts"
import { type Due, timerHandler } from "../../runtime/fire.ts"
import { advance } from "../../runtime/lifecycle.ts"
import { type Outcome, rescheduled } from "../../runtime/outcome.ts"
import { commitAttempts } from "../payments/commitAttempts.ts"
import { collect } from "../payments/simulatorCharges.ts"
import { dueReminder, nextReminder, type Rules } from "./reminders.ts"
import { REMINDER, type SubscriptionRow, subscriptionLifecycle } from "./subscription.ts"
import { readRules, readTerms, type Terms, unitFacts } from "./terms.ts"
import { outcomesOf, type SubscriptionCommand } from "./transition.ts"

type DueSubscription = Due<typeof subscriptionMachine, SubscriptionRow, typeof REMINDER>
type DueDelay = Exclude<DueSubscription["event"], { readonly type: typeof REMINDER }>

/** The command of a due delay of the machine. */
export const delayCommand = (row: SubscriptionRow, event: DueDelay, terms: Terms): SubscriptionCommand => ({
  row,
  event: { ...event, ...unitFacts(row, terms), ...(row.pause === null ? {} : { proRate: terms.pro_rate }) },
})

/**
 * The command of a reminder due at `at`. If the plan changed, or an outage made the reminder too late, the outcome that sets the next one
 * instead.
 */
export const reminderCommand = (
  row: SubscriptionRow,
  at: number,
  rules: Rules,
  quiet: QuietHours | null,
  now: number,
): { readonly command: SubscriptionCommand } | { readonly later: Outcome } => {
  const reminder = dueReminder(row, at, rules, quiet, now)
  return reminder === undefined
    ? { later: rescheduled(subscriptionLifecycle, row, nextReminder(row, at, rules, quiet, now)) }
    : { command: { row, event: { type: REMINDER, at, ...reminder } } }
}

export const subscriptionTimers = timerHandler(
  subscriptionLifecycle,
  Effect.fnUntraced(function* (due: ReadonlyArray<DueSubscription>, nowOf: NowOf) {
    const terms = yield* readTerms(due.map(({ row }) => refOf(row)))
    const rules = yield* readRules(due.flatMap(({ row, event }) => (event.type === REMINDER ? [row] : [])))
    const { quietOf } = yield* Nudging
    const decided = due.map(({ row, event }) =>
      event.type === REMINDER
        ? reminderCommand(row, event.at, rules.get(row.plan_id)!, quietOf(row), nowOf(row))
        : { command: delayCommand(row, event, terms.get(row.id)!) },
    )
    const transitions = advance(
      subscriptionLifecycle,
      decided.flatMap((one) => ("command" in one ? [one.command] : [])),
    )
    const { outcomes, attempts } = yield* outcomesOf(transitions, { nowOf, terms })
    const later = decided.flatMap((one) => ("later" in one ? [one.later] : []))
    yield* commitAttempts([...outcomes, ...later], attempts, { urgent: false })
    return collect(attempts, nowOf)
  }),
)
