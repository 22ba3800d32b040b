/** Summarises instalment plans (decision L9), from indexes without the plans' rows. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { DAY_MS, formatDayOf } from "../../base/time.ts"
import { currentTime } from "../../base/wallClock.ts"
import { rowsAsTable } from "../../db/rows.ts"
import { ofTenant, type Tenant } from "../../db/tenant.ts"
import type { Period } from "./api.ts"
import { ProductViews } from "./ProductViews.ts"
import { naira } from "./plan.ts"
import { readProducts, renderProduct } from "./products.ts"

const DAYS = { "7d": 7, "30d": 30, "90d": 90 } as const
const MONTHS = 12

/** Returns the first instants (UTC) of the days, or months, of a period that ends today. */
const stepsOf = (period: Period, now: number): ReadonlyArray<number> => {
  const today = new Date(now)
  const [year, month, date] = [today.getUTCFullYear(), today.getUTCMonth(), today.getUTCDate()]
  return period === "12m"
    ? Array.from({ length: MONTHS }, (_, n) => Date.UTC(year, month - MONTHS + 1 + n, 1))
    : Array.from({ length: DAYS[period] }, (_, n) => Date.UTC(year, month, date) - (DAYS[period] - 1 - n) * DAY_MS)
}

const STEP = { from_at: "timestamptz", to_at: "timestamptz" } as const

/** Reads the amount collected and the plans started in each step. Each value is one index range, so that nothing is computed row by row. */
const readSeries = Effect.fnUntraced(function* (tenant: Tenant, period: Period) {
  const sql = yield* SqlClient.SqlClient
  const now = currentTime()
  const steps = stepsOf(period, now)
  const rows = steps.map((from_at, n) => ({ from_at, to_at: steps[n + 1] ?? now + 1 }))
  const found = yield* sql<{ from_at: number; kobo: number; plans: number }>`
    SELECT s.from_at, c.kobo, p.plans FROM ${rowsAsTable(rows, STEP)} s
    CROSS JOIN LATERAL (
      SELECT coalesce(sum(amount_kobo), 0)::bigint AS kobo FROM charge
      WHERE ${ofTenant(sql, tenant)} AND purpose = 'instalment' AND status = 'succeeded' AND NOT refund_due AND paid_at >= s.from_at AND paid_at < s.to_at
    ) c
    CROSS JOIN LATERAL (
      SELECT count(*) AS plans FROM instalment_plan WHERE ${ofTenant(sql, tenant)} AND created_at >= s.from_at AND created_at < s.to_at
    ) p
    ORDER BY s.from_at`
  return found.map(({ from_at, kobo, plans }) => ({
    date: formatDayOf(from_at),
    collected: naira(kobo),
    newPlans: plans,
  }))
})

/** Returns a rate, rounded to four decimal places. */
const rate = (part: number, whole: number): number => (whole === 0 ? 0 : Math.round((part / whole) * 10_000) / 10_000)

export const summarise = Effect.fn("instalment.summary")(function* (tenant: Tenant, period: Period) {
  const series = yield* readSeries(tenant, period)
  const { rows, sold } = yield* readProducts(tenant)
  const views = yield* ProductViews
  const all = [...sold.values()]
  const sum = (of: (one: (typeof all)[number]) => number): number => all.reduce((total, one) => total + of(one), 0)
  const [ready, shipped, delivered] = [
    sum(({ completed }) => completed),
    sum(({ shipped }) => shipped),
    sum(({ delivered }) => delivered),
  ]
  return {
    series,
    outstanding: {
      total: naira(sum(({ outstanding_kobo }) => outstanding_kobo)),
      overdue: naira(sum(({ missed_kobo }) => missed_kobo)),
    },
    fulfilment: { readyToDeliver: ready, shipped, delivered },
    completionRate: rate(
      ready + shipped + delivered,
      sum(({ begun }) => begun),
    ),
    products: rows.map((row) => renderProduct(row, sold, views)),
  }
})
