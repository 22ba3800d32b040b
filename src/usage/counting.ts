/** Counting towards the allowance of an account's API plan, and saying that a part of it is used up (decisions K2, K3). */
import { PgTypes } from "@effect/sql-pg"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { emailOwner } from "../account/ownerEmail.ts"
import type { ApiPlan } from "../apiPlans.ts"
import { appendEvents } from "../event/events.ts"
import { currentTime } from "../wallClock.ts"
import { ALLOWANCES, monthOf, type Threshold, thresholdsReached } from "./allowances.ts"
import type { UsageThreshold } from "./api.ts"

type Used = typeof UsageThreshold.Type

/** What is counted: the columns that have the count and what was announced of it, and the field of the allowance. */
const COUNTED = {
  write_requests: { count: "write_requests", announced: "write_threshold", included: "writes" },
  nudges: { count: "nudges", announced: "nudge_threshold", included: "nudges" },
} as const

/** Tells the account and its owner, once, that a part of an allowance is used up. */
const announce = Effect.fnUntraced(function* (
  account: string,
  metric: Used["metric"],
  reached: ReadonlyArray<Threshold>,
  count: Pick<Used, "used" | "included">,
) {
  const at = currentTime()
  const what = metric === "nudges" ? "nudges" : "write requests"
  yield* appendEvents(
    reached.map((threshold) => ({
      account_id: account,
      livemode: true,
      type: "usage.threshold_reached",
      object: { object: "usage_threshold", metric, threshold, ...count },
      previous: {},
      test_clock_id: null,
      at,
    })),
  )
  for (const threshold of reached) {
    const body = `You have used ${count.used} of the ${count.included} ${what} that your plan includes this month (${threshold} %). What goes beyond is billed, not blocked.`
    yield* emailOwner(
      { account_id: account, livemode: true },
      { subject: `${threshold} % of this month's ${what} are used`, body },
    )
  }
})

/**
 * Counts so many of this month's, in the running transaction; returns what is used by then, and when the month ends. The month is that of
 * the wall clock: only what is live is counted. `plan`: the account's, where it is known.
 */
export const countTowards = Effect.fnUntraced(function* (
  account: string,
  metric: Used["metric"],
  by: number,
  plan?: ApiPlan,
) {
  const sql = yield* SqlClient.SqlClient
  const { start, end } = monthOf(currentTime())
  const columns = COUNTED[metric]
  const [count, announced] = [sql(columns.count), sql(columns.announced)]
  const planned = plan === undefined ? sql`(SELECT api_plan FROM account WHERE id = ${account})` : sql`${plan}::text`
  const [counted] = yield* sql<{ used: number; announced: number; plan: ApiPlan }>`
    INSERT INTO usage_counter AS u (account_id, livemode, period_start_at, ${count}) VALUES (${account}, true, ${PgTypes.timestamptz(start)}, ${by})
    ON CONFLICT (account_id, livemode, period_start_at) DO UPDATE SET ${count} = u.${count} + excluded.${count}, updated_at = now()
    RETURNING ${count} AS used, ${announced} AS announced, ${planned} AS plan`
  const { used } = counted!
  const included = ALLOWANCES[counted!.plan][columns.included]
  const reached = thresholdsReached(used, included, counted!.announced)
  if (included !== null && reached.length > 0) {
    yield* sql`
      UPDATE usage_counter SET ${announced} = ${reached.at(-1)!}
      WHERE account_id = ${account} AND livemode AND period_start_at = ${PgTypes.timestamptz(start)}`
    yield* announce(account, metric, reached, { used, included })
  }
  return { used, included, end }
})
