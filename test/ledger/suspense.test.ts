/** Tests the end of suspense: by a later payout of the missing amount, or one person's explanation (decision Q9). */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Effect } from "effect"
import { afterAll, describe, expect, it } from "vitest"
import { dayOf } from "../../src/base/time.ts"
import { postEntries } from "../../src/ledger/ledger.ts"
import { createAccount } from "../../src/merchants/account/accounts.ts"
import { bookEntry } from "../support/books.ts"
import { useCommandLine } from "../support/commandLine.ts"
import { useOwnInstance } from "../support/instance.ts"
import { advance, data, subscribe } from "../support/story.ts"

const { api, database, accountId } = useOwnInstance()
const folder = mkdtempSync(join(tmpdir(), "recurring-billing-suspense-"))
afterAll(() => rmSync(folder, { recursive: true }))

const [command, another] = [useCommandLine(database), useCommandLine(database)]
const by =
  (run: typeof command) =>
  async (...args: ReadonlyArray<string>) => {
    const { code, output, errors } = await run("ledger", ...args, "--json")
    return { code, errors, document: output === "" ? undefined : JSON.parse(output) }
  }
const cli = by(command)

let files = 0
const NAMES = "Reference,Amount,Fees,Amount Due,Settlement Date,Settlement ID"
const settle = async (...rows: ReadonlyArray<string>) => {
  const path = join(folder, `${++files}.csv`)
  writeFileSync(path, [NAMES, ...rows].join("\n"))
  return (await cli("settle", "--rail", "paystack", "--file", path)).document
}

/** An account with a payment of ₦5,000.00 in live, of 31 January 2026, under this reference. */
const paid = async (reference: string) => {
  const { account } = await database.run(() => createAccount({ businessName: "Shop" }))
  const entry = bookEntry(account.id, {
    livemode: true,
    idempotencyKey: `paid:${reference}`,
    chargeId: reference,
    day: dayOf(Date.UTC(2026, 0, 31)),
    lines: [
      { account: "clearing", detail: "paystack", amountKobo: 500_000 },
      { account: "one_off_revenue", detail: null, amountKobo: -500_000 },
    ],
  })
  await database.write((unit) => postEntries(unit, [entry]))
  return account.id
}

const balances = (account: string) =>
  database.run((sql) =>
    Effect.map(
      sql<{ ledger_account: string; balance_kobo: number }>`
        SELECT ledger_account, balance_kobo FROM finance.trial_balance WHERE account_id = ${account} AND balance_kobo <> 0 ORDER BY 1`,
      (rows) => Object.fromEntries(rows.map((row) => [row.ledger_account, row.balance_kobo])),
    ),
  )

const suspense = (account: string) =>
  database.run(
    (sql) => sql`
      SELECT x.month::text AS month, x.about, x.problem, s.amount_kobo, s.amount_naira::text AS amount_naira
      FROM finance.exceptions x JOIN finance.suspense s ON (s.account_id, s.livemode, s.reference) = (x.account_id, x.livemode, x.about)
      WHERE x.account_id = ${account} AND x.kind = 'suspense'`,
  )

/** The books without suspense, after a late payout of ₦25.00 of the payment. */
const WHOLE = { bank: 492_500, one_off_revenue: -500_000, rail_fees: 7_500 }

describe("the suspense of a settlement", () => {
  it("is a debit if too little was paid out, in the settlement's month, and ends with a later payout", async () => {
    const account = await paid("chg_s1")
    const short = "chg-s1,5000,75,4900,2026-02-01,P1"
    expect(await settle(short)).toMatchObject({ matched: 0, booked: 1, unmatched: [{ reason: "payout_differs" }] })
    expect(await suspense(account)).toEqual([
      {
        month: "2026-02-01",
        about: "chg_s1",
        problem: "2500 kobo of chg_s1 are in suspense",
        amount_kobo: 2_500,
        amount_naira: "25.00",
      },
    ])
    expect((await cli("why", account, "suspense")).document.environments).toMatchObject([
      { balance_kobo: 2_500, balance_naira: "25.00" },
    ])
    expect((await balances(account)).suspense).toBe(2_500)
    // A payout of any other amount books nothing.
    for (const wrong of ["chg-s1,24,0,24,2026-02-05,P2", "chg-s1,25,1,25,2026-02-05,P2"])
      expect((await settle(wrong)).unmatched).toMatchObject([{ reason: "booked_otherwise" }])
    const late = "chg-s1,25,0,25,2026-02-05,P2"
    expect(await settle(late)).toEqual({ matched: 1, fees: 0, payouts: 2_500, booked: 1, unmatched: [] })
    expect(await balances(account)).toEqual(WHOLE)
    expect(await suspense(account)).toEqual([])
    // Either file again, and both as one, book nothing and report nothing.
    expect(await settle(late)).toMatchObject({ matched: 1, booked: 0, unmatched: [] })
    expect(await settle(short)).toMatchObject({ matched: 1, booked: 0, unmatched: [] })
    expect(await settle(short, late, late)).toMatchObject({
      matched: 2,
      booked: 0,
      unmatched: [{ reason: "duplicate", row: 4 }],
    })
    expect(await balances(account)).toEqual(WHOLE)
    const settlements = await database.run(
      (sql) => sql`
        SELECT settled_on::text AS settled_on, payout, paid_out_kobo, suspense_kobo FROM finance.settlements WHERE account_id = ${account} ORDER BY settled_on`,
    )
    expect(settlements).toEqual([
      { settled_on: "2026-02-01", payout: "P1", paid_out_kobo: 490_000, suspense_kobo: 2_500 },
      { settled_on: "2026-02-05", payout: "P2", paid_out_kobo: 2_500, suspense_kobo: -2_500 },
    ])
  })

  it("ends if both payouts are in one file, even as equal halves, and if the rail takes an excess back", async () => {
    const account = await paid("chg_h1")
    const halves = ["chg-h1,2500,0,2500,2026-02-01,P1", "chg-h1,2500,0,2500,2026-02-02,P2"]
    for (const booked of [2, 0])
      expect(await settle(...halves)).toMatchObject({ matched: 2, booked, payouts: 500_000, unmatched: [] })
    expect(await balances(account)).toEqual({ bank: 500_000, one_off_revenue: -500_000 })

    const other = await paid("chg_b1")
    await settle("chg-b1,5000,75,4930,2026-02-01,P1")
    expect(await suspense(other)).toMatchObject([{ problem: "-500 kobo of chg_b1 are in suspense", amount_kobo: -500 }])
    for (const booked of [1, 0])
      expect(await settle("chg-b1,-5,0,-5,2026-02-03,P2")).toMatchObject({ matched: 1, booked, unmatched: [] })
    expect(await balances(other)).toEqual(WHOLE)
  })

  it("is explained once, for a reason, by one of many concurrent commands", async () => {
    const account = await paid("chg_x1")
    await settle("chg-x1,5000,75,4900,2026-02-01,P1")
    const explain = (run: typeof cli, ...over: ReadonlyArray<string>) =>
      run("explain", "chg-x1", "--account", account, ...over)
    const as = ["--as", "rail_fees", "--reason", "A transfer fee, says the rail"]
    const [one, other] = await Promise.all([explain(cli, ...as), explain(by(another), ...as)])
    expect([one.code, other.code]).toEqual([0, 0])
    expect(one.document).toEqual({
      entry: expect.stringMatching(/^le_/),
      event: "explained",
      account,
      livemode: true,
      reference: "chg_x1",
      as: "rail_fees",
      reason: "A transfer fee, says the rail",
      occurred_on: "2026-02-01",
      effective_on: "2026-02-01",
      amount_kobo: 2_500,
      amount_naira: "25.00",
      lines: [
        { ledger_account: "rail_fees", detail: "paystack", amount_kobo: 2_500 },
        { ledger_account: "suspense", detail: "paystack", amount_kobo: -2_500 },
      ],
    })
    expect(other.document).toEqual(one.document)
    expect(await balances(account)).toEqual({ bank: 490_000, one_off_revenue: -500_000, rail_fees: 10_000 })
    expect(await suspense(account)).toEqual([])
    const again = await explain(cli, "--as", "bad_debt", "--reason", "x")
    expect([again.code, again.errors]).toEqual([
      1,
      `Nothing of chg-x1 is in suspense: it is explained as rail_fees by ${one.document.entry}.\n`,
    ])
    // The missing amount is explained: its file matches, and a payout of it is one too many.
    expect(await settle("chg-x1,5000,75,4900,2026-02-01,P1")).toMatchObject({ matched: 1, booked: 0, unmatched: [] })
    expect((await settle("chg-x1,25,0,25,2026-02-05,P2")).unmatched).toMatchObject([{ reason: "booked_otherwise" }])
    const [shown] = await database.run(
      (sql) => sql`SELECT DISTINCT reason FROM finance.general_ledger WHERE entry = ${one.document.entry}`,
    )
    expect(shown).toEqual({ reason: "A transfer fee, says the rail" })
  })

  it.each([
    ["refunds_payable", "cus_1"],
    ["bad_debt", null],
    ["bank", "P1"],
  ])("is explained as %s", async (as, detail) => {
    const account = await paid(`chg_as_${as}`)
    await settle(`chg-as_${as},5000,75,4900,2026-02-01,P1`)
    const { document } = await cli("explain", `chg_as_${as}`, "--account", account, "--as", as, "--reason", "So it is")
    expect(document.lines[0]).toEqual({ ledger_account: as, detail, amount_kobo: 2_500 })
    expect((await balances(account)).suspense).toBe(undefined)
    // The amount added at the bank is among the payouts.
    const [payouts] = await database.run(
      (sql) =>
        sql`SELECT sum(paid_out_kobo)::bigint AS kobo, count(*) AS rows FROM finance.settlements WHERE account_id = ${account}`,
    )
    expect(payouts).toEqual(as === "bank" ? { kobo: 492_500, rows: 2 } : { kobo: 490_000, rows: 1 })
  })

  it("is shown in words and in naira, with the meaning of each row", async () => {
    const account = await paid("chg_w1")
    const path = join(folder, "words.csv")
    writeFileSync(path, [NAMES, "chg-w1,5000,75,4900,2026-02-01,P1"].join("\n"))
    const settled = await command("ledger", "settle", "--rail", "paystack", "--file", path)
    expect(settled.errors).toBe("1 rows read, 0 matched, 1 booked, 1 unmatched.\n")
    expect(settled.output).toMatch(/^fees of the rail +₦75\.00$/m)
    expect(settled.output).toMatch(/^paid out +₦4,900\.00$/m)
    expect(settled.output).toMatch(
      /^ +2 {2}chg_w1 {5}₦4,900\.00 {2}acct_\w+ {2}payout_differs: booked; .* is in suspense$/m,
    )
    const why = await command("ledger", "why", account, "suspense")
    expect(why.output.split("\n").slice(0, 5)).toEqual([
      `suspense of ${account}, now. Debit is above zero, credit below.`,
      "",
      "live: ₦25.00, made of",
      "",
      "entries  of the kind  amount  meaning",
    ])
    expect(why.output).toMatch(/^ +1 {2}settled {6}₦25\.00 {2}A rail pays out a payment, less its fee\.$/m)
    expect(why.output).toMatch(/^2026-02-01 {2}settled {2}₦25\.00 {2}cus_1 .*le_\w{26}/m)
    const as = ["--as", "bad_debt", "--reason", "Given up"]
    const explained = await command("ledger", "explain", "chg_w1", "--account", account, ...as)
    expect(explained.output).toContain(`chg_w1 of ${account} (live) is explained: Given up`)
    expect(explained.output).toMatch(/^bad_debt +₦25\.00$/m)
    expect((await command("ledger", "why", account, "deferred_revenue")).output).toContain("Nothing is booked on it.")
  })

  it("cannot be explained if it does not exist, or if a parameter is missing", async () => {
    const account = await paid("chg_r1")
    const [as, reason] = [
      ["--as", "bank"],
      ["--reason", "x"],
    ]
    const explain = (reference: string, ...args: ReadonlyArray<string>) => cli("explain", reference, ...args)
    const none = await explain("chg_r1", "--account", account, ...as, ...reason)
    expect([none.code, none.errors]).toEqual([1, "Nothing of chg_r1 is in suspense.\n"])
    const other = (await database.run(() => createAccount({ businessName: "Other" }))).account.id
    expect((await explain("chg_r1", "--account", other, ...as, ...reason)).errors).toContain(
      `The books of ${other} have no payment chg_r1`,
    )
    for (const args of [
      [...as, ...reason],
      ["--account", account, ...reason],
      ["--account", account, ...as],
      ["--account", account, ...as, "--reason", " "],
      ["--account", account, ...as, "--reason", "x".repeat(501)],
      ["--account", account, "--as", "clearing", ...reason],
    ])
      expect((await explain("chg_r1", ...args)).code, args.join(" ")).toBe(2)
  })

  it("breaks no rule of the books, also on a test clock, and is explained in the first open month after its own is closed", async () => {
    const { clock, id } = await subscribe(api, "2025-01-31T00:00:00Z", "pm_test_success")
    await advance(api, clock, "2025-02-01T00:00:00Z")
    const charge = data(await api.get(`/charges?subscription=${id}`))[0].id as string
    const path = join(folder, "simulator.csv")
    writeFileSync(path, [NAMES, `${charge},5000,75,4825,2025-01-31,P1`].join("\n"))
    await cli("settle", "--rail", "simulator", "--file", path)
    // The payments of the other tests have no charges.
    const check = async () =>
      (await cli("check")).document.problems.filter((problem: string) => problem.includes(charge))
    expect(await check()).toEqual([`10000 kobo of ${charge} are in suspense`])
    expect((await cli("close", "--through", "2025-01", "--accept", "The rail owes it")).code).toBe(0)
    const { document } = await cli("explain", charge, "--account", accountId(), "--as", "rail_fees", "--reason", "Late")
    expect(document).toMatchObject({ occurred_on: "2025-01-31", effective_on: "2025-02-01", livemode: false })
    expect(await check()).toEqual([])
    const [entry] = await database.run(
      (sql) =>
        sql`SELECT test_clock_id, corrects IS NOT NULL AS corrects FROM ledger_entry WHERE id = ${document.entry}`,
    )
    expect(entry).toEqual({ test_clock_id: clock, corrects: true })
  })
})
