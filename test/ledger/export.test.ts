/** Tests exports of the books for other programs. */
import { Effect, Redacted } from "effect"
import { describe, expect, it } from "vitest"
import { dayOf } from "../../src/base/time.ts"
import { FORMATS } from "../../src/ledger/export.ts"
import { postEntries } from "../../src/ledger/ledger.ts"
import { createAccount } from "../../src/merchants/account/accounts.ts"
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
    occurred_on: "2025-01-31",
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
    plan_id: null,
    corrects: null,
    reason: null,
  })

  it("is in hledger's format: accounts by the merchant's name, declared once, payouts and customers as tags", () => {
    const { head, body } = FORMATS.hledger.open(
      new Map([
        ["acct_1", "Ada & Sons:  Gym;"],
        ["acct_2", "Twin"],
        ["acct_3", "twin"],
      ]),
    )
    expect(head).toContain("\ncommodity NGN 1000.00  ; naira\n")
    const owed = (over: object) => ({ ...line("le_2", 1, "receivable", "asset", 7), ...over })
    const first = [
      line("le_1", 1, "clearing", "asset", 123_405),
      line("le_1", 2, "deferred_revenue", "liability", -123_405),
      owed({ detail: "cus_1", reason: "Agreed, by phone: no fee", occurred_on: "2025-01-30" }),
      { ...line("le_2", 2, "bank", "asset", -7), detail: "RV 1" },
    ]
    expect(body(first)).toBe(
      [
        "",
        "account assets:Ada & Sons Gym:sandbox:clearing:simulator  ; type:A",
        "account liabilities:Ada & Sons Gym:sandbox:deferred_revenue  ; type:L",
        "account assets:Ada & Sons Gym:sandbox:receivable  ; type:A",
        "account assets:Ada & Sons Gym:sandbox:bank  ; type:C",
        "",
        "2025-01-31 paid  ; entry:le_1, customer:cus_1",
        "    assets:Ada & Sons Gym:sandbox:clearing:simulator  NGN 1234.05",
        "    liabilities:Ada & Sons Gym:sandbox:deferred_revenue  NGN -1234.05",
        "",
        "2025-01-31 paid  ; entry:le_2, customer:cus_1, occurred:2025-01-30, reason:Agreed by phone no fee",
        "    assets:Ada & Sons Gym:sandbox:receivable  NGN 0.07",
        "    assets:Ada & Sons Gym:sandbox:bank  NGN -0.07  ; payout:RV 1",
        "",
      ].join("\n"),
    )
    // Two accounts with one name keep their IDs. A line has the customer if the entry does not.
    const others = [owed({ account_id: "acct_2", detail: "acct_9" }), owed({ account_id: "acct_3", line_no: 2 })]
    expect(body(others)).toBe(
      [
        "",
        "account assets:Twin (acct_2):sandbox:receivable  ; type:A",
        "account assets:twin (acct_3):sandbox:receivable  ; type:A",
        "",
        "2025-01-31 paid  ; entry:le_2, customer:cus_1",
        "    assets:Twin (acct_2):sandbox:receivable  NGN 0.07  ; customer:acct_9",
        "    assets:twin (acct_3):sandbox:receivable  NGN 0.07",
        "",
      ].join("\n"),
    )
  })

  it("is in the format of accounting packages: each entry's lines, with debits and credits apart, and the same date and number", () => {
    const entry = [
      line("le_1", 1, "clearing", "asset", 123_405),
      line("le_1", 2, "deferred_revenue", "liability", -123_405),
    ]
    const shown = (name: "sage" | "quickbooks" | "zoho") => {
      const { head, body } = FORMATS[name].open(new Map())
      return `${head}${body(entry)}`.trim().split("\n")
    }
    expect(shown("sage")).toEqual([
      "Type,Account Reference,Nominal A/C Ref,Department Code,Date,Reference,Details,Net Amount,Tax Code,Tax Amount",
      "JD,,clearing,0,31/01/2025,le_1,paid simulator cus_1,1234.05,T9,0.00",
      "JC,,deferred_revenue,0,31/01/2025,le_1,paid cus_1,1234.05,T9,0.00",
    ])
    expect(shown("quickbooks")).toEqual([
      "*JournalNo,*JournalDate,*AccountName,*Debits,*Credits,Description,Name,Currency",
      "le_1,01/31/2025,Clearing,1234.05,,paid simulator cus_1,,NGN",
      "le_1,01/31/2025,Deferred revenue,,1234.05,paid cus_1,,NGN",
    ])
    expect(shown("zoho")).toEqual([
      "Journal Date,Reference Number,Journal Number Prefix,Journal Number Suffix,Notes,Journal Type,Currency,Account,Description,Contact Name,Debit,Credit",
      "2025-01-31,le_1,,le_1,paid,both,NGN,Clearing,paid simulator cus_1,,1234.05,",
      "2025-01-31,le_1,,le_1,paid,both,NGN,Deferred revenue,paid cus_1,,,1234.05",
    ])
  })

  it("is CSV with every line, from the command line, and sums to the trial balance", async () => {
    const id = await account()
    const days = [31, 30, 31].map((day) => ({ day: dayOf(Date.UTC(2025, 0, day)) }))
    await database.write((unit) =>
      postEntries(
        unit,
        days.map((over) => bookEntry(id, over)),
      ),
    )
    const other = await account()
    await database.write((unit) => postEntries(unit, [bookEntry(other)]))
    const env = { DATABASE_URL: Redacted.value(database.url()) }
    const { output, code } = await runToEnd("src/cli.ts", ["ledger", "export", "--account", id, "--format", "csv"], env)
    const [names, ...rows] = output.trim().split("\n")
    expect([code, rows.length, names!.split(",")[0]]).toEqual([0, 6, "account_id"])
    // In the order of their days, not of their posting.
    expect(rows.map((row) => row.split(",")[4]!.slice(-2))).toEqual(["30", "30", "31", "31", "31", "31"])
    const amounts = rows.map((row) => Number(row.split(",")[10]))
    expect(amounts.filter((kobo) => kobo > 0).reduce((a, b) => a + b)).toBe(1500)
    expect(amounts.reduce((a, b) => a + b)).toBe(0)
    const all = await runToEnd("src/cli.ts", ["ledger", "export", "--format", "hledger"], env)
    expect(all.output.match(/^\d{4}-\d\d-\d\d paid/gm)!.length).toBeGreaterThanOrEqual(4)
    const month = ["ledger", "export", "--account", id, "--format", "zoho", "--mode", "test", "--month"]
    const [january, february] = await Promise.all(
      ["2025-01", "2025-02"].map((name) => runToEnd("src/cli.ts", [...month, name], env)),
    )
    expect([january!.output.trim().split("\n").length, february!.output.trim().split("\n").length]).toEqual([7, 1])
    const allAccounts = await runToEnd("src/cli.ts", ["ledger", "export", "--format", "sage"], env)
    expect([allAccounts.code, allAccounts.output]).toEqual([2, ""])
    expect(allAccounts.errors).toContain("--account")
    const wrong = await runToEnd("src/cli.ts", ["ledger", "export", "--format", "xml"], env)
    expect([wrong.code, wrong.output]).toEqual([2, ""])
  })
})
