/** What nudges count towards: the allowance of their account's API plan (decision K2). */
import { PgTypes } from "@effect/sql-pg"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { hasEffect } from "../../machines/decide.ts"
import type { ApiPlan } from "../apiPlans.ts"
import { ALLOWANCES, monthOf, thresholdsReached } from "../usage/allowances.ts"
import { announceThresholds } from "../usage/thresholds.ts"
import type { NudgeTransition } from "./nudge.ts"

/**
 * Counts nudges of an account towards this month's allowance; returns how many of them lie beyond it. The month is that of
 * the wall clock: only live nudges are counted.
 */
const countOf = Effect.fnUntraced(function* (account: string, nudges: number) {
  const sql = yield* SqlClient.SqlClient
  const { start } = monthOf(Date.now())
  const [counted] = yield* sql<{ nudges: number; nudge_threshold: number; api_plan: ApiPlan }>`
    INSERT INTO usage_counter AS u (account_id, livemode, period_start_at, nudges) VALUES (${account}, true, ${PgTypes.timestamptz(start)}, ${nudges})
    ON CONFLICT (account_id, livemode, period_start_at) DO UPDATE SET nudges = u.nudges + excluded.nudges, updated_at = now()
    RETURNING nudges, nudge_threshold, (SELECT api_plan FROM account WHERE id = ${account})`
  const { nudges: used, nudge_threshold: announced, api_plan } = counted!
  const { nudges: included } = ALLOWANCES[api_plan]
  const reached = thresholdsReached(used, included, announced)
  if (reached.length > 0) {
    yield* sql`
      UPDATE usage_counter SET nudge_threshold = ${reached.at(-1)!}
      WHERE account_id = ${account} AND livemode AND period_start_at = ${PgTypes.timestamptz(start)}`
    yield* announceThresholds(account, "nudges", reached, { used, included })
  }
  return Math.min(nudges, Math.max(0, used - included))
})

/** Counts the nudges that count from here on; returns the IDs of those that lie beyond their account's allowance. */
export const countNudges = Effect.fnUntraced(function* (transitions: ReadonlyArray<NudgeTransition>) {
  const beyond = new Set<string>()
  const counting = transitions.filter(({ row, decision }) => row.livemode && hasEffect(decision, "count"))
  // In one order everywhere, so that no two processes wait for each other.
  const accounts = [...Map.groupBy(counting, ({ row }) => row.account_id)].sort(([a], [b]) => (a < b ? -1 : 1))
  for (const [account, its] of accounts) {
    const over = yield* countOf(account, its.length)
    for (const { row } of its.slice(its.length - over)) beyond.add(row.id)
  }
  return beyond
})
