/** How instalment plans do (decision L9), in four statements that read indexes and no plan's row. */
import { PgTypes } from "@effect/sql-pg"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { ofTenant, type Tenant } from "../db/tenant.ts"
import { DAY_MS } from "../time.ts"
import type { Period } from "./api.ts"
import { naira } from "./plan.ts"
import { readProducts, renderProduct } from "./products.ts"
import { Views } from "./Views.ts"

const DAYS = { "7d": 7, "30d": 30, "90d": 90 } as const
const MONTHS = 12

/** The days, or months, of a period that ends today, as their first instants: UTC. */
const stepsOf = (period: Period, now: number): ReadonlyArray<number> => {
  const today = new Date(now)
  const [year, month, date] = [today.getUTCFullYear(), today.getUTCMonth(), today.getUTCDate()]
  return period === "12m"
    ? Array.from({ length: MONTHS }, (_, n) => Date.UTC(year, month - MONTHS + 1 + n, 1))
    : Array.from({ length: DAYS[period] }, (_, n) => Date.UTC(year, month, date) - (DAYS[period] - 1 - n) * DAY_MS)
}

const dateOf = (at: number): string => new Date(at).toISOString().slice(0, 10)

const readSeries = Effect.fnUntraced(function* (tenant: Tenant, period: Period) {
  const sql = yield* SqlClient.SqlClient
  const steps = stepsOf(period, Date.now())
  const from = PgTypes.timestamptz(steps[0]!)
  const unit = sql.literal(period === "12m" ? "'month'" : "'day'")
  const by = (column: string) =>
    sql`to_char(date_trunc(${unit}, ${sql(column)}, 'UTC') AT TIME ZONE 'UTC', 'YYYY-MM-DD')`
  const collected = yield* sql<{ date: string; kobo: number }>`
    SELECT ${by("paid_at")} AS date, sum(amount_kobo)::bigint AS kobo FROM charge
    WHERE ${ofTenant(sql, tenant)} AND purpose = 'instalment' AND status = 'succeeded' AND paid_at >= ${from} AND paid_at <= now() GROUP BY 1`
  const begun = yield* sql<{ date: string; n: number }>`
    SELECT ${by("created_at")} AS date, count(*) AS n FROM instalment_plan
    WHERE ${ofTenant(sql, tenant)} AND created_at >= ${from} AND created_at <= now() GROUP BY 1`
  const [kobo, plans] = [
    new Map(collected.map(({ date, kobo }) => [date, kobo])),
    new Map(begun.map(({ date, n }) => [date, n])),
  ]
  return steps.map(dateOf).map((date) => ({
    date,
    collected: naira(kobo.get(date) ?? 0),
    newPlans: plans.get(date) ?? 0,
  }))
})

/** A rate to four places. */
const rate = (part: number, whole: number): number => (whole === 0 ? 0 : Math.round((part / whole) * 10_000) / 10_000)

export const summarise = Effect.fn("instalment.summary")(function* (tenant: Tenant, period: Period) {
  const series = yield* readSeries(tenant, period)
  const { rows, sold } = yield* readProducts(tenant)
  const views = yield* Views
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
