/** What nudges count towards: the allowance of their account's API plan (decision K2). */
import { Effect } from "effect"
import { hasEffect } from "../../../machines/decide.ts"
import { countTowards } from "../../merchants/usage/counting.ts"
import type { NudgeTransition } from "./nudge.ts"

/** Counts the nudges that count from here on; returns the IDs of those that lie beyond their account's allowance. */
export const countNudges = Effect.fnUntraced(function* (transitions: ReadonlyArray<NudgeTransition>) {
  const beyond = new Set<string>()
  const counting = transitions.filter(({ row, decision }) => row.livemode && hasEffect(decision, "count"))
  // In one order everywhere, so that no two processes wait for each other.
  const accounts = [...Map.groupBy(counting, ({ row }) => row.account_id)].sort(([a], [b]) => (a < b ? -1 : 1))
  for (const [account, its] of accounts) {
    const { used, included } = yield* countTowards(account, "nudges", its.length)
    const over = included === null ? 0 : Math.min(its.length, Math.max(0, used - included))
    for (const { row } of its.slice(its.length - over)) beyond.add(row.id)
  }
  return beyond
})
