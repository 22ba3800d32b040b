/** Handles due timers of subscriptions. */
import { Effect } from "effect"
import type { subscriptionMachine } from "../../../machines/subscription.ts"
import type { NowOf } from "../../base/time.ts"
import { refOf } from "../../db/tenant.ts"
import { Nudging } from "../../outbound/nudge/Nudging.ts"
import { type Due, timerHandler } from "../../runtime/fire.ts"
import { advance } from "../../runtime/lifecycle.ts"
import { type Outcome, rescheduled } from "../../runtime/outcome.ts"
import { commitAttempts } from "../payments/commitAttempts.ts"
import { collect } from "../payments/simulatorCharges.ts"
import { dueReminder, nextReminder } from "./reminders.ts"
import { REMINDER, type SubscriptionRow, subscriptionLifecycle } from "./subscription.ts"
import { readRules, readTerms, unitFacts } from "./terms.ts"
import { outcomesOf, type SubscriptionCommand } from "./transition.ts"

type DueSubscription = Due<typeof subscriptionMachine, SubscriptionRow, typeof REMINDER>

interface Sorted {
  readonly commands: ReadonlyArray<SubscriptionCommand>
  /** Subscriptions that get the timer of their next reminder instead. */
  readonly rescheduled: ReadonlyArray<Outcome>
}

/** Turns due reminders into commands. If the plan changed, or an outage made a reminder too late, sets the next one instead. */
const sortReminders = Effect.fnUntraced(function* (due: ReadonlyArray<DueSubscription>, nowOf: NowOf) {
  const reminding = due.flatMap(({ row, event }) => (event.type === REMINDER ? [{ row, at: event.at }] : []))
  const rules = yield* readRules(reminding.map(({ row }) => row))
  const { quietOf } = yield* Nudging
  const commands: Array<SubscriptionCommand> = []
  const others: Array<Outcome> = []
  for (const { row, at } of reminding) {
    const planRules = rules.get(row.plan_id)!
    const reminder = dueReminder(row, at, planRules, quietOf(row), nowOf(row))
    if (reminder !== undefined) commands.push({ row, event: { type: REMINDER, at, ...reminder } })
    else
      others.push(rescheduled(subscriptionLifecycle, row, nextReminder(row, at, planRules, quietOf(row), nowOf(row))))
  }
  return { commands, rescheduled: others } satisfies Sorted
})

export const subscriptionTimers = timerHandler(
  subscriptionLifecycle,
  Effect.fnUntraced(function* (due: ReadonlyArray<DueSubscription>, nowOf: NowOf) {
    const terms = yield* readTerms(due.map(({ row }) => refOf(row)))
    const reminders = yield* sortReminders(due, nowOf)
    const commands = due.flatMap(({ row, event }): ReadonlyArray<SubscriptionCommand> => {
      if (event.type === REMINDER) return []
      const rowTerms = terms.get(row.id)!
      const credited = row.pause === null ? {} : { proRate: rowTerms.pro_rate }
      return [{ row, event: { ...event, ...unitFacts(row, rowTerms), ...credited } }]
    })
    const transitions = advance(subscriptionLifecycle, [...commands, ...reminders.commands])
    const { outcomes, attempts } = yield* outcomesOf(transitions, { nowOf, terms })
    yield* commitAttempts([...outcomes, ...reminders.rescheduled], attempts, { urgent: false })
    return collect(attempts, nowOf)
  }),
)
