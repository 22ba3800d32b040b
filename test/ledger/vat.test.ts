/** Tests VAT at the deployment's rate, in entries, views and service invoices. */
import { Effect, Redacted } from "effect"
import { expect, it } from "vitest"
import { useOwnInstance } from "../support/instance.ts"
import { runToEnd } from "../support/server.ts"
import { advance, createCustomer, data, subscribe } from "../support/story.ts"
import { useWhole } from "../support/whole.ts"

const { api, database, accountId } = useOwnInstance(() => ({ VAT_RATE: "750" }))
useWhole(database)

const balances = (customer: string) =>
  database.run((sql) =>
    Effect.map(
      sql<{ ledger_account: string; kobo: number }>`
        SELECT ledger_account, sum(amount_kobo)::bigint AS kobo FROM finance.general_ledger WHERE customer = ${customer} GROUP BY 1 HAVING sum(amount_kobo) <> 0`,
      (rows) => Object.fromEntries(rows.map((row) => [row.ledger_account, row.kobo])),
    ),
  )

it("splits sales into net and VAT, each kind of line separately", async () => {
  const story = await subscribe(api, "2025-01-01T00:00:00Z", "pm_test_success", {
    amount: 107_500,
    overage_per_unit: 215,
  })
  expect(await balances(story.customer)).toEqual({ clearing: 107_500, deferred_revenue: -100_000, output_vat: -7_500 })
  data(await api.post(`/subscriptions/${story.id}/unit-records`, { quantity: 10 }), 201)
  await advance(api, story.clock, "2025-02-01T00:00:00Z")
  expect(await balances(story.customer)).toEqual({
    clearing: 217_150,
    deferred_revenue: -200_000,
    usage_revenue: -2_000,
    output_vat: -15_150,
  })
  const customer = await createCustomer(api)
  data(
    await api.post("/charges", { customer, amount: 10_000, currency: "NGN", payment_method: "pm_test_success" }),
    201,
  )
  // 697.67 of it.
  expect(await balances(customer)).toEqual({ clearing: 10_000, one_off_revenue: -9_302, output_vat: -698 })
})

it("keeps the served part of a written-off bill on the day on which the debt was booked", async () => {
  const story = await subscribe(api, "2025-02-10T23:30:00Z", "pm_test_success", {
    amount: 21_500,
    billing_cycle: "daily",
  })
  const method = { payment_method: "pm_test_pending_then_failed" }
  data(await api.patch(`/subscriptions/${story.id}`, method))
  // The renewal of the 11th fails half an hour into the 12th.
  await advance(api, story.clock, "2025-02-12T23:29:00Z")
  expect(data(await api.get(`/subscriptions/${story.id}`)).status).toBe("past_due")
  data(await api.post(`/subscriptions/${story.id}/cancel`, {}))
  await advance(api, story.clock, "2025-02-14T00:00:00Z")
  expect(await balances(story.customer)).toEqual({
    clearing: 21_500,
    bad_debt: 21_500,
    // The day before was paid, and is recognised with all sales of its plan.
    deferred_revenue: -20_000,
    subscription_revenue: -20_000,
    output_vat: -3_000,
  })
})

it("returns the VAT of the unserved part of a written-off bill", async () => {
  const retry_logic = { enabled: false, escalation_on_failure: "restrict_access", cancel_after_days_unpaid: 14 }
  const story = await subscribe(api, "2025-03-01T00:00:00Z", "pm_test_success_then_insufficient_funds", {
    amount: 107_500,
    retry_logic,
  })
  await advance(api, story.clock, "2025-05-01T00:00:00Z")
  // 14 of 30 days were served: 46,666 net, and 53,334 with 4,000 of VAT were not.
  expect(await balances(story.customer)).toEqual({
    clearing: 107_500,
    bad_debt: 50_166,
    deferred_revenue: -146_666,
    output_vat: -11_000,
  })
  const rows = await database.run(
    (sql) => sql`
      SELECT to_char(month, 'YYYY-MM') AS month, output_kobo, reversed_kobo, payable_kobo FROM finance.vat
      WHERE account_id = ${accountId()} AND NOT livemode AND month IN ('2025-03-01', '2025-04-01') ORDER BY month`,
  )
  expect(rows).toEqual([
    { month: "2025-03", output_kobo: 7_500, reversed_kobo: 0, payable_kobo: 7_500 },
    { month: "2025-04", output_kobo: 7_500, reversed_kobo: 4_000, payable_kobo: 3_500 },
  ])
})

it("carries a credit over net of VAT, and books VAT on the resumption's charge", async () => {
  const terms = { amount: 107_500, pause_enabled: true, pro_rate: true }
  const story = await subscribe(api, "2025-04-01T00:00:00Z", "pm_test_success", terms)
  await advance(api, story.clock, "2025-04-16T00:00:00Z")
  data(await api.post(`/subscriptions/${story.id}/pause`))
  data(await api.post(`/subscriptions/${story.id}/resume`))
  // Half of it again: 53,750 with 3,750 of VAT. The other half is carried.
  expect(await balances(story.customer)).toEqual({ clearing: 161_250, deferred_revenue: -150_000, output_vat: -11_250 })
})

it("is in service invoices, and in the service's own books", async () => {
  const period = new Date().toISOString().slice(0, 7)
  const env = { DATABASE_URL: Redacted.value(database.url()), VAT_RATE: "750" }
  const args = ["invoice", "run", "--period", period, "--account", accountId(), "--json"]
  const { output } = await runToEnd("src/cli.ts", args, env)
  const [invoice] = JSON.parse(output) as ReadonlyArray<{ total: number; vat: number }>
  expect(invoice!.total).toBeGreaterThan(0)
  expect(invoice!.vat).toBe(Math.round((invoice!.total * 750) / 10_750))
  const books = await database.run(
    (sql) => sql`
      SELECT ledger_account, amount_kobo FROM finance.general_ledger WHERE account_id = 'acct_service' AND event = 'invoiced' ORDER BY line_no`,
  )
  expect(books).toEqual([
    { ledger_account: "receivable", amount_kobo: invoice!.total },
    { ledger_account: "fee_revenue", amount_kobo: invoice!.vat - invoice!.total },
    { ledger_account: "output_vat", amount_kobo: -invoice!.vat },
  ])
  const [owed] = await database.run(
    (sql) => sql`SELECT customer, amount_kobo FROM finance.receivables_ageing WHERE account_id = 'acct_service'`,
  )
  expect(owed).toEqual({ customer: accountId(), amount_kobo: invoice!.total })
  // They are exported and explained like any merchant's.
  const own = async (...args: ReadonlyArray<string>) => (await runToEnd("src/cli.ts", ["ledger", ...args], env)).output
  const exported = await own("export", "--account", "acct_service", "--format", "csv")
  const lines = exported.trim().split("\n")
  expect(lines.slice(1).filter((line) => line.includes("acct_service"))).toHaveLength(3)
  expect(lines).toHaveLength(4)
  const explanation = JSON.parse(await own("why", "acct_service", "receivable", "--customer", accountId(), "--json"))
  expect(explanation.environments).toMatchObject([{ livemode: true, balance_kobo: invoice!.total }])
  const fees = JSON.parse(await own("why", "acct_service", "fee_revenue", "--customer", accountId(), "--json"))
  expect(fees.environments).toMatchObject([{ livemode: true, balance_kobo: invoice!.vat - invoice!.total }])
})
