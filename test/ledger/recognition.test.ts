/** Tests that revenue is recognised as it is served: day by day, and the rest when service ends. */
import { describe, expect, it } from "vitest"
import { useInstance } from "../support/instance.ts"
import { advance, createClock, createCustomer, createPlan, data, subscribe } from "../support/story.ts"
import { useWhole } from "../support/whole.ts"

const { api, database } = useInstance()
useWhole(database)

/** The day, event, and movement of each ledger account, for a subscription's and its plan's entries. */
const journal = (plan: string, except: ReadonlyArray<string> = []) =>
  database.run(
    (sql) => sql<{ entry: string }>`
      SELECT format('%s %s %s', e.occurred_on, e.event, string_agg(format('%s %s', l.ledger_account, l.amount_kobo), ', ' ORDER BY l.line_no)) AS entry
      FROM ledger_entry e JOIN ledger_line l ON (l.account_id, l.livemode, l.entry_id) = (e.account_id, e.livemode, e.id)
      WHERE e.plan_id = ${plan} AND NOT e.event = ANY(${except}::text[])
      GROUP BY e.account_id, e.livemode, e.id, e.occurred_on, e.event ORDER BY e.occurred_on, e.id`,
  )
const entries = async (plan: string, except: ReadonlyArray<string> = []) =>
  (await journal(plan, except)).map(({ entry }) => entry)

/** Non-zero balances of a plan's entries by ledger account. */
const balances = async (plan: string) => {
  const rows = await database.run(
    (sql) => sql<{ ledger_account: string; kobo: number }>`
      SELECT l.ledger_account, sum(l.amount_kobo)::bigint AS kobo FROM ledger_entry e
      JOIN ledger_line l ON (l.account_id, l.livemode, l.entry_id) = (e.account_id, e.livemode, e.id)
      WHERE e.plan_id = ${plan} GROUP BY 1 HAVING sum(l.amount_kobo) <> 0 ORDER BY 1`,
  )
  return Object.fromEntries(rows.map(({ ledger_account, kobo }) => [ledger_account, kobo]))
}

const recognised = async (plan: string) => {
  const all = await journal(plan)
  return all.filter(({ entry }) => entry.includes(" recognised ")).map(({ entry }) => entry)
}

describe("a paid period", () => {
  it("is recognised day by day after each day; the last day clears it, and the next period starts", async () => {
    const { clock, plan } = await subscribe(api, "2025-01-31T09:00:00Z", "pm_test_success", { amount: 100_000 })
    await advance(api, clock, "2025-01-31T23:59:59Z")
    expect(await balances(plan)).toEqual({ clearing: 100_000, deferred_revenue: -100_000 })
    await advance(api, clock, "2025-02-01T00:00:00Z")
    expect(await recognised(plan)).toEqual(["2025-01-31 recognised deferred_revenue 3571, subscription_revenue -3571"])
    await advance(api, clock, "2025-02-28T08:00:00Z")
    expect(await balances(plan)).toEqual({ clearing: 100_000, subscription_revenue: -100_000 })
    const days = await recognised(plan)
    expect(days).toHaveLength(28)
    expect(days[1]).toBe("2025-02-01 recognised deferred_revenue 3571, subscription_revenue -3571")
    expect(days[27]).toBe("2025-02-27 recognised deferred_revenue 3572, subscription_revenue -3572")
    await advance(api, clock, "2025-03-02T00:00:00Z")
    // 31 days: 3225.8 each.
    expect(await balances(plan)).toEqual({
      clearing: 200_000,
      deferred_revenue: -93_549,
      subscription_revenue: -106_451,
    })
  })

  it("has the same entries in one advance as in many, over a year and two plans", async () => {
    const entriesAfter = async (steps: ReadonlyArray<string>) => {
      const clock = await createClock(api, "2024-12-31T22:30:00Z")
      const plans = [
        await createPlan(api, { amount: 99_999 }),
        await createPlan(api, { amount: 70_001, billing_cycle: "weekly" }),
      ]
      for (const [n, plan] of [...plans, ...plans].entries()) {
        const customer = await createCustomer(api, { test_clock: clock })
        const body = { customer, plan, payment_method: n < 2 ? "pm_test_success" : "pm_test_succeeds_on_attempt_2" }
        await api.post("/subscriptions", body)
      }
      for (const step of steps) await advance(api, clock, step)
      return Promise.all(plans.map((plan) => entries(plan)))
    }
    const steps = Array.from({ length: 25 }, (_, n) =>
      new Date(Date.UTC(2025, 0, 1) + n * 14.6 * 86_400_000).toISOString(),
    )
    expect(await entriesAfter(steps)).toEqual(await entriesAfter([steps.at(-1)!]))
  })

  it("has one entry for each plan and day, for all subscribers", async () => {
    const clock = await createClock(api, "2025-03-01T00:00:00Z")
    const plan = await createPlan(api, { amount: 31_000 })
    for (let n = 0; n < 5; n++) {
      const customer = await createCustomer(api, { test_clock: clock })
      data(await api.post("/subscriptions", { customer, plan, payment_method: "pm_test_success" }), 201)
    }
    await advance(api, clock, "2025-03-04T12:00:00Z")
    expect(await recognised(plan)).toEqual(
      ["01", "02", "03"].map((day) => `2025-03-${day} recognised deferred_revenue 5000, subscription_revenue -5000`),
    )
  })

  it("with a late payment is caught up on the day of the posting", async () => {
    const { clock, plan } = await subscribe(api, "2025-01-01T20:00:00Z", "pm_test_bank_account", {
      amount: 70_000,
      billing_cycle: "weekly",
    })
    await advance(api, clock, "2025-01-05T06:00:00Z")
    // The bank takes an hour: a charge due at 20:00 is paid on the same day.
    expect((await recognised(plan))[0]).toBe(
      "2025-01-01 recognised deferred_revenue 10000, subscription_revenue -10000",
    )
  })
})

describe("service that ends early", () => {
  it("by cancelling: the rest is kept, immediately", async () => {
    const { clock, id, plan } = await subscribe(api, "2025-04-01T12:00:00Z", "pm_test_success", { amount: 30_000 })
    await advance(api, clock, "2025-04-11T13:00:00Z")
    data(await api.post(`/subscriptions/${id}/cancel`))
    expect(await balances(plan)).toEqual({ clearing: 30_000, subscription_revenue: -30_000 })
    expect((await entries(plan)).at(-1)).toBe(
      "2025-04-11 service_ended deferred_revenue 20000, subscription_revenue -20000",
    )
    await advance(api, clock, "2025-06-01T00:00:00Z")
    expect(await balances(plan)).toEqual({ clearing: 30_000, subscription_revenue: -30_000 })
  })

  it("by cancelling at the period's end: nothing is left", async () => {
    const { clock, id, plan } = await subscribe(api, "2025-04-01T12:00:00Z", "pm_test_success", { amount: 30_000 })
    data(await api.post(`/subscriptions/${id}/cancel`, { at_period_end: true }))
    await advance(api, clock, "2025-05-10T13:00:00Z")
    expect(await balances(plan)).toEqual({ clearing: 30_000, subscription_revenue: -30_000 })
    expect((await entries(plan)).filter((entry) => entry.includes("service_ended"))).toEqual([])
  })

  it("by a pause with credit: only the served part; the credit is served after it", async () => {
    const terms = { amount: 30_000, pause_enabled: true, pro_rate: true }
    const { clock, id, plan } = await subscribe(api, "2025-04-01T12:00:00Z", "pm_test_success", terms)
    await advance(api, clock, "2025-04-11T00:00:00Z")
    data(await api.post(`/subscriptions/${id}/pause`))
    // Nine and a half days. The days had ten.
    expect((await entries(plan)).at(-1)).toBe(
      "2025-04-11 service_paused deferred_revenue -500, subscription_revenue 500",
    )
    await advance(api, clock, "2025-05-01T00:00:00Z")
    expect(await balances(plan)).toEqual({ clearing: 30_000, deferred_revenue: -20_500, subscription_revenue: -9_500 })
    data(await api.post(`/subscriptions/${id}/resume`))
    expect(await balances(plan)).toEqual({ clearing: 39_500, deferred_revenue: -30_000, subscription_revenue: -9_500 })
    await advance(api, clock, "2025-06-01T00:00:00Z")
    expect(await balances(plan)).toMatchObject({ subscription_revenue: -39_500, deferred_revenue: -30_000 })
  })

  it("by a pause without credit: the paid period runs out; the rest at resumption is kept", async () => {
    const terms = { amount: 30_000, pause_enabled: true }
    const { clock, id, plan } = await subscribe(api, "2025-04-01T00:00:00Z", "pm_test_success", {
      ...terms,
      pro_rate: false,
    })
    await advance(api, clock, "2025-04-11T00:00:00Z")
    data(await api.post(`/subscriptions/${id}/pause`))
    await advance(api, clock, "2025-04-21T00:00:00Z")
    expect(await balances(plan)).toEqual({ clearing: 30_000, deferred_revenue: -10_000, subscription_revenue: -20_000 })
    data(await api.post(`/subscriptions/${id}/resume`))
    expect(await balances(plan)).toEqual({ clearing: 60_000, deferred_revenue: -30_000, subscription_revenue: -30_000 })
  })

  it("by cancelling while paused with credit: the credit is kept", async () => {
    const terms = { amount: 30_000, pause_enabled: true, pro_rate: true }
    const { clock, id, plan } = await subscribe(api, "2025-04-01T00:00:00Z", "pm_test_success", terms)
    await advance(api, clock, "2025-04-16T00:00:00Z")
    data(await api.post(`/subscriptions/${id}/pause`))
    await advance(api, clock, "2025-07-01T00:00:00Z")
    data(await api.post(`/subscriptions/${id}/cancel`))
    expect(await balances(plan)).toEqual({ clearing: 30_000, subscription_revenue: -30_000 })
    expect((await entries(plan)).at(-1)).toBe(
      "2025-07-01 service_ended deferred_revenue 15000, subscription_revenue -15000",
    )
  })

  it("by deliveries: each is earned when it is made", async () => {
    const { clock, id, plan } = await subscribe(api, "2025-04-01T00:00:00Z", "pm_test_success", {
      amount: 30_000,
      billing_cycle: "per_delivery",
    })
    await advance(api, clock, "2025-04-20T00:00:00Z")
    expect(await balances(plan)).toEqual({ clearing: 30_000, deferred_revenue: -30_000 })
    data(await api.post(`/subscriptions/${id}/unit-records`, { quantity: 2 }), 201)
    expect(await balances(plan)).toEqual({ clearing: 90_000, deferred_revenue: -60_000, subscription_revenue: -30_000 })
    data(await api.post(`/subscriptions/${id}/cancel`))
    expect(await balances(plan)).toEqual({ clearing: 90_000, subscription_revenue: -90_000 })
  })
})

describe("an unpaid bill", () => {
  const FAILING = "pm_test_success_then_insufficient_funds"

  it("is recognised while it is served; written off, that part is bad debt and the rest is no sale", async () => {
    const retry_logic = { enabled: false, escalation_on_failure: "restrict_access", cancel_after_days_unpaid: 14 }
    const { clock, plan } = await subscribe(api, "2025-03-01T00:00:00Z", FAILING, { amount: 31_000, retry_logic })
    await advance(api, clock, "2025-04-08T00:00:00Z")
    expect(await balances(plan)).toEqual({
      clearing: 31_000,
      receivable: 31_000,
      deferred_revenue: -23_767,
      subscription_revenue: -38_233,
    })
    await advance(api, clock, "2025-05-01T00:00:00Z")
    // 14 of 30 days.
    expect(await balances(plan)).toEqual({ clearing: 31_000, bad_debt: 14_466, subscription_revenue: -45_466 })
  })

  it("is not recognised while escalation pauses the service; paid late, the rest is served from then on", async () => {
    const retry_logic = { enabled: false, escalation_on_failure: "pause_service", cancel_after_days_unpaid: null }
    const { clock, id, plan } = await subscribe(api, "2025-03-01T00:00:00Z", FAILING, { amount: 31_000, retry_logic })
    await advance(api, clock, "2025-04-20T00:00:00Z")
    expect(await balances(plan)).toEqual({
      clearing: 31_000,
      receivable: 31_000,
      deferred_revenue: -31_000,
      subscription_revenue: -31_000,
    })
    const { latest_charge } = data(await api.get(`/subscriptions/${id}`))
    data(await api.post(`/charges/${latest_charge}/retry`, { payment_method: "pm_test_success" }), 201)
    await advance(api, clock, "2025-04-30T00:00:00Z")
    // Ten days of the thirty that the payment bought.
    expect(await balances(plan)).toEqual({
      clearing: 62_000,
      deferred_revenue: -20_667,
      subscription_revenue: -41_333,
    })
    await advance(api, clock, "2025-05-20T00:00:00Z")
    expect(await balances(plan)).toMatchObject({ subscription_revenue: -62_000 })
  })

  it("continues to be recognised if it is paid within its period", async () => {
    const retry_logic = { enabled: true, max_attempts: 1, retry_intervals_days: [3] }
    const { clock, plan } = await subscribe(api, "2025-04-01T00:00:00Z", "pm_test_succeeds_on_attempt_2", {
      amount: 30_000,
      retry_logic,
      trial_days: 1,
    })
    await advance(api, clock, "2025-04-12T00:00:00Z")
    expect(await balances(plan)).toEqual({ clearing: 30_000, deferred_revenue: -20_000, subscription_revenue: -10_000 })
  })
})

it("a clock's books are deleted with it", async () => {
  const { clock, plan } = await subscribe(api, "2025-04-01T00:00:00Z", "pm_test_success")
  await advance(api, clock, "2025-05-12T00:00:00Z")
  expect(await balances(plan)).toMatchObject({ clearing: 1_000_000 })
  data(await api.delete(`/test/clocks/${clock}`))
  expect(await balances(plan)).toEqual({})
  const left = await database.run(
    (sql) => sql`
      SELECT 1 FROM revenue_schedule WHERE test_clock_id = ${clock} UNION ALL SELECT 1 FROM revenue_book WHERE id = ${clock}
      UNION ALL SELECT 1 FROM ledger_entry WHERE test_clock_id = ${clock}`,
  )
  expect(left).toEqual([])
})
