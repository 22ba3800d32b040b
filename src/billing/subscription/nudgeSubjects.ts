/** Provides the facts about a subscription for nudges sent by hand. */
import { Effect, Layer } from "effect"
import { NudgeSubjects } from "../../outbound/nudge/NudgeSubjects.ts"
import { aboutOf } from "./reminders.ts"
import { subscriptions } from "./subscription.ts"
import { readTerms } from "./terms.ts"

export const nudgeSubjectsLayer = Layer.succeed(NudgeSubjects, {
  find: Effect.fnUntraced(function* (tenant, subscriptionId) {
    const row = yield* subscriptions.get(tenant, subscriptionId)
    const { overage_per_unit_kobo: unitKobo, pro_rate: proRate } = (yield* readTerms([row])).get(row.id)!
    return { customerId: row.customer_id, about: aboutOf(row, { unitKobo: unitKobo ?? 0, proRate }) }
  }),
})
