/** Counts nudges towards the allowance of their account's API plan (decision K2). */
import { Effect } from "effect"
import { hasEffect } from "../../../machines/decide.ts"
import { countTowards } from "../../merchants/usage/counting.ts"
import type { NudgeTransition } from "./nudge.ts"

/** Counts the nudges that these transitions make billable. Returns the IDs of those beyond their account's allowance. */
export const countNudges = Effect.fnUntraced(function* (transitions: ReadonlyArray<NudgeTransition>) {
  const beyond = new Set<string>()
  const counting = transitions.filter(({ row, decision }) => row.livemode && hasEffect(decision, "count"))
  // Ordered by account, so that processes cannot deadlock.
  const accounts = [...Map.groupBy(counting, ({ row }) => row.account_id)].sort(([a], [b]) => (a < b ? -1 : 1))
  for (const [account, counted] of accounts) {
    const { used, included } = yield* countTowards(account, "nudges", counted.length)
    const over = included === null ? 0 : Math.min(counted.length, Math.max(0, used - included))
    for (const { row } of counted.slice(counted.length - over)) beyond.add(row.id)
  }
  return beyond
})
