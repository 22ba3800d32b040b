/** Tests Home: first steps of a new account, and figures that equal the books of a busy one. */
import { Effect } from "effect"
import { describe, expect, it } from "vitest"
import { formatKobo } from "../../src/base/money.ts"
import { mergeDayTotals } from "../../src/ledger/dayTotals.ts"
import { createAccount } from "../../src/merchants/account/accounts.ts"
import { useOwnInstance } from "../support/instance.ts"
import { signedIn } from "../support/member.ts"
import { advance, subscribe } from "../support/story.ts"

const { database, server, accountId, api } = useOwnInstance()

const member = (role: Parameters<typeof signedIn>[3] = "owner", account = accountId()) =>
  signedIn(database, server().origin, account, role)

const DAY_MS = 86_400_000
const inDays = (days: number) => new Date(Math.floor(Date.now() / DAY_MS) * DAY_MS + days * DAY_MS).toISOString()

const trialBalance = () =>
  database.run((sql) =>
    Effect.map(
      sql<{ ledger_account: string; balance_kobo: number }>`
        SELECT ledger_account, balance_kobo FROM finance.trial_balance WHERE account_id = ${accountId()} AND NOT livemode`,
      (rows) => Object.fromEntries(rows.map((row) => [row.ledger_account, row.balance_kobo])),
    ),
  )

describe("Home", () => {
  it("shows a new account its first steps, without figures", async () => {
    const { account } = await database.run(() => createAccount({ businessName: "New" }))
    const owner = await member("owner", account.id)
    const { text, status } = await owner.get("/dashboard/sandbox")
    expect(status).toBe(200)
    expect(text).toContain("Your first steps")
    expect(text).toContain('href="/dashboard/sandbox/plans/new"')
    expect(text).not.toContain("Figures")
    const finance = await member("finance", account.id)
    expect((await finance.get("/dashboard/sandbox")).text).not.toContain('href="/dashboard/sandbox/plans/new"')
  })

  it("shows who has not paid first, and the same sums as the books, before and after days are merged", async () => {
    await subscribe(api, inDays(0), "pm_test_success")
    const { clock, id } = await subscribe(api, inDays(0), "pm_test_success_then_insufficient_funds")
    await advance(api, clock, inDays(32))
    const owner = await member()
    const page = await owner.get("/dashboard/sandbox")
    const { receivable, clearing } = await trialBalance()
    expect(receivable).toBe(500_000)
    const figures = (text: string) =>
      [...text.matchAll(/<section class="figure"><h2>([^<]*)<\/h2><p class="amount">([^<]*)/g)].map(
        ([, ...found]) => found,
      )
    expect(page.text.indexOf("1 subscription is overdue. Customers owe ₦5,000.00.")).toBeGreaterThan(0)
    expect(page.text.indexOf("Who has not paid")).toBeLessThan(page.text.indexOf("Figures"))
    expect(page.text).toContain(`href="/dashboard/sandbox/subscriptions/${id}"`)
    expect(figures(page.text)).toEqual([
      ["Collected in 30 days", formatKobo(0)],
      ["To be collected in the next 30 days", formatKobo(0)],
      ["Overdue", formatKobo(receivable!)],
      ["Recovered in 30 days", formatKobo(0)],
      ["Monthly recurring revenue", formatKobo(1_000_000)],
      ["Active subscriptions", "1"],
      ["Allowance used this month", "0 of 5,000"],
    ])
    expect(clearing).toBe(1_000_000)
    await database.run(() => mergeDayTotals)
    const left = await database.run((sql) => sql`SELECT 1 FROM day_total_new WHERE account_id = ${accountId()}`)
    expect(left).toEqual([])
    expect(figures((await owner.get("/dashboard/sandbox")).text)).toEqual(figures(page.text))
    const support = await member("support")
    expect((await support.get("/dashboard/sandbox")).text).toContain("Remind")
  })
})
