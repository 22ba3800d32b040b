/** Tests billing cycles over years: each renewal is on its grid, with month ends and leap years (decision D2). */

import { Effect } from "effect"
import fc from "fast-check"
import { describe, expect, it } from "vitest"
import { boundary } from "../../machines/calendar.ts"
import { useInstance } from "../support/instance.ts"
import { advance, createClock, createCustomer, createPlan, data, eventually } from "../support/story.ts"
import { useWhole } from "../support/whole.ts"

const { api, database } = useInstance()
useWhole(database)

const YEARS = [2024, 2025, 2026, 2027]

/** Month ends of a real calendar, written without our own arithmetic. */
const FEBRUARY = (year: number) => (year % 4 === 0 ? "29" : "28")
const lastOf = (year: number, month: number) =>
  ["31", FEBRUARY(year), "31", "30", "31", "30", "31", "31", "30", "31", "30", "31"][month - 1]!
const two = (n: number) => String(n).padStart(2, "0")

const months = (first: string, day: number, step: number, time: string): ReadonlyArray<string> => {
  const [year, month] = first.split("-").map(Number) as [number, number]
  const found: Array<string> = []
  for (let n = step; ; n += step) {
    const at = { year: year + Math.floor((month - 1 + n) / 12), month: ((month - 1 + n) % 12) + 1 }
    const last = Number(lastOf(at.year, at.month))
    const instant = `${at.year}-${two(at.month)}-${two(Math.min(day, last))}T${time}`
    if (instant > "2027-03-01") return found
    found.push(instant)
  }
}

const TABLE = [
  { cycle: "monthly", start: "2023-12-31T23:59:59.999Z", renewals: months("2023-12", 31, 1, "23:59:59.999Z") },
  { cycle: "monthly", start: "2024-01-30T00:00:00.000Z", renewals: months("2024-01", 30, 1, "00:00:00.000Z") },
  { cycle: "monthly", start: "2024-01-29T12:30:00.000Z", renewals: months("2024-01", 29, 1, "12:30:00.000Z") },
  { cycle: "monthly", start: "2024-02-29T06:00:00.000Z", renewals: months("2024-02", 29, 1, "06:00:00.000Z") },
  { cycle: "quarterly", start: "2023-11-30T01:00:00.000Z", renewals: months("2023-11", 30, 3, "01:00:00.000Z") },
  { cycle: "quarterly", start: "2024-08-31T22:00:00.000Z", renewals: months("2024-08", 31, 3, "22:00:00.000Z") },
] as const

const renewalsOf = async (id: string) =>
  (await api.all(`/charges?subscription=${id}`))
    .toReversed()
    .slice(1)
    .map(({ created_at }) => created_at as string)

/** Advances year by year: a clock moves at most one year ahead. */
const advanceTo = async (clock: string, target: string) => {
  for (const year of YEARS) {
    const stop = `${year}-01-01T00:00:00.000Z`
    const { frozen_time } = data(await api.get(`/test/clocks/${clock}`))
    if (stop > frozen_time && stop < target) await advance(api, clock, stop)
  }
  await advance(api, clock, target)
}

describe.concurrent("billing cycles", () => {
  it.each(TABLE)("$cycle from $start", async ({ cycle, start, renewals }) => {
    const clock = await createClock(api, start)
    const customer = await createCustomer(api, { test_clock: clock })
    const plan = await createPlan(api, { billing_cycle: cycle })
    const { id } = data(await api.post("/subscriptions", { customer, plan, payment_method: "pm_test_success" }), 201)
    await advanceTo(clock, "2027-03-01T00:00:00.000Z")
    expect(await renewalsOf(id)).toEqual(renewals)
    expect(renewals.length).toBeGreaterThan(9)
  })

  it.each([
    ["weekly", 7, "2024-02-26T10:00:00.000Z", "2025-03-04T00:00:00.000Z"],
    ["daily", 1, "2024-02-27T10:00:00.000Z", "2024-04-05T00:00:00.000Z"],
  ] as const)("%s, over a leap day", async (cycle, days, start, end) => {
    const clock = await createClock(api, start)
    const customer = await createCustomer(api, { test_clock: clock })
    const plan = await createPlan(api, { billing_cycle: cycle })
    const { id } = data(await api.post("/subscriptions", { customer, plan, payment_method: "pm_test_success" }), 201)
    await advanceTo(clock, end)
    const step = days * 86_400_000
    const expected: Array<string> = []
    for (let at = Date.parse(start) + step; at <= Date.parse(end); at += step) expected.push(new Date(at).toISOString())
    expect(await renewalsOf(id)).toEqual(expected)
  })

  it("after a trial are counted from its end, and from the first of March if that was a leap day", async () => {
    const clock = await createClock(api, "2024-01-31T00:00:00Z")
    const customer = await createCustomer(api, { test_clock: clock })
    const plan = await createPlan(api, { trial_days: 29 })
    const { id, trial_end } = data(
      await api.post("/subscriptions", { customer, plan, payment_method: "pm_test_success" }),
      201,
    )
    expect(trial_end).toBe("2024-02-29T00:00:00.000Z")
    await advanceTo(clock, "2025-03-30T00:00:00.000Z")
    expect((await renewalsOf(id)).slice(-3)).toEqual([
      "2025-01-29T00:00:00.000Z",
      "2025-02-28T00:00:00.000Z",
      "2025-03-29T00:00:00.000Z",
    ])
  })
})

describe.concurrent("the grid in the database", () => {
  it("matches the machine's grid, for any anchor and cycle", async () => {
    const anchors = fc.sample(
      fc.record({
        at: fc.integer({ min: Date.UTC(1999, 0, 1), max: Date.UTC(2101, 0, 1) }),
        n: fc.integer({ min: 0, max: 1300 }),
        cycle: fc.constantFrom("daily" as const, "weekly" as const, "monthly" as const, "quarterly" as const),
      }),
      400,
    )
    const rows = await database.run(
      (sql) => sql<{ at: number }>`
        SELECT period_boundary(cycle, anchor::timestamptz, n) AS at
        FROM unnest(${anchors.map(({ cycle }) => cycle)}::text[], ${anchors.map(({ at }) => new Date(at).toISOString())}::text[], ${anchors.map(({ n }) => n)}::integer[]) WITH ORDINALITY AS a (cycle, anchor, n, i)
        ORDER BY i`,
    )
    expect(rows).toHaveLength(anchors.length)
    for (const [index, { at, n, cycle }] of anchors.entries())
      expect(rows[index]!.at, `${cycle} ${new Date(at).toISOString()} + ${n}`).toBe(boundary(cycle, at, n))
  })

  it("allows no period off it", async () => {
    const customer = await createCustomer(api)
    const plan = await createPlan(api)
    const { id } = data(await api.post("/subscriptions", { customer, plan, payment_method: "pm_test_success" }), 201)
    const moved = database.run(
      (sql) => sql`UPDATE subscription SET period_end_at = period_end_at + interval '1 day' WHERE id = ${id}`,
    )
    await expect(moved).rejects.toMatchObject({ reason: { cause: { constraint: "subscription_period_on_grid" } } })
    // Nor if rows are copied, which has no search_path.
    const copied = (days: number) =>
      database.run((sql) =>
        sql.withTransaction(
          Effect.andThen(
            sql`SET LOCAL search_path = ''`,
            sql`UPDATE public.subscription SET period_end_at = period_end_at + ${days} * interval '1 day' WHERE id = ${id}`,
          ),
        ),
      )
    await copied(0)
    await expect(copied(1)).rejects.toMatchObject({ reason: { cause: { constraint: "subscription_period_on_grid" } } })
  })
})

describe.concurrent("an advance", () => {
  it("of a full year of a daily plan renews every day, in order", async () => {
    const clock = await createClock(api, "2024-02-28T00:00:00Z")
    const customer = await createCustomer(api, { test_clock: clock })
    const plan = await createPlan(api, { billing_cycle: "daily" })
    const { id } = data(await api.post("/subscriptions", { customer, plan, payment_method: "pm_test_success" }), 201)
    data(await api.post(`/test/clocks/${clock}/advance`, { frozen_time: "2025-02-28T00:00:00Z" }), 202)
    await eventually(async () => (data(await api.get(`/test/clocks/${clock}`)).status === "ready" ? true : undefined))
    const renewals = await renewalsOf(id)
    expect(renewals).toHaveLength(366)
    expect(renewals).toEqual([...renewals].sort())
  })
})
