/** Counts usage towards the allowance of an account's API plan, and announces reached thresholds (decisions K2, K3). */
import { PgTypes } from "@effect/sql-pg"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import type { ApiPlan } from "../../base/apiPlans.ts"
import { currentTime } from "../../base/wallClock.ts"
import { unitOfWork } from "../../db/UnitOfWork.ts"
import { appendEvents } from "../../outbound/event/events.ts"
import { CurrentTransaction } from "../../postgres/transaction.ts"
import { emailOwners } from "../account/letters.ts"
import { ALLOWANCES, monthOf, THRESHOLDS, type Threshold, thresholdsReached } from "./allowances.ts"
import type { UsageThreshold } from "./api.ts"

type Used = typeof UsageThreshold.Type

/** For each metric: its columns for the count and the last announced threshold, and its field of the allowance. */
const COUNTED = {
  write_requests: { count: "write_requests", announced: "write_threshold", included: "writes" },
  nudges: { count: "nudges", announced: "nudge_threshold", included: "nudges" },
} as const

/** Announces each reached threshold once: an event for the account and an e-mail to its owner. */
const announce = Effect.fnUntraced(function* (
  account: string,
  metric: Used["metric"],
  reached: ReadonlyArray<Threshold>,
  count: Pick<Used, "used" | "included">,
) {
  const at = currentTime()
  const metricLabel = metric === "nudges" ? "nudges" : "write requests"
  appendEvents(
    yield* unitOfWork,
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
    const body = `You have used ${count.used} of the ${count.included} ${metricLabel} that your plan includes this month (${threshold} %). Usage beyond that is billed, not blocked.`
    yield* emailOwners(
      { account_id: account, livemode: true },
      { subject: `${threshold} % of this month's ${metricLabel} are used`, body },
    )
  }
})

interface Counted {
  readonly used: number
  readonly announced: number
  readonly plan: ApiPlan
}

const countStatement = (
  sql: SqlClient.SqlClient,
  account: string,
  metric: Used["metric"],
  by: number,
  plan: ApiPlan | undefined,
) => {
  const columns = COUNTED[metric]
  const [count, announced] = [sql(columns.count), sql(columns.announced)]
  const start = PgTypes.timestamptz(monthOf(currentTime()).start)
  const currentPlan =
    plan === undefined ? sql`(SELECT api_plan FROM account WHERE id = ${account})` : sql`${plan}::text`
  return sql<Counted>`
    INSERT INTO usage_counter AS u (account_id, livemode, period_start_at, ${count}) VALUES (${account}, true, ${start}, ${by})
    ON CONFLICT (account_id, livemode, period_start_at) DO UPDATE SET ${count} = u.${count} + excluded.${count}, updated_at = now()
    RETURNING ${count} AS used, ${announced} AS announced, ${currentPlan} AS plan`
}

/**
 * Adds `by` to this month's count in the running transaction. Returns the new count and the end of the month. The month follows the
 * wall clock: only live usage is counted. `plan`: the account's API plan, if the caller knows it.
 */
export const countTowards = Effect.fnUntraced(function* (
  account: string,
  metric: Used["metric"],
  by: number,
  plan?: ApiPlan,
) {
  const sql = yield* SqlClient.SqlClient
  const { start, end } = monthOf(currentTime())
  const [counted] = yield* countStatement(sql, account, metric, by, plan)
  const { used } = counted!
  const included = ALLOWANCES[counted!.plan][COUNTED[metric].included]
  const reached = thresholdsReached(used, included, counted!.announced)
  if (included !== null && reached.length > 0) {
    yield* sql`
      UPDATE usage_counter SET ${sql(COUNTED[metric].announced)} = ${reached.at(-1)!}
      WHERE account_id = ${account} AND livemode AND period_start_at = ${PgTypes.timestamptz(start)}`
    yield* announce(account, metric, reached, { used, included })
  }
  return { used, included, end }
})

/**
 * Counts in the last statement of the transaction and expects that no threshold is reached. Returns a function for the new count, valid
 * after the commit. If a threshold is reached, the transaction is retried and counts by `countTowards`.
 */
export const countLast = Effect.fnUntraced(function* (
  account: string,
  metric: Used["metric"],
  by: number,
  plan: ApiPlan,
) {
  const { end } = monthOf(currentTime())
  if ((yield* CurrentTransaction)?.isRetry === true) {
    const { used } = yield* countTowards(account, metric, by, plan)
    return () => ({ used, end })
  }
  const unit = yield* unitOfWork
  const { sql } = unit
  let used = 0
  unit.add([["usage", countStatement(sql, account, metric, by, plan)]], {
    usage: ([counted]) => {
      used = (counted as Counted).used
    },
  })
  const included = ALLOWANCES[plan][COUNTED[metric].included]
  if (included !== null) {
    const reachesThreshold = THRESHOLDS.map(
      (percent) => sql`(announced < ${percent} AND used * 100 >= ${included * percent}::bigint)`,
    )
    unit.expect({
      name: "usage_below_threshold",
      statement: sql`SELECT FROM usage WHERE NOT (${sql.or(reachesThreshold)})`,
      rows: 1,
    })
  }
  return () => ({ used, end })
})
