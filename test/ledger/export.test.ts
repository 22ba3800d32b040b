/** The books for other programs. */
import { Effect, Redacted } from "effect"
import { describe, expect, it } from "vitest"
import { createAccount } from "../../src/account/accounts.ts"
import { toHledger } from "../../src/ledger/export.ts"
import { postEntries } from "../../src/ledger/ledger.ts"
import { bookEntry } from "../support/books.ts"
import { useDatabase } from "../support/database.ts"
import { runToEnd } from "../support/server.ts"

const database = useDatabase()

const account = () =>
  database.run(() => Effect.map(createAccount({ businessName: "Books" }), ({ account }) => account.id))

describe("an export of the books", () => {
  const line = (entry_id: string, line_no: number, ledger_account: string, kind: string, amount_kobo: number) => ({
    account_id: "acct_1",
    livemode: false,
    entry_id,
    event: "paid",
    effective_on: "2025-01-31",
    posted_at: "2025-01-31T00:00:00.000Z",
    line_no,
    ledger_account,
    kind,
    detail: ledger_account === "clearing" ? "simulator" : null,
    currency: "NGN",
    amount_kobo,
    customer_id: "cus_1",
    subscription_id: null,
    charge_id: null,
  })

  it("is hledger's journal format: one balanced transaction for each entry", () => {
    const text = toHledger([
      line("le_1", 1, "clearing", "asset", 123_405),
      line("le_1", 2, "deferred_revenue", "liability", -123_405),
      line("le_2", 1, "clearing", "asset", 7),
      line("le_2", 2, "one_off_revenue", "revenue", -7),
    ])
    expect(text).toBe(
      [
        "2025-01-31 paid  ; entry:le_1, customer:cus_1",
        "    assets:acct_1:sandbox:clearing:simulator  NGN 1234.05",
        "    liabilities:acct_1:sandbox:deferred_revenue  NGN -1234.05",
        "",
        "2025-01-31 paid  ; entry:le_2, customer:cus_1",
        "    assets:acct_1:sandbox:clearing:simulator  NGN 0.07",
        "    revenues:acct_1:sandbox:one_off_revenue  NGN -0.07",
        "",
      ].join("\n"),
    )
    expect(toHledger([])).toBe("")
  })

  it("is CSV with every line, by the command line, and adds up to the trial balance", async () => {
    const id = await account()
    await database.run(() => postEntries([bookEntry(id), bookEntry(id), bookEntry(id)]))
    const other = await account()
    await database.run(() => postEntries([bookEntry(other)]))
    const env = { DATABASE_URL: Redacted.value(database.url()) }
    const { output, code } = await runToEnd("src/cli.ts", ["ledger", "export", "--account", id, "--format", "csv"], env)
    const [names, ...rows] = output.trim().split("\n")
    expect([code, rows.length, names!.split(",")[0]]).toEqual([0, 6, "account_id"])
    const amounts = rows.map((row) => Number(row.split(",")[10]))
    expect(amounts.filter((kobo) => kobo > 0).reduce((a, b) => a + b)).toBe(1500)
    expect(amounts.reduce((a, b) => a + b)).toBe(0)
    const all = await runToEnd("src/cli.ts", ["ledger", "export", "--format", "hledger"], env)
    expect(all.output.match(/^\d{4}-\d\d-\d\d paid/gm)!.length).toBeGreaterThanOrEqual(4)
    const wrong = await runToEnd("src/cli.ts", ["ledger", "export", "--format", "xml"], env)
    expect([wrong.code, wrong.output]).toEqual([2, ""])
  })
})
