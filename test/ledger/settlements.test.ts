/** Tests rails' settlement files: they are read, matched by reference, and booked once. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Effect } from "effect"
import { afterAll, describe, expect, it } from "vitest"
import { dayOf } from "../../src/base/time.ts"
import { type NewEntry, postEntries } from "../../src/ledger/ledger.ts"
import { BadFile, dayIn, koboIn, type SettledRow, settledRows } from "../../src/ledger/settlementFile.ts"
import { createAccount } from "../../src/merchants/account/accounts.ts"
import type { RailName } from "../../src/rails/rail/Rail.ts"
import { bookEntry } from "../support/books.ts"
import { useCommandLine } from "../support/commandLine.ts"
import { useDatabase } from "../support/database.ts"

const database = useDatabase()
const folder = mkdtempSync(join(tmpdir(), "recurring-billing-settle-"))
afterAll(() => rmSync(folder, { recursive: true }))

let files = 0
const fileOf = (text: string): string => {
  const path = join(folder, `${++files}.csv`)
  writeFileSync(path, text)
  return path
}

const read = async (rail: RailName, text: string): Promise<ReadonlyArray<SettledRow>> => {
  const rows: Array<SettledRow> = []
  for await (const row of settledRows(rail, fileOf(text), () => {})) rows.push(row)
  return rows
}

describe("a rail's file", () => {
  it("is read by its column names, as Paystack exports them", async () => {
    const text = [
      "\uFEFFTransaction Date,Reference,Customer Email,Amount Paid (NGN),Paystack Fees,Amount Due to Merchant,Settlement Date,Currency,Status",
      '"Jan 31, 2026 10:15",chg-01abc,a@b.example,"5,000.00",175.00,"4,825.00",2026-02-01,NGN,success',
      "2026-01-31T10:15:00.000Z,chg-02abc,,100,1.5,98.5,01/02/2026,NGN,success",
      "2026-01-31,chg-03abc,,100,1.5,98.5,2026-02-01,USD,success",
      "2026-01-31,chg-04abc,,100,1.5,98.5,2026-02-01,NGN,failed",
    ].join("\r\n")
    expect(await read("paystack", text)).toEqual([
      {
        row: 2,
        reference: "chg_01abc",
        amountKobo: 500_000,
        feeKobo: 17_500,
        paidOutKobo: 482_500,
        settledOn: "2026-02-01",
        paidOn: "2026-01-31",
        payout: null,
      },
      {
        row: 3,
        reference: "chg_02abc",
        amountKobo: 10_000,
        feeKobo: 150,
        paidOutKobo: 9_850,
        settledOn: "2026-02-01",
        paidOn: "2026-01-31",
        payout: null,
      },
    ])
  })

  it("has its rows counted as a spreadsheet counts them, including empty ones", async () => {
    const text = 'Reference,Amount,Fees,Settlement ID\n\nchg-1,1,0,"a\nb"\n\n\nchg-2,1,0,\n'
    expect((await read("paystack", text)).map(({ reference, row }) => [reference, row])).toEqual([
      ["chg_1", 3],
      ["chg_2", 6],
    ])
  })

  it("is read in Flutterwave's format, with all deductions; two of three amounts are enough", async () => {
    const text =
      "tx_ref,charged_amount,app_fee,stampduty_charge,settlement_date,settlement_id\nchg_1,1000,14,50,2026-02-02,RV3\n"
    expect(await read("flutterwave", text)).toEqual([
      {
        row: 2,
        reference: "chg_1",
        amountKobo: 100_000,
        feeKobo: 6_400,
        paidOutKobo: 93_600,
        settledOn: "2026-02-02",
        paidOn: null,
        payout: "RV3",
      },
    ])
  })

  it.each([
    ["", "The file has no column with the reference"],
    ["Amount,Fees\n1,2\n", "The file has no column with the reference: one of reference"],
    ["Reference,Amount\na,1\n", "The file needs two of the columns"],
    ["Reference,Amount,Amount (NGN),Fees\na,1,2,0\n", "The file has two columns for amount"],
    ["Reference,Amount,Fees\nchg-1,free,1\n", "Row 2 of the file: amount is not an amount in naira: free."],
    [
      "Reference,Amount,Fees,Settlement Date\nchg-1,1,1,soon\n",
      "Row 2 of the file: settlementdate is not a day such as 2026-01-31: soon.",
    ],
    ['Reference,Amount,Fees\nchg-1,"1,1\n', "The file is not a CSV file"],
    ["Reference,Amount,Fees\nchg\u0000-1,1,1\n", "Row 2 of the file: reference is not a reference."],
    ["Reference,Amount,Fees,Settlement Date\nchg-1,1,1,9999-01-01\n", "Row 2 of the file: settlementdate is not a day"],
  ])("that cannot be read gets an error with the fix: %j", async (text, message) => {
    const failure = await read("paystack", text).catch((error: unknown) => error)
    expect(failure).toBeInstanceOf(BadFile)
    expect((failure as BadFile).message).toContain(message)
  })

  it.each([
    ["tx_ref,amount,app_fee,vat,vat\nchg_a,1000,14,1,1\n", "The file has two columns for vat"],
    ["tx_ref,amount,app_fee,vat\nchg_a,1000,14,1.055\n", "Row 2 of the file: vat is not an amount in naira: 1.055."],
    [
      "tx_ref,amount,app_fee,stampduty_charge\nchg_a,1000,14,N/A\n",
      "Row 2 of the file: stampdutycharge is not an amount in naira: N/A.",
    ],
  ])("of Flutterwave is refused if a further fee cannot be read: %j", async (text, message) => {
    const failure = await read("flutterwave", text).catch((error: unknown) => error)
    expect((failure as BadFile).message).toContain(message)
  })

  it("may have amounts in naira and days in many spellings", () => {
    const amounts = [
      "1",
      "1.5",
      "1.05",
      "1,234.50",
      "NGN 1,234,567.89",
      "₦10",
      "-2.50",
      "1.500",
      "12,34",
      "1.234",
      "",
      "1e3",
    ]
    expect(amounts.map(koboIn)).toEqual([
      100,
      150,
      105,
      123_450,
      123_456_789,
      1_000,
      -250,
      150,
      undefined,
      undefined,
      undefined,
      undefined,
    ])
    const days = [
      "2026-01-31",
      "2026-01-31 08:00",
      "31/01/2026",
      "1-2-2026",
      "Jan 31, 2026",
      "31st January 2026",
      "2026-02-30",
      "31/13/2026",
      "soon",
    ]
    expect(days.map(dayIn)).toEqual([
      "2026-01-31",
      "2026-01-31",
      "2026-01-31",
      "2026-02-01",
      "2026-01-31",
      "2026-01-31",
      undefined,
      undefined,
      undefined,
    ])
  })
})

const [command, another] = [useCommandLine(database), useCommandLine(database)]
const by =
  (run: ReturnType<typeof useCommandLine>) =>
  async (...args: ReadonlyArray<string>) => {
    const { code, output, errors } = await run("ledger", ...args, "--json")
    return { code, errors, document: output === "" ? undefined : JSON.parse(output) }
  }
const cli = by(command)

type Payments = Readonly<Record<string, number>>

/** Books payments at a rail, by reference and kobo. */
const pay = (account: string, rail: RailName, payments: Payments, at: number) => {
  const entry = ([chargeId, kobo]: readonly [string, number]): NewEntry =>
    bookEntry(account, {
      livemode: true,
      idempotencyKey: `paid:${chargeId}`,
      chargeId,
      day: dayOf(at),
      lines: [
        { account: "clearing", detail: rail, amountKobo: kobo },
        { account: "one_off_revenue", detail: null, amountKobo: -kobo },
      ],
    })
  return database.write((unit) => postEntries(unit, Object.entries(payments).map(entry)))
}

/** An account with payments at a rail, all of 31 January 2026. */
const paid = async (rail: RailName, payments: Payments) => {
  const { account } = await database.run(() => createAccount({ businessName: "Shop" }))
  await pay(account.id, rail, payments, Date.UTC(2026, 0, 31))
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

describe("cli ledger settle", () => {
  it("books fees and payouts once, and lists mismatches on either side", async () => {
    const account = await paid("paystack", { chg_a1: 500_000, chg_a2: 10_000, chg_a3: 7_000, chg_a4: 4_000 })
    const elsewhere = await paid("flutterwave", { chg_f1: 1_000 })
    const file = fileOf(
      [
        "Reference,Transaction Date,Amount,Fees,Settlement Date,Settlement ID",
        "chg-a1,2026-01-31,5000,175,2026-02-01,P1",
        "chg-a2,2026-01-31,100,1.50,2026-02-01,P1",
        "chg-a4,2026-01-31,45,1,2026-02-01,P1",
        "chg-f1,2026-01-31,10,1,2026-02-01,P1",
        "T-123-456,2026-01-31,70,1,2026-02-01,P1",
      ].join("\n"),
    )
    const first = await cli("settle", "--rail", "paystack", "--file", file)
    expect(first.code).toBe(0)
    expect(first.errors).toContain(
      "5 rows read, 2 matched, 3 booked, 3 unmatched; 1 of our books not paid out or not deducted.\n",
    )
    const unmatched = [
      { side: "file", reference: "chg_a4", reason: "amount_differs", amount_kobo: 4_500, account, row: 4 },
      { side: "file", reference: "chg_f1", reason: "other_rail", amount_kobo: 1_000, account: elsewhere, row: 5 },
      {
        side: "file",
        reference: "T-123-456",
        reason: "unknown_reference",
        amount_kobo: 7_000,
        account: null,
        row: 6,
      },
      { side: "books", reference: "chg_a3", reason: "not_paid_out", amount_kobo: 7_000, account, row: null },
    ]
    expect(first.document).toEqual({ matched: 2, fees: 17_750, payouts: 496_750, booked: 3, unmatched })
    const booked = {
      bank: 496_750,
      clearing: 7_000,
      one_off_revenue: -521_000,
      rail_fees: 17_750,
      // The rail's payout beyond the amount in the books.
      suspense: -500,
    }
    expect(await balances(account)).toEqual(booked)
    const again = await cli("settle", "--rail", "paystack", "--file", file)
    expect(again.document).toEqual({ ...first.document, booked: 0 })
    expect(await balances(account)).toEqual(booked)
    const shown = await database.run(
      (sql) => sql`
        SELECT reference, payout, amount_kobo, fee_kobo, paid_out_kobo FROM finance.settlements WHERE account_id = ${account} ORDER BY reference LIMIT 1`,
    )
    expect(shown).toEqual([
      { reference: "chg_a1", payout: "P1", amount_kobo: 500_000, fee_kobo: 17_500, paid_out_kobo: 482_500 },
    ])
    expect(
      await database.run(
        (sql) => sql`SELECT reference, status FROM finance.clearing WHERE account_id = ${account} ORDER BY reference`,
      ),
    ).toEqual([
      { reference: "chg_a1", status: "settled" },
      { reference: "chg_a2", status: "settled" },
      { reference: "chg_a3", status: "at the rail" },
      { reference: "chg_a4", status: "settled" },
    ])
    const suspense = await database.run(
      (sql) => sql`SELECT kind, about FROM finance.exceptions WHERE account_id = ${account} AND kind = 'suspense'`,
    )
    expect(suspense).toEqual([{ kind: "suspense", about: "chg_a4" }])
  })

  it("counts a duplicate payment in a file once, and a returned payment whenever the rail deducts it", async () => {
    const account = await paid("paystack", { chg_d1: 500_000, chg_d2: 5_000, chg_d3: 300_000 })
    const refund = (chargeId: string, kobo: number) =>
      bookEntry(account, {
        livemode: true,
        event: "refunded",
        idempotencyKey: `refunded:${chargeId}`,
        chargeId,
        day: dayOf(Date.UTC(2026, 0, 31)),
        lines: [
          { account: "refunds_payable", detail: null, amountKobo: kobo },
          { account: "clearing", detail: "paystack", amountKobo: -kobo },
        ],
      })
    await database.write((unit) => postEntries(unit, [refund("chg_d2", 5_000)]))
    const names = "Reference,Amount,Fees,Amount Due,Settlement Date,Payout ID"
    const first = fileOf(
      [
        names,
        "chg-d1,5000,75,4925,2026-02-01,P 1;=",
        "chg-d1,5000,75,4925,2026-02-01,P 1;=",
        "chg-d2,0,0.75,-0.75,2026-02-01,P1",
        "chg-d3,3000,45,2955,2026-02-01,P1",
      ].join("\n"),
    )
    const { document } = await cli("settle", "--rail", "paystack", "--file", first)
    expect(document).toMatchObject({ matched: 3, booked: 3, fees: 12_075, payouts: 787_925 })
    expect(document.unmatched).toMatchObject([{ reference: "chg_d1", reason: "duplicate", row: 3 }])
    // It was returned after it was paid out.
    await database.write((unit) => postEntries(unit, [refund("chg_d3", 300_000)]))
    const again = await cli("settle", "--rail", "paystack", "--file", first)
    expect([again.code, again.document.booked]).toEqual([0, 0])
    expect(again.document.unmatched).toMatchObject([
      { reference: "chg_d1", reason: "duplicate" },
      { reference: "chg_d3", reason: "not_deducted", amount_kobo: -300_000 },
    ])
    const second = fileOf([names, "chg-d3,-3000,0,-3000,2026-02-03,P2"].join("\n"))
    for (const booked of [1, 0])
      expect((await cli("settle", "--rail", "paystack", "--file", second)).document).toMatchObject({
        matched: 1,
        booked,
        unmatched: [],
      })
    expect(await balances(account)).toEqual({
      bank: 487_925,
      one_off_revenue: -805_000,
      rail_fees: 12_075,
      refunds_payable: 305_000,
    })
  })

  it("books no payout dated long before its payment", async () => {
    const account = await paid("paystack", { chg_y1: 500_000 })
    const file = fileOf("Reference,Amount,Fees,Settlement Date\nchg_y1,5000,75,1970-01-01")
    const { document } = await cli("settle", "--rail", "paystack", "--file", file)
    expect(document).toMatchObject({ matched: 0, booked: 0 })
    expect(document.unmatched).toMatchObject([{ reference: "chg_y1", reason: "dated_before_payment", row: 2 }])
    expect(await balances(account)).toMatchObject({ clearing: 500_000 })
  })

  it("lists no payment made after the file, though later files have paid it out", async () => {
    const account = await paid("paystack", { chg_e1: 500_000 })
    const [earlier, later] = ["2026-02-01", "2026-03-11"].map((day, n) =>
      fileOf(`Reference,Amount,Fees,Settlement Date,Settlement ID\nchg_e${n + 1},5000,75,${day},P${n}`),
    ) as [string, string]
    const settle = async (file: string) => (await cli("settle", "--rail", "paystack", "--file", file)).document
    expect(await settle(earlier)).toMatchObject({ booked: 1, unmatched: [] })
    await pay(account, "paystack", { chg_e2: 500_000, chg_e3: 1_000 }, Date.UTC(2026, 2, 10))
    expect(await settle(later)).toMatchObject({
      booked: 1,
      unmatched: [{ reference: "chg_e3", reason: "not_paid_out", amount_kobo: 1_000 }],
    })
    expect(await settle(earlier)).toMatchObject({ booked: 0, unmatched: [] })
  })

  it("reports a payout that is not the amount less the fee, and one that an earlier file booked differently", async () => {
    const account = await paid("paystack", { chg_g1: 500_000, chg_g2: 10_000 })
    const names = "Reference,Transaction Date,Amount,Fees,Amount Due,Settlement Date,Settlement ID"
    const settle = async (...rows: ReadonlyArray<string>) =>
      (await cli("settle", "--rail", "paystack", "--file", fileOf([names, ...rows].join("\n")))).document
    const [short, other] = ["chg-g1,2026-01-31,5000,75,4900,2026-02-01,P1", "chg-g2,2026-01-31,100,1,99,2026-02-01,P1"]
    const differs = {
      side: "file",
      reference: "chg_g1",
      reason: "payout_differs",
      amount_kobo: 490_000,
      account,
      row: 2,
    }
    for (const booked of [2, 0])
      expect(await settle(short, other)).toEqual({
        matched: 1,
        fees: 7_600,
        payouts: 499_900,
        booked,
        unmatched: [differs],
      })
    const books = { bank: 499_900, one_off_revenue: -510_000, rail_fees: 7_600, suspense: 2_500 }
    expect(await balances(account)).toEqual(books)
    // A later file with other values books nothing, and counts as nothing.
    expect(await settle("chg-g1,2026-01-31,5000,75,4925,2026-02-02,P2", other)).toEqual({
      matched: 1,
      fees: 100,
      payouts: 9_900,
      booked: 0,
      unmatched: [{ ...differs, reason: "booked_otherwise", amount_kobo: 492_500 }],
    })
    expect(await balances(account)).toEqual(books)
  })

  it("leaves a payment open that a file announces or lists with zero, until a file has paid it out", async () => {
    const account = await paid("paystack", { chg_h1: 500_000, chg_h2: 10_000 })
    const names = "Reference,Amount,Fees,Amount Due,Settlement Date"
    const settle = async (...rows: ReadonlyArray<string>) =>
      (await cli("settle", "--rail", "paystack", "--file", fileOf([names, ...rows].join("\n")))).document
    const ahead = new Date(Date.now() + 3 * 86_400_000).toISOString().slice(0, 10)
    const notYet = await settle(`chg-h1,5000,75,4925,${ahead}`, "chg-h2,0,0,0,2026-02-01")
    expect(notYet).toMatchObject({ matched: 0, fees: 0, payouts: 0, booked: 0 })
    expect(notYet.unmatched).toMatchObject([
      { side: "file", reference: "chg_h1", reason: "not_paid_out", amount_kobo: 500_000, row: 2 },
      { side: "file", reference: "chg_h2", reason: "not_paid_out", amount_kobo: 0, row: 3 },
    ])
    expect(await settle("chg-h1,5000,75,4925,2026-02-03", "chg-h2,100,1,99,2026-02-03")).toMatchObject({
      matched: 2,
      booked: 2,
      unmatched: [],
    })
    expect(await balances(account)).toEqual({ bank: 502_400, one_off_revenue: -510_000, rail_fees: 7_600 })
    // A booked payout stays, whatever a later file says.
    expect((await settle(`chg-h1,5000,75,4925,${ahead}`, "chg-h2,0,0,0,2026-02-04")).unmatched).toMatchObject([
      { reference: "chg_h2", reason: "booked_otherwise", amount_kobo: 0 },
    ])
  })

  it("shows in its view payouts of only a fee, on the day of the bank's statement", async () => {
    const account = await paid("paystack", { chg_i1: 500 })
    const file = fileOf("Reference,Amount,Fees,Settlement Date\nchg_i1,5,5,2026-02-01")
    expect((await cli("settle", "--rail", "paystack", "--file", file)).document).toMatchObject({ booked: 1 })
    expect(
      await database.run(
        (sql) => sql`
          SELECT settled_on::text AS settled_on, rail, amount_kobo, fee_kobo, paid_out_kobo FROM finance.settlements WHERE account_id = ${account}`,
      ),
    ).toEqual([{ settled_on: "2026-02-01", rail: "paystack", amount_kobo: 500, fee_kobo: 500, paid_out_kobo: 0 }])
  })

  it("continues after a crash in the middle, and books nothing twice", async () => {
    const count = 2_300
    const references = Array.from({ length: count }, (_, n) => `chg_c${String(n).padStart(5, "0")}`)
    const account = await paid("flutterwave", Object.fromEntries(references.map((reference) => [reference, 10_000])))
    const rows = references.map((reference) => `${reference},100,1.40,2026-02-01`)
    const broken = fileOf(
      ["tx_ref,amount,app_fee,settlement_date", ...rows.slice(0, 1_200), "chg_x,much,1,2026-02-01"].join("\n"),
    )
    const crashed = await cli("settle", "--rail", "flutterwave", "--file", broken)
    expect([crashed.code, crashed.document]).toEqual([1, undefined])
    expect(crashed.errors).toContain("Row 1202 of the file: amount is not an amount in naira: much.")
    // Earlier entries stay.
    expect((await balances(account)).rail_fees).toBe(140 * 1_200)
    const whole = fileOf(["tx_ref,amount,app_fee,settlement_date", ...rows].join("\n"))
    const [one, other] = await Promise.all([
      cli("settle", "--rail", "flutterwave", "--file", whole),
      by(another)("settle", "--rail", "flutterwave", "--file", whole),
    ])
    expect([one.code, other.code]).toEqual([0, 0])
    expect(one.document.booked + other.document.booked).toBe(1_100)
    const last = await cli("settle", "--rail", "flutterwave", "--file", whole)
    expect(last.document).toEqual({
      matched: count,
      fees: 140 * count,
      payouts: 9_860 * count,
      booked: 0,
      unmatched: [],
    })
    expect(await balances(account)).toEqual({
      bank: 9_860 * count,
      rail_fees: 140 * count,
      one_off_revenue: -10_000 * count,
    })
  })
})
