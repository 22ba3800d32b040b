/** What happens when timers of subscriptions and of charges fall due. */
import { Effect } from "effect"
import { chargeLifecycle } from "../charge/Charge.ts"
import { lockCharges } from "../charge/rows.ts"
import { refOf } from "../db/tenant.ts"
import { advance, type Command } from "../lifecycle/advance.ts"
import { setTimers } from "../timers/rows.ts"
import { dropIgnored, firing } from "../timers/sweep.ts"
import { Wakeups } from "../timers/Wakeups.ts"
import { ask, collect, startAsking } from "./collect.ts"
import { commitSubscriptions } from "./commit.ts"
import { dueReminders, REMINDER } from "./reminding.ts"
import { lockSubscriptions, readTerms, type SubscriptionRow } from "./rows.ts"
import { subscriptionLifecycle } from "./Subscription.ts"

const subscriptions = firing({
  kind: "subscription",
  lock: lockSubscriptions,
  fire: (due, now) =>
    Effect.gen(function* () {
      const terms = yield* readTerms(due.map(({ row }) => refOf(row)))
      const reminders = yield* dueReminders(
        due.filter(({ event }) => event.type === REMINDER).map(({ row, event }) => ({ row, at: event.at })),
        now,
      )
      const commands = due.flatMap(({ row, event }): ReadonlyArray<Command<SubscriptionRow>> => {
        if (event.type === REMINDER) {
          const reminder = reminders.found.get(row.id)
          const reminding = { ...event, ...reminder }
          return reminder === undefined ? [] : [{ row, event: reminding }]
        }
        const { overage_per_unit_kobo: unitKobo, pro_rate: proRate } = terms.get(row.id)!
        const usage = row.units > 0 && unitKobo !== null ? { unitKobo } : {}
        return [{ row, event: { ...event, ...usage, ...(row.pause === null ? {} : { proRate }) } }]
      })
      const transitions = advance(subscriptionLifecycle, commands)
      const { attempts } = yield* commitSubscriptions(transitions, { now, terms })
      yield* dropIgnored(due, new Set(transitions.map(({ row }) => row.id)))
      yield* setTimers(reminders.timers.set)
      const { at } = yield* Wakeups
      yield* at(reminders.timers.set.filter((timer) => timer.test_clock_id === null).map((timer) => timer.due_at))
      return collect(attempts, now)
    }),
})

const charges = firing({
  kind: "charge",
  lock: lockCharges,
  fire: (due, now) =>
    Effect.gen(function* () {
      const transitions = advance(chargeLifecycle, due)
      const asking = yield* startAsking(transitions, now)
      yield* dropIgnored(due, new Set(transitions.map(({ row }) => row.id)))
      return ask(asking, now)
    }),
})

/** Charges first: what a rail knows by now comes before what is decided on it. */
export const firings = [charges, subscriptions]
