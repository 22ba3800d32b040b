/** The figures of Home: what was collected, what is owed, and what comes. They are read from totals of days, and never from all rows. */
import { PgTypes } from "@effect/sql-pg"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { DAY_MS, formatDayOf } from "../base/time.ts"
import { currentTime } from "../base/wallClock.ts"
import { ofTenant, type Tenant } from "../db/tenant.ts"
import { type DayTotal, newestDay, readBalances, readDays } from "../ledger/dayTotals.ts"
import type { HomeFigures, Upcoming } from "../pages/dashboard/home.ts"
import { MAX_COUNTED, statusCounts } from "./counts.ts"

/** How many days Home shows, back and ahead. */
const DAYS = 30

const LAST_DAY = "8999-12-31"

/** The rules by which a payment of a customer is booked when it is taken, and kept. */
const COLLECTED = ["paid", "overdue_paid", "deposit_paid"]

const startOf = (day: string): number => Date.parse(`${day}T00:00:00Z`)
const daysAfter = (day: string, days: number): string => formatDayOf(startOf(day) + days * DAY_MS)

/** The days from one to another, both included. */
const daysBetween = (from: string, to: string): ReadonlyArray<string> =>
  Array.from({ length: Math.round((startOf(to) - startOf(from)) / DAY_MS) + 1 }, (_, at) => daysAfter(from, at))

const net = ({ debit_kobo, credit_kobo }: Pick<DayTotal, "debit_kobo" | "credit_kobo">): number =>
  debit_kobo - credit_kobo

const total = (values: ReadonlyArray<number>): number => values.reduce((sum, one) => sum + one, 0)

/** Sums a value of the totals by day, for each of the days. */
const byDay = (days: ReadonlyArray<string>, totals: ReadonlyArray<DayTotal>, value: (total: DayTotal) => number) => {
  const sums = new Map<string, number>()
  for (const one of totals) sums.set(one.day, (sums.get(one.day) ?? 0) + value(one))
  return days.map((day) => ({ day, value: sums.get(day) ?? 0 }))
}

type Moves = ReturnType<typeof byDay>

/** The balance at the end of each day, from the balance at the end of the last one. */
const balances = (moves: Moves, last: number): Moves => {
  let after = last
  return moves
    .toReversed()
    .map(({ day, value }) => {
      const here = { day, value: after }
      after -= value
      return here
    })
    .toReversed()
}

/**
 * Reads what subscriptions are charged in the days after `day`, by day: the next charge of each, at the present price and quantity, without
 * overage. It reads at most {@link MAX_COUNTED} subscriptions: of a larger account it is a lower bound. The order makes it
 * read the index by status, and so no cancelled subscriptions.
 */
const readUpcoming = Effect.fnUntraced(function* (tenant: Tenant, day: string) {
  const sql = yield* SqlClient.SqlClient
  const from = PgTypes.timestamptz(startOf(daysAfter(day, 1)))
  const until = PgTypes.timestamptz(startOf(daysAfter(day, DAYS + 1)))
  const rows = yield* sql<{ day: string | null; kobo: number; read: number }>`
    SELECT CASE WHEN s.next_charge_at >= ${from} AND s.next_charge_at < ${until} THEN (s.next_charge_at AT TIME ZONE 'UTC')::date::text END AS day,
      sum(s.price_kobo * s.quantity)::bigint AS kobo, count(*)::integer AS read
    FROM (
      SELECT next_charge_at, price_kobo, quantity FROM subscription
      WHERE status IN ('active', 'trialing') AND ${ofTenant(sql, tenant)} ORDER BY status LIMIT ${MAX_COUNTED + 1}
    ) s GROUP BY 1`
  const sums = new Map(rows.map((row) => [row.day, row.kobo]))
  const days = daysBetween(daysAfter(day, 1), daysAfter(day, DAYS)).map((one) => ({
    day: one,
    value: sums.get(one) ?? 0,
  }))
  return {
    isLowerBound: total(rows.map(({ read }) => read)) > MAX_COUNTED,
    kobo: total(days.map(({ value }) => value)),
    days,
  } satisfies Upcoming
})

/** The last day of the figures: today, or in a sandbox the newest day of its books, where test clocks may be. */
const lastDay = Effect.fnUntraced(function* (tenant: Tenant) {
  const today = formatDayOf(currentTime())
  if (tenant.livemode) return today
  const newest = yield* Effect.all([newestDay(tenant, "clearing"), newestDay(tenant, "receivable")])
  return newest.reduce((last, day) => (day > last ? day : last)) || today
})

const MRR_KINDS = ["new", "reactivation", "expansion", "contraction", "churn"]

/** Reads the figures of an account, as the tenant. */
export const readFigures = Effect.fnUntraced(function* (tenant: Tenant) {
  const to = yield* lastDay(tenant)
  const from = daysAfter(to, 1 - DAYS)
  const [taken, owed, moved, sums, upcoming, counts] = yield* Effect.all(
    [
      readDays(tenant, "clearing", from, to),
      readDays(tenant, "receivable", from, to),
      readDays(tenant, "mrr", from, to),
      readBalances(tenant, LAST_DAY, ["receivable", "mrr"]),
      readUpcoming(tenant, to),
      statusCounts(tenant),
    ],
    { concurrency: "unbounded" },
  )
  const days = daysBetween(from, to)
  const balanceOf = (measure: string): number => total(sums.filter((one) => one.measure === measure).map(net))
  const collected = byDay(days, taken, ({ event, debit_kobo }) => (COLLECTED.includes(event) ? debit_kobo : 0))
  const recovered = byDay(days, taken, ({ event, debit_kobo }) => (event === "overdue_paid" ? debit_kobo : 0))
  return {
    from,
    to,
    collected,
    recovered,
    overdue: balances(byDay(days, owed, net), balanceOf("receivable")),
    overdueKobo: balanceOf("receivable"),
    mrr: balances(byDay(days, moved, net), balanceOf("mrr")),
    mrrKobo: balanceOf("mrr"),
    movements: MRR_KINDS.map((kind) => ({
      kind,
      kobo: total(moved.filter(({ event }) => event === kind).map(net)),
      count: total(moved.filter(({ event }) => event === kind).map(({ count }) => count)),
    })),
    upcoming,
    counts,
  } satisfies HomeFigures
})
