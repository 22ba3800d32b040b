/** What nudges by hand can say of a subscription. */
import { Effect, Layer } from "effect"
import { NudgeSubjects } from "../nudge/NudgeSubjects.ts"
import { aboutOf } from "./reminders.ts"
import { subscriptions } from "./subscription.ts"
import { readRules } from "./terms.ts"

export const nudgeSubjectsLayer = Layer.succeed(NudgeSubjects, {
  find: Effect.fnUntraced(function* (tenant, subscriptionId) {
    const row = yield* subscriptions.get(tenant, subscriptionId)
    const rules = yield* readRules([row])
    return { customerId: row.customer_id, about: aboutOf(row, rules.get(row.plan_id)!.unitKobo) }
  }),
})
