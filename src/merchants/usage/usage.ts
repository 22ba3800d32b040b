/** Reads the usage of an account, by month (decisions K1, K2, K5, K6). */
import { PgTypes } from "@effect/sql-pg"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import type { ApiPlan } from "../../base/apiPlans.ts"
import { invalid } from "../../base/problem.ts"
import { formatInstant, parseInstant } from "../../base/time.ts"
import { currentTime } from "../../base/wallClock.ts"
import type { Tenant } from "../../db/tenant.ts"
import { limitIn } from "../../http/lists.ts"
import { Metering } from "../../http/Metering.ts"
import { type AccountRow, findAccount } from "../account/accounts.ts"
import { ALLOWANCES, monthOf, nudgeOverage, WRITE_BLOCK_KOBO, writeOverage } from "./allowances.ts"
import type { Usage as UsageShown } from "./api.ts"

export interface UsageRow {
  readonly period_start_at: number
  readonly write_requests: number
  readonly read_requests: number
  readonly nudges: number
  readonly updated_at: number
}

export interface PlanChangeRow {
  readonly previous_plan: ApiPlan
  readonly new_plan: ApiPlan
  readonly created_at: number
}

/** Reads an account's monthly counts from `from` on, by start of the month. Months without usage are missing. */
export const readUsage = Effect.fnUntraced(function* (account: string, from: number) {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<UsageRow>`
    SELECT * FROM usage_counter WHERE account_id = ${account} AND livemode AND period_start_at >= ${PgTypes.timestamptz(from)}`
  return new Map(rows.map((row) => [row.period_start_at, row]))
})

/** Reads an account's plan changes, oldest first. */
export const readPlanChanges = Effect.fnUntraced(function* (account: string) {
  const sql = yield* SqlClient.SqlClient
  return yield* sql<PlanChangeRow>`SELECT * FROM account_plan_change WHERE account_id = ${account} AND livemode ORDER BY id`
})

/** Returns the plan that was in force just before `at`. */
export const planBefore = (account: AccountRow, changes: ReadonlyArray<PlanChangeRow>, at: number): ApiPlan =>
  changes.find(({ created_at }) => created_at >= at)?.previous_plan ?? account.api_plan

const render = (
  livemode: boolean,
  plan: ApiPlan,
  period: { start: number; end: number },
  row: UsageRow | undefined,
): typeof UsageShown.Type => {
  const allowance = ALLOWANCES[plan]
  const writes = row?.write_requests ?? 0
  const nudges = row?.nudges ?? 0
  const { overage, amountKobo } = writeOverage(writes, allowance)
  const over = nudgeOverage(nudges, allowance)
  return {
    object: "usage",
    livemode,
    plan,
    period: { start: formatInstant(period.start), end: formatInstant(period.end) },
    write_requests: {
      used: writes,
      included: allowance.writes,
      remaining: allowance.writes === null ? null : Math.max(0, allowance.writes - writes),
      overage,
      overage_rate_per_1000: allowance.writes === null ? null : WRITE_BLOCK_KOBO,
      projected_overage_amount: amountKobo,
    },
    read_requests: { used: row?.read_requests ?? 0, metered: false },
    nudges: {
      used: nudges,
      included: allowance.nudges,
      overage: over.overage,
      overage_rate: allowance.nudgeKobo,
      overage_amount: over.amountKobo,
      overage_cap: allowance.nudgeCapKobo,
    },
    updated_at: formatInstant(row?.updated_at ?? Math.min(currentTime(), period.end)),
  }
}

/** Returns this month's usage. Sandbox usage is not counted (decision K5). */
export const currentUsage = Effect.fn("usage.get")(function* ({ account_id, livemode }: Tenant) {
  const account = (yield* findAccount(account_id))!
  const period = monthOf(currentTime())
  const waiting = livemode ? (yield* Metering).readsWaiting(account_id, period.start) : 0
  const row = livemode ? (yield* readUsage(account_id, period.start)).get(period.start) : undefined
  const shown = render(livemode, account.api_plan, period, row)
  return { ...shown, read_requests: { ...shown.read_requests, used: shown.read_requests.used + waiting } }
})

/** Lists the past months since the account was created, newest first. The cursor is a `period.start` (decision B8). */
export const usageHistory = Effect.fn("usage.history")(function* (
  { account_id, livemode }: Tenant,
  query: { readonly limit?: string; readonly starting_after?: string },
) {
  const account = (yield* findAccount(account_id))!
  const changes = yield* readPlanChanges(account_id)
  const limit = limitIn(query)
  const first = monthOf(account.created_at).start
  const cursor = query.starting_after === undefined ? undefined : parseInstant(query.starting_after)
  const isValid = cursor !== undefined && cursor === monthOf(cursor).start && cursor >= first && cursor <= currentTime()
  if (query.starting_after !== undefined && !isValid)
    return yield* invalid("starting_after", "starting_after must be the period.start of a month in this list.")
  const periods: Array<{ start: number; end: number }> = []
  for (let period = monthOf(cursor ?? currentTime(), -1); period.start >= first; period = monthOf(period.start, -1)) {
    periods.push(period)
    if (periods.length > limit) break
  }
  const rows = livemode ? yield* readUsage(account_id, periods.at(-1)?.start ?? first) : new Map<number, UsageRow>()
  const data = periods
    .slice(0, limit)
    .map((period) => render(livemode, planBefore(account, changes, period.end), period, rows.get(period.start)))
  return {
    data,
    hasMore: periods.length > limit,
    limit,
    cursorOf: ({ period }: typeof UsageShown.Type) => period.start,
  }
})
