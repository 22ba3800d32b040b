/** Tests the posting rules, and the schedules that recognise deferred amounts. */
import fc from "fast-check"
import { describe, expect, it } from "vitest"
import type { Line } from "../../machines/billing.ts"
import { MAX_AMOUNT_KOBO } from "../../machines/billing.ts"
import { deferredIn, type EntryEvent, linesOf, POSTINGS, vatIn } from "../../src/ledger/postings.ts"
import { endSchedule, recognisedBefore, recognisedKobo, restOf, type Schedule } from "../../src/ledger/schedule.ts"

const SALE = {
  lines: [
    { type: "plan", description: "Plan", quantity: 1, unit_amount: 5000, amount: 5000 },
    { type: "overage", description: "Usage", quantity: 3, unit_amount: 100, amount: 300 },
  ],
  customerId: "cus_1",
  rail: "simulator",
  vatBps: 0,
} as const

const shown = (lines: ReturnType<typeof linesOf>) => lines.map(({ account, amountKobo }) => [account, amountKobo])

const SPLIT = { netKobo: 1000, vatKobo: 75 }
const MONEY = { amountKobo: 1075, rail: "paystack", customerId: "cus_1" }
const INVOICE = { amountKobo: 1075, merchant: "acct_1", vatKobo: 75 }
const DEPOSIT = { ...MONEY, planId: "SB-1" }
/** Each rule with its own facts. */
const EXAMPLES: { readonly [E in EntryEvent]: ReturnType<typeof linesOf<E>> } = {
  paid: linesOf("paid", SALE),
  owed: linesOf("owed", SALE),
  overdue_paid: linesOf("overdue_paid", SALE),
  waived: linesOf("waived", SALE),
  written_off: linesOf("written_off", { ...SALE, unserved: SPLIT }),
  recognised: linesOf("recognised", { recognisedKobo: 160 }),
  service_ended: linesOf("service_ended", { recognisedKobo: 160 }),
  service_paused: linesOf("service_paused", { recognisedKobo: -3 }),
  service_resumed: linesOf("service_resumed", { recognisedKobo: 160 }),
  service_delivered: linesOf("service_delivered", { recognisedKobo: 160 }),
  refund_due: linesOf("refund_due", MONEY),
  excess: linesOf("excess", MONEY),
  contradicted: linesOf("contradicted", MONEY),
  verification: linesOf("verification", MONEY),
  refunded: linesOf("refunded", MONEY),
  settled: linesOf("settled", { rail: "paystack", payout: "1", amountKobo: 5000, feeKobo: 75, paidOutKobo: 4900 }),
  explained: linesOf("explained", {
    as: "refunds_payable",
    amountKobo: -25,
    rail: "paystack",
    payout: "1",
    customerId: "cus_1",
  }),
  deposit_paid: linesOf("deposit_paid", DEPOSIT),
  goods_delivered: linesOf("goods_delivered", { ...DEPOSIT, vatKobo: 75 }),
  deposit_cancelled: linesOf("deposit_cancelled", { ...DEPOSIT, feeKobo: 100 }),
  invoiced: linesOf("invoiced", INVOICE),
  invoice_paid: linesOf("invoice_paid", INVOICE),
  invoice_voided: linesOf("invoice_voided", INVOICE),
}

describe("postings", () => {
  it("match the rules", () => {
    expect(shown(EXAMPLES.paid)).toEqual([
      ["clearing", 5300],
      ["deferred_revenue", -5000],
      ["usage_revenue", -300],
    ])
    expect(shown(EXAMPLES.owed)[0]).toEqual(["receivable", 5300])
    expect(shown(EXAMPLES.overdue_paid)).toEqual([
      ["clearing", 5300],
      ["receivable", -5300],
    ])
    expect(shown(EXAMPLES.written_off)).toEqual([
      ["deferred_revenue", 1000],
      ["output_vat", 75],
      ["bad_debt", 4225],
      ["receivable", -5300],
    ])
    expect(shown(EXAMPLES.settled)).toEqual([
      ["bank", 4900],
      ["rail_fees", 75],
      ["clearing", -5000],
      ["suspense", 25],
    ])
    expect(EXAMPLES.explained).toEqual([
      { account: "refunds_payable", detail: "cus_1", amountKobo: -25 },
      { account: "suspense", detail: "paystack", amountKobo: 25 },
    ])
    expect(shown(EXAMPLES.goods_delivered)).toEqual([
      ["buyer_deposits", 1075],
      ["goods_revenue", -1000],
      ["output_vat", -75],
    ])
  })

  it("balance, all of them", () => {
    expect(Object.keys(EXAMPLES)).toEqual(Object.keys(POSTINGS))
    for (const [event, lines] of Object.entries(EXAMPLES)) {
      expect(lines.length, event).toBeGreaterThanOrEqual(2)
      expect(
        lines.reduce((sum, { amountKobo }) => sum + amountKobo, 0),
        event,
      ).toBe(0)
    }
  })

  it("split VAT from each sale, to the kobo", () => {
    const amount = fc.integer({ min: 0, max: MAX_AMOUNT_KOBO })
    const type = fc.constantFrom<Line["type"]>("plan", "proration", "overage", "one_off")
    const line = fc.record({ type, amount }).map(
      ({ type, amount }): Line => ({
        type,
        description: "",
        quantity: 1,
        unit_amount: amount,
        amount: type === "proration" ? -amount : amount,
      }),
    )
    fc.assert(
      fc.property(
        fc.array(line, { minLength: 1, maxLength: 4 }),
        fc.integer({ min: 0, max: 10_000 }),
        (lines, vatBps) => {
          for (const event of ["paid", "owed"] as const) {
            const booked = linesOf(event, { ...SALE, lines, vatBps })
            expect(booked.reduce((sum, { amountKobo }) => sum + amountKobo, 0)).toBe(0)
            expect(booked.every(({ amountKobo }) => amountKobo !== 0)).toBe(true)
            const { netKobo, vatKobo } = deferredIn(lines, vatBps)
            const deferred = booked.find(({ account }) => account === "deferred_revenue")?.amountKobo ?? 0
            expect(deferred + netKobo).toBe(0)
            expect(Math.abs(netKobo * vatBps - vatKobo * 10_000)).toBeLessThanOrEqual((10_000 + vatBps) / 2)
          }
        },
      ),
    )
    expect(vatIn(10_750, 750)).toBe(750)
    expect(vatIn(-10_750, 750)).toBe(-750)
  })
})

describe("a schedule", () => {
  const days = fc.record({
    amount_kobo: fc.integer({ min: 1, max: MAX_AMOUNT_KOBO }),
    start_day: fc.integer({ min: 0, max: 100_000 }),
    length: fc.integer({ min: 1, max: 92 }),
    late: fc.integer({ min: 0, max: 100 }),
  })
  const scheduleOf = ({
    amount_kobo,
    start_day,
    length,
    late,
  }: typeof days extends fc.Arbitrary<infer T> ? T : never): Schedule => ({
    account_id: "acct_1",
    livemode: true,
    subscription_id: "sub_1",
    bill_no: 1,
    part: 1,
    customer_id: "cus_1",
    plan_id: "plan_1",
    test_clock_id: null,
    price_kobo: amount_kobo,
    amount_kobo,
    carried_kobo: 0,
    vat_kobo: 0,
    start_day,
    end_day: start_day + length,
    from_day: start_day + late,
    until_day: Math.max(start_day + length, start_day + late + 1),
    adjusted_kobo: 0,
    moved_kobo: 0,
    state: "running",
  })
  const partsOf = (schedule: Schedule) =>
    Array.from({ length: schedule.until_day - schedule.from_day }, (_, n) => {
      const day = schedule.from_day + n
      return recognisedBefore(schedule, day + 1) - recognisedBefore(schedule, day)
    })

  it("recognises the whole amount: the last day gets the rest, and all days are nearly equal", () => {
    fc.assert(
      fc.property(days, (given) => {
        const schedule = scheduleOf(given)
        const parts = partsOf(schedule)
        expect(parts.reduce((sum, part) => sum + part, 0)).toBe(given.amount_kobo)
        expect(restOf(schedule, schedule.until_day)).toBe(0)
        if (given.late === 0) {
          const even = Math.floor(given.amount_kobo / given.length)
          for (const part of parts) expect([even, even + 1]).toContain(part)
        }
      }),
    )
  })

  it("that ends early leaves exactly the unrecognised rest, at any time", () => {
    fc.assert(
      fc.property(
        days,
        fc.integer({ min: -3, max: 200 }),
        fc.double({ min: 0, max: 1, noNaN: true }),
        (given, after, part) => {
          const schedule = scheduleOf(given)
          const day = schedule.start_day + after
          const rest = restOf(schedule, day)
          expect(recognisedBefore(schedule, day) + rest).toBe(given.amount_kobo)
          const kept = Math.floor(rest * part)
          const stopped = endSchedule(schedule, day, kept, 0)
          expect(stopped.state).toBe(kept === rest ? "ended" : "stopped")
          expect(partsOf(stopped).reduce((sum, one) => sum + one, 0) + kept + restOf(stopped, day + 500)).toBe(
            given.amount_kobo,
          )
          const ended = endSchedule(stopped, day + 7, restOf(stopped, day + 7), 0)
          expect([ended.state, restOf(ended, day + 7)]).toEqual(["ended", 0])
        },
      ),
    )
  })

  it("rounds the accumulated amount down", () => {
    const course = { amount_kobo: 100, start_day: 10, end_day: 13 }
    expect([9, 10, 11, 12, 13].map((day) => recognisedKobo(course, day))).toEqual([0, 33, 66, 100, 100])
    expect(recognisedKobo({ ...course, end_day: null }, 12)).toBe(0)
  })
})
