import fc from "fast-check"
import { describe, expect, it } from "vitest"
import { decide } from "../../machines/decide.ts"
import {
  INSTALMENT_PLAN_STATUSES,
  type InstalmentEvent,
  instalmentMachine,
  isSaving,
} from "../../machines/instalment.ts"
import {
  dueKobo,
  extend,
  FREQUENCIES,
  type Frequency,
  GRACE_MS,
  hasMissed,
  isPaidUp,
  MIN_PAYMENT_KOBO,
  miss,
  missedKobo,
  nextOf,
  nextReminder,
  outstandingKobo,
  pay,
  payableKobo,
  type Savings,
  scheduleOf,
} from "../../machines/instalment_schedule.ts"
import { EXAMPLES, inputs, moves, start, state, step } from "../support/instalmentModel.ts"

const TERMS = {
  mode: "flexible",
  frequency: null,
  targetKobo: 100_000,
  cycleMonths: 1,
  lateFeeKobo: 0,
  refundWindowDays: 7,
} as const
const DAY_MS = 86_400_000
const at = (text: string): number => Date.parse(text)
const day = (ms: number): string => new Date(ms).toISOString().slice(0, 10)

const savingsOf = (frequency: Frequency, naira: number, cycleMonths: number, start: number, lateFee = 0): Savings => ({
  targetKobo: naira * 100,
  lateFeeKobo: lateFee * 100,
  ...scheduleOf({ mode: "fixed", frequency, targetKobo: naira * 100, cycleMonths }, start),
  paidKobo: 0,
  feesPaidKobo: 0,
  pendingFeeKobo: 0,
})

describe("a fixed schedule", () => {
  it("keeps its anchor at month ends, with the remainder on the last instalment", () => {
    const { instalments, deadline } = savingsOf("monthly", 10_000, 3, at("2027-01-31T09:00:00Z"))
    expect(instalments.map(({ dueAt, amountKobo }) => [day(dueAt), amountKobo])).toEqual([
      ["2027-01-31", 333_300],
      ["2027-02-28", 333_300],
      ["2027-03-31", 333_400],
    ])
    expect(day(deadline)).toBe("2027-04-30")
  })

  it.each([
    ["daily", "2027-01-01", 1, 31],
    ["weekly", "2027-02-01", 1, 4],
    ["weekly", "2027-01-01", 1, 5],
    ["biweekly", "2027-02-01", 1, 2],
    ["biweekly", "2027-01-01", 2, 5],
    ["monthly", "2027-01-31", 24, 24],
  ] as const)("counts the %s steps that start inside the cycle from %s", (frequency, start, months, count) => {
    const { instalments, deadline } = savingsOf(frequency, 1_000_000, months, at(`${start}T00:00:00Z`))
    expect(instalments.length).toBe(count)
    expect(instalments.at(-1)!.dueAt).toBeLessThan(deadline)
  })

  it("has whole-naira amounts that sum to the price, for any terms", () => {
    fc.assert(
      fc.property(
        fc.constantFrom(...FREQUENCIES),
        fc.integer({ min: 200, max: 999_999_999 }),
        fc.integer({ min: 1, max: 24 }),
        fc.date({ min: new Date("2020-01-01"), max: new Date("2040-12-31"), noInvalidDate: true }),
        (frequency, naira, months, start) => {
          const { instalments, deadline } = savingsOf(frequency, naira, months, start.getTime())
          expect(instalments.reduce((sum, { amountKobo }) => sum + amountKobo, 0)).toBe(naira * 100)
          const [first, last] = [instalments[0]!, instalments.at(-1)!]
          expect(first.dueAt).toBe(start.getTime())
          expect(last.dueAt).toBeLessThan(deadline)
          for (const { amountKobo } of instalments) expect(amountKobo % 100).toBe(0)
          for (const one of instalments.slice(0, -1)) expect(one.amountKobo).toBe(first.amountKobo)
          expect(last.amountKobo).toBeGreaterThanOrEqual(first.amountKobo)
          expect(last.amountKobo - first.amountKobo).toBeLessThan(instalments.length * 100)
        },
      ),
    )
  })
})

describe("payments", () => {
  const START = at("2027-01-10T09:00:00Z")
  const fresh = () => savingsOf("weekly", 5_000, 1, START, 100)

  it("fill missed instalments, then the fees, then future ones", () => {
    const late = miss(fresh(), START + 7 * DAY_MS + GRACE_MS)
    expect([missedKobo(late), late.pendingFeeKobo, dueKobo("fixed", late)]).toEqual([200_000, 20_000, 220_000])
    const paid = pay(late, 270_000, START + 9 * DAY_MS)
    expect(paid).toMatchObject({ paidKobo: 250_000, feesPaidKobo: 20_000, pendingFeeKobo: 0 })
    expect(paid.instalments.map(({ status }) => status)).toEqual([
      "paid",
      "paid",
      "scheduled",
      "scheduled",
      "scheduled",
    ])
    expect(nextOf(paid)).toMatchObject({ index: 2, restKobo: 50_000 })
    expect(dueKobo("fixed", paid)).toBe(50_000)
  })

  it("are early before the due day, in UTC", () => {
    const statusOf = (payAt: string) => pay(pay(fresh(), 100_000, START), 100_000, at(payAt)).instalments[1]!.status
    expect(statusOf("2027-01-16T23:59:59.999Z")).toBe("paid_early")
    expect(statusOf("2027-01-17T00:00:00Z")).toBe("paid")
  })

  it("count as missed exactly a day after the due instant", () => {
    expect(hasMissed(miss(fresh(), START + GRACE_MS - 1))).toBe(false)
    expect(
      miss(fresh(), START + GRACE_MS)
        .instalments.map(({ status }) => status)
        .slice(0, 2),
    ).toEqual(["missed", "scheduled"])
  })

  it("move everything unpaid, and forgive only instalments due later again", () => {
    const late = miss(pay(fresh(), 100_000, START), START + 14 * DAY_MS + GRACE_MS)
    const moved = extend(late, 10 * DAY_MS, START + 15 * DAY_MS)
    expect(moved.instalments.map(({ dueAt, status }) => [(dueAt - START) / DAY_MS, status])).toEqual([
      [0, "paid"],
      [17, "scheduled"],
      [24, "scheduled"],
      [31, "scheduled"],
      [38, "scheduled"],
    ])
    expect(moved.pendingFeeKobo).toBe(20_000)
    expect(moved.deadline - late.deadline).toBe(10 * DAY_MS)
    const partly = extend(late, 2 * DAY_MS, START + 15 * DAY_MS)
    expect(partly.instalments.map(({ status }) => status)).toEqual([
      "paid",
      "missed",
      "scheduled",
      "scheduled",
      "scheduled",
    ])
  })

  it("have reminders three days and a day before, and one, three and seven days after the oldest missed one", () => {
    const paid = pay(fresh(), 100_000, START)
    const all = (savings: Savings) => {
      const found: Array<string> = []
      for (let after = START; ; ) {
        const next = nextReminder(savings, after)
        if (next === undefined) return found
        found.push(`${next.rule} ${next.day} ${day(next.at)}`)
        after = next.at
      }
    }
    expect(all(paid)).toEqual(["pre_due 3 2027-01-14", "pre_due 1 2027-01-16"])
    expect(all(miss(paid, START + 8 * DAY_MS))).toEqual([
      "post_due 1 2027-01-18",
      "post_due 3 2027-01-20",
      "pre_due 3 2027-01-21",
      "pre_due 1 2027-01-23",
      "post_due 7 2027-01-24",
    ])
    expect(all(pay(savingsOf("daily", 31_000, 1, START), 100_000, START))).toEqual([])
  })
})

describe("the life of an instalment plan", () => {
  it("keeps its invariants over any moves", () => {
    const seen = new Set<string>()
    fc.assert(
      fc.property(inputs, fc.array(moves, { minLength: 10, maxLength: 60, size: "max" }), (input, steps) => {
        let world = start(input)
        for (const move of steps) {
          world = step(world, move)
          const { context } = world.snapshot
          const here = state(world)
          seen.add(here)
          expect(context.paidKobo).toBeGreaterThanOrEqual(0)
          expect(outstandingKobo(context)).toBeGreaterThanOrEqual(0)
          expect(context.paying).toBe(null)
          if (!isSaving(here)) {
            expect([...world.timers.keys()]).toEqual([])
            continue
          }
          expect(hasMissed(context)).toBe(here === "overdue")
          expect(isPaidUp(context)).toBe(false)
          expect(dueKobo(context.mode, context)).toBeLessThanOrEqual(payableKobo(context))
          expect(missedKobo(context)).toBeGreaterThanOrEqual(0)
          // Paid instalments come first, then missed ones, then future ones.
          const order = context.instalments.map(({ status }) =>
            ["paid", "paid_early"].includes(status) ? 0 : status === "missed" ? 1 : 2,
          )
          expect(order).toEqual([...order].sort((a, b) => a - b))
          // No timer is awaited that was not set. If only a fee is left, nothing more is missed.
          if (here === "pending") expect(world.timers.has("expiry")).toBe(true)
          else if (here === "active") expect(world.timers.has("missed")).toBe(nextOf(context) !== undefined)
        }
      }),
      { numRuns: 500, examples: EXAMPLES },
    )
    expect([...seen].sort()).toEqual([...INSTALMENT_PLAN_STATUSES].sort())
  })

  it("accepts one payment at a time", () => {
    let world = start({ ...TERMS, at: 0 })
    const snapshot = () => world.snapshot
    const apply = (event: InstalmentEvent) => {
      const decision = decide(instalmentMachine, snapshot(), event)
      world = { ...world, snapshot: decision.snapshot }
      return decision.changed
    }
    expect(apply({ type: "payment.begun", at: 1, chargeId: "one" })).toBe(true)
    expect(apply({ type: "payment.begun", at: 1, chargeId: "two" })).toBe(false)
    expect(apply({ type: "payment.succeeded", at: 1, chargeId: "two", amountKobo: 20_000 })).toBe(false)
    expect(apply({ type: "payment.succeeded", at: 1, chargeId: "one", amountKobo: 20_000 })).toBe(true)
    expect(apply({ type: "payment.succeeded", at: 1, chargeId: "one", amountKobo: 20_000 })).toBe(false)
  })

  it("accepts any amount: the page checks the minimum", () => {
    const flexible: Savings = {
      ...savingsOf("monthly", 1_000, 1, 0),
      ...scheduleOf({ mode: "flexible", frequency: null, targetKobo: 100_000, cycleMonths: 1 }, 0),
    }
    expect(dueKobo("flexible", flexible)).toBe(MIN_PAYMENT_KOBO)
    expect(dueKobo("flexible", pay(flexible, 90_000, 0))).toBe(10_000)
  })
})
