import { describe, expect, it } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import type { SqlClient } from "effect/sql"
import { createAccount } from "../src/account/accounts.ts"
import { toHledger } from "../src/ledger/export.ts"
import { checkLedger, type NewEntry, postEntries } from "../src/ledger/ledger.ts"
import * as postings from "../src/ledger/postings.ts"
import { useDatabase } from "./support/database.ts"
import { runToEnd } from "./support/server.ts"

const database = useDatabase()

const account = () =>
  database.run(() => Effect.map(createAccount({ businessName: "Books" }), ({ account }) => account.id))

const entry = (account_id: string, over: Partial<NewEntry> = {}): NewEntry => ({
  account_id,
  livemode: false,
  event: "paid",
  idempotencyKey: `test:${Math.random()}`,
  customerId: "cus_1",
  subscriptionId: null,
  chargeId: null,
  at: Date.UTC(2025, 0, 31),
  lines: [
    { account: "clearing", detail: "simulator", amountKobo: 500 },
    { account: "deferred_revenue", detail: null, amountKobo: -500 },
  ],
  ...over,
})

/** The name of the constraint that refuses what `program` does. */
const refusal = (program: (sql: SqlClient.SqlClient) => Effect.Effect<unknown, unknown, SqlClient.SqlClient>) =>
  database.run((sql) =>
    Effect.match(program(sql), {
      onFailure: (error) =>
        (error as { reason?: { cause?: { constraint?: string } } }).reason?.cause?.constraint ?? String(error),
      onSuccess: () => "accepted",
    }),
  )

describe("the ledger refuses", () => {
  it("an entry that does not balance", async () => {
    const id = await account()
    expect(
      await refusal(
        (sql) => sql`
          WITH e AS (INSERT INTO ledger_entry (account_id, livemode, id, event, idempotency_key, effective_on, line_count) VALUES (${id}, false, 'le_off', 'paid', 'off', now(), 2))
          INSERT INTO ledger_line (account_id, livemode, entry_id, line_no, ledger_account, currency, amount_kobo)
          VALUES (${id}, false, 'le_off', 1, 'clearing', 'NGN', 500), (${id}, false, 'le_off', 2, 'deferred_revenue', 'NGN', -499)`,
      ),
    ).toBe("ledger_entry_balances")
    expect((await database.run(() => checkLedger)).entries).toBe(0)
  })

  it("to be asked for one that does not balance, or for one without lines", async () => {
    const id = await account()
    const lines = [
      { account: "clearing", detail: null, amountKobo: 500 },
      { account: "deferred_revenue", detail: null, amountKobo: -499 },
    ] as const
    const asked = (wrong: NewEntry) => database.run(() => postEntries([entry(id), wrong]))
    await expect(asked(entry(id, { idempotencyKey: "off", lines }))).rejects.toThrow(
      "The entry off has 2 lines that sum to 1 kobo.",
    )
    await expect(asked(entry(id, { idempotencyKey: "bare", lines: [] }))).rejects.toThrow(
      "The entry bare has 0 lines that sum to 0 kobo.",
    )
    expect((await database.run(() => checkLedger)).entries).toBe(0)
  })

  it("a foreign currency", async () => {
    const id = await account()
    expect(
      await refusal(
        (sql) => sql`
          WITH e AS (INSERT INTO ledger_entry (account_id, livemode, id, event, idempotency_key, effective_on, line_count) VALUES (${id}, false, 'le_usd', 'paid', 'usd', now(), 2))
          INSERT INTO ledger_line (account_id, livemode, entry_id, line_no, ledger_account, currency, amount_kobo)
          VALUES (${id}, false, 'le_usd', 1, 'clearing', 'USD', 5), (${id}, false, 'le_usd', 2, 'deferred_revenue', 'USD', -5)`,
      ),
    ).toBe("ledger_line_currency_ngn")
  })

  it("lines that come later, alone or in balanced pairs", async () => {
    const id = await account()
    await database.run(() => postEntries([entry(id)]))
    const later = (first: number) =>
      refusal(
        (sql) => sql`
          INSERT INTO ledger_line (account_id, livemode, entry_id, line_no, ledger_account, currency, amount_kobo)
          SELECT account_id, livemode, id, ${first}::int + n, 'clearing', 'NGN', CASE n WHEN 0 THEN 7 ELSE -7 END
          FROM ledger_entry, generate_series(0, 1) n WHERE account_id = ${id}`,
      )
    expect(await later(3)).toBe("ledger_line_arrives_with_entry")
    expect(await later(1)).toBe("ledger_line_pkey")
  })

  it("an entry without its lines, and lines without an entry", async () => {
    const id = await account()
    expect(
      await refusal(
        (sql) =>
          sql`INSERT INTO ledger_entry (account_id, livemode, id, event, idempotency_key, effective_on, line_count) VALUES (${id}, false, 'le_bare', 'paid', 'bare', now(), 2)`,
      ),
    ).toBe("ledger_line_arrives_with_entry")
    expect(
      await refusal(
        (sql) => sql`
          INSERT INTO ledger_line (account_id, livemode, entry_id, line_no, ledger_account, currency, amount_kobo)
          VALUES (${id}, false, 'le_none', 1, 'clearing', 'NGN', 5), (${id}, false, 'le_none', 2, 'clearing', 'NGN', -5)`,
      ),
    ).toBe("ledger_line_has_entry")
  })

  it("changes, deletions and truncation", async () => {
    const id = await account()
    await database.run(() => postEntries([entry(id)]))
    for (const statement of [
      "UPDATE ledger_line SET amount_kobo = amount_kobo * 2",
      "UPDATE ledger_entry SET event = 'other'",
      "DELETE FROM ledger_line",
      "DELETE FROM ledger_entry",
      "TRUNCATE ledger_line",
      "TRUNCATE ledger_entry CASCADE",
      "UPDATE ledger_account SET name = 'x'",
    ]) {
      expect(await refusal((sql) => sql.unsafe(statement).unprepared), statement).toBe("ledger_append_only")
    }
  })

  it("the same fact twice", async () => {
    const id = await account()
    const twice = entry(id, { idempotencyKey: "once" })
    await database.run(() => postEntries([twice]))
    expect(await refusal(() => postEntries([twice]))).toBe("ledger_entry_posted_once")
  })
})

describe("postings", () => {
  const billed = {
    lines: [
      { type: "plan", description: "Plan", quantity: 1, unit_amount: 5000, amount: 5000 },
      { type: "overage", description: "Usage", quantity: 3, unit_amount: 100, amount: 300 },
    ],
    customerId: "cus_1",
    rail: "simulator",
  } as const
  const shown = (lines: ReadonlyArray<postings.PostingLine>) =>
    lines.map(({ account, amountKobo }) => [account, amountKobo])

  it("are what the design says", () => {
    expect(shown(postings.paid(billed))).toEqual([
      ["clearing", 5300],
      ["deferred_revenue", -5000],
      ["usage_revenue", -300],
    ])
    expect(shown(postings.owed(billed))).toEqual([
      ["receivable", 5300],
      ["deferred_revenue", -5000],
      ["usage_revenue", -300],
    ])
    expect(shown(postings.overduePaid(billed))).toEqual([
      ["clearing", 5300],
      ["receivable", -5300],
    ])
    expect(shown(postings.writtenOff(billed))).toEqual([
      ["deferred_revenue", 5000],
      ["bad_debt", 300],
      ["receivable", -5300],
    ])
  })

  it.effect("balance", () =>
    Effect.sync(() => {
      for (const rule of [postings.paid, postings.owed, postings.overduePaid, postings.writtenOff]) {
        expect(rule(billed).reduce((sum, { amountKobo }) => sum + amountKobo, 0)).toBe(0)
      }
    }),
  )
})

describe("finance.trial_balance", () => {
  it("sums to zero for each account and environment", async () => {
    const id = await account()
    await database.run(() => postEntries([entry(id), entry(id, { livemode: true })]))
    const rows = await database.run(
      (sql) => sql<{ livemode: boolean; ledger_account: string; balance_kobo: number }>`
        SELECT livemode, ledger_account, balance_kobo FROM finance.trial_balance WHERE account_id = ${id} ORDER BY 1, 2`,
    )
    expect(rows).toEqual([
      { livemode: false, ledger_account: "clearing", balance_kobo: 500 },
      { livemode: false, ledger_account: "deferred_revenue", balance_kobo: -500 },
      { livemode: true, ledger_account: "clearing", balance_kobo: 500 },
      { livemode: true, ledger_account: "deferred_revenue", balance_kobo: -500 },
    ])
  })
})

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
    await database.run(() => postEntries([entry(id), entry(id), entry(id)]))
    const other = await account()
    await database.run(() => postEntries([entry(other)]))
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
