/** Tests a charge's metadata at its rail, and reading it back with any content (decision F9). */
import fc from "fast-check"
import { describe, expect, it } from "vitest"
import type { Bill } from "../../machines/periods.ts"
import { type ChargeRow, newCharge } from "../../src/billing/charge/charge.ts"
import { describedBy, railMetadataOf } from "../../src/billing/payments/railMetadata.ts"

const DAY_MS = 86_400_000
const START = Date.UTC(2026, 0, 31)

const LINES: ChargeRow["lines"] = [
  { type: "plan", description: "Plan", quantity: 2, unit_amount: 250_000, amount: 500_000 },
  { type: "proration", description: "Unused time before the pause", quantity: 1, unit_amount: -1_000, amount: -1_000 },
]
const BILL: Bill = {
  no: 3,
  purpose: "renewal",
  anchorAt: START,
  periodNo: 2,
  periodStart: START + 14 * DAY_MS,
  periodEnd: START + 21 * DAY_MS,
  quantity: 2,
  lines: LINES,
  amountKobo: 499_000,
  attempt: 2,
  attemptedAt: START + 15 * DAY_MS,
  origin: "schedule",
  methodId: null,
  nextMethod: null,
  standIn: null,
}
const CHARGE = newCharge({
  account_id: "acct_1",
  livemode: true,
  customer_id: "cus_1",
  subscription_id: "sub_1",
  test_clock_id: null,
  bill_no: BILL.no,
  attempt_number: BILL.attempt,
  amount_kobo: BILL.amountKobo,
  period_start_at: BILL.periodStart,
  period_end_at: BILL.periodEnd,
  lines: LINES,
  purpose: "sale",
  hosted: false,
  payment_method: {
    id: "pm_1",
    type: "card",
    brand: null,
    last4: null,
    bank_name: null,
    exp_month: null,
    exp_year: null,
  },
  payment_method_named: false,
  retry_of: null,
  page_id: null,
  submission: null,
  rail: "paystack",
  sent_at: START,
  runner: 1,
  description: null,
  metadata: { order: "the merchant's own" },
  created_at: START,
})

const METADATA = railMetadataOf(CHARGE, BILL)
const DESCRIBED = {
  account: "acct_1",
  environment: "live",
  customer: "cus_1",
  subscription: "sub_1",
  attempt: 2,
  amountKobo: 499_000,
  bill: { no: 3, periodStart: BILL.periodStart, periodEnd: BILL.periodEnd },
  lines: LINES,
  hosted: false,
  method: "pm_1",
  named: false,
  page: null,
  submission: null,
  retry_of: null,
  description: null,
  billDetails: {
    purpose: "renewal",
    origin: "schedule",
    attempted_at: BILL.attemptedAt,
    anchor_at: BILL.anchorAt,
    period_no: 2,
    quantity: 2,
  },
}

describe("the metadata of a charge", () => {
  it("has only text values, without the merchant's metadata, and is read back as an object or as JSON", () => {
    expect(Object.values(METADATA).every((value) => typeof value === "string")).toBe(true)
    expect(METADATA).toMatchObject({
      account: "acct_1",
      environment: "live",
      customer: "cus_1",
      subscription: "sub_1",
      bill: "3",
      attempt: "2",
      period: "2026-02-14T00:00:00.000Z/2026-02-21T00:00:00.000Z",
    })
    expect(JSON.stringify(METADATA)).not.toContain("own")
    expect(describedBy(METADATA)).toEqual(DESCRIBED)
    expect(describedBy(JSON.stringify(METADATA))).toEqual(DESCRIBED)
    // A rail may return numbers, and fields of its own.
    expect(describedBy({ ...METADATA, bill: 3, attempt: 2, amount: 499_000, cancel_action: "x" })).toEqual(DESCRIBED)
  })

  it.each([
    ["nothing", null],
    ["a list", []],
    ["an amount other than the sum of its lines", { ...METADATA, amount: "499001" }],
    ["an amount that is too large to count", { ...METADATA, amount: "99999999999999999999" }],
    ["a period that ends before it starts", { ...METADATA, period: METADATA.period!.split("/").reverse().join("/") }],
    ["a bill without a number", { ...METADATA, bill: "-1" }],
    ["details that are cut", { ...METADATA, details: METADATA.details!.slice(0, -1) }],
    ["a customer that is no text", { ...METADATA, customer: { id: "cus_1" } }],
  ])("is missing with %s", (_, value) => {
    expect(describedBy(value)).toBeUndefined()
  })

  it("is read without an error, with any content", () => {
    fc.assert(
      fc.property(
        fc.oneof(
          fc.jsonValue(),
          fc.record({ ...Object.fromEntries(Object.keys(METADATA).map((name) => [name, fc.jsonValue()])) }),
        ),
        (value) => {
          const described = describedBy(value)
          expect(described === undefined || typeof described.account === "string").toBe(true)
        },
      ),
    )
  })
})
