/** What nudges by hand can say of a subscription. */
import { Effect } from "effect"
import type { Subjects } from "../nudge/Nudges.ts"
import { aboutOf, readRules } from "./reminding.ts"
import { findSubscriptions } from "./Subscriptions.ts"

export const subjects: Subjects = (tenant, id) =>
  Effect.gen(function* () {
    const [row] = yield* findSubscriptions(tenant, [id])
    if (row === undefined) return undefined
    const rules = yield* readRules([row])
    return { customerId: row.customer_id, about: aboutOf(row, rules.get(row.plan_id)!.unitKobo) }
  })
