/** Tests the exact texts for buyers. */
import { describe, expect, it } from "vitest"
import { DAY_MS } from "../../src/base/time.ts"
import type { Offer } from "../../src/pages/views.ts"
import {
  consequence,
  day,
  dayAndHour,
  expiry,
  halt,
  kept,
  paymentMethod,
  renewal,
  saving,
  terms,
  units,
  upcoming,
} from "../../src/pages/words.ts"
import { TEST_CARDS, TEST_METHODS, testMethod } from "../../src/rails/rail/simulator/methods.ts"

/** 10:00 in Lagos. */
const START = Date.UTC(2027, 2, 3, 9)

const OFFER: Offer = {
  plan: "Gym",
  description: null,
  cycle: "monthly",
  priceKobo: 500_000,
  quantity: 1,
  unitKobo: null,
  startsAt: START,
  trialEndsAt: null,
  nextChargeAt: Date.UTC(2027, 3, 3, 9),
  isEnding: false,
}
const TRIAL: Offer = { ...OFFER, trialEndsAt: START + 14 * DAY_MS, nextChargeAt: START + 14 * DAY_MS }
const DELIVERY: Offer = { ...OFFER, cycle: "per_delivery", nextChargeAt: null }
const END =
  "To cancel, contact Iron Gym: nothing more is charged then, and what was paid is not refunded automatically."

describe("days", () => {
  it("have Nigeria's format", () => {
    expect(day(START)).toBe("3 March 2027")
    expect(dayAndHour(START)).toBe("3 March 2027, 10:00")
    expect(dayAndHour(Date.UTC(2027, 11, 31, 23))).toBe("1 January 2028, 00:00")
    expect(day(Date.UTC(2027, 11, 31, 22, 59))).toBe("31 December 2027")
  })
})

describe("an offer", () => {
  it.each([
    ["daily", "₦5,000.00 every day, from 3 March 2027"],
    ["weekly", "₦5,000.00 every week, from 3 March 2027"],
    ["monthly", "₦5,000.00 every month, from 3 March 2027"],
    ["quarterly", "₦5,000.00 every 3 months, from 3 March 2027"],
    ["per_delivery", "₦5,000.00 for each delivery, from 3 March 2027"],
  ] as const)("says its price %s", (cycle, says) => {
    expect(terms({ ...OFFER, cycle })).toBe(says)
  })

  it("shows the quantity, the length of a trial, and the price of units", () => {
    expect(terms({ ...OFFER, quantity: 2 })).toBe("2 × ₦5,000.00 every month, from 3 March 2027")
    expect(terms(TRIAL)).toBe("Free until 17 March 2027 (14 days). Then ₦5,000.00 every month.")
    expect(terms({ ...TRIAL, trialEndsAt: START + DAY_MS })).toBe(
      "Free until 4 March 2027 (1 day). Then ₦5,000.00 every month.",
    )
    expect(units(5_000)).toBe("plus ₦50.00 for each unit used")
  })

  it("shows how it continues and ends", () => {
    expect(renewal("Iron Gym", OFFER)).toBe(
      `It renews automatically on 3 April 2027 and every month after that, until it is cancelled. ${END}`,
    )
    expect(renewal("Iron Gym", TRIAL)).toBe(
      `Nothing is charged for it today. You are charged on 17 March 2027 and every month after that, until it is cancelled. ${END}`,
    )
    expect(renewal("Iron Gym", { ...OFFER, isEnding: true })).toBe(
      `It ends automatically on 3 April 2027, and nothing more is charged. ${END}`,
    )
    expect(renewal("Iron Gym", { ...OFFER, isEnding: true, unitKobo: 5_000 })).toBe(
      `It ends automatically on 3 April 2027: only what you have used by then is still charged. ${END}`,
    )
    expect(terms({ ...OFFER, isEnding: true })).toBe("₦5,000.00, from 3 March 2027 to 3 April 2027")
    expect(terms({ ...TRIAL, isEnding: true })).toBe("Free until 17 March 2027 (14 days).")
    expect(renewal("Iron Gym", DELIVERY)).toBe(`You are charged again for each delivery, until it is cancelled. ${END}`)
    expect(renewal("Iron Gym", { ...DELIVERY, trialEndsAt: TRIAL.trialEndsAt })).toBe(
      `Nothing is charged for it today. You are charged for each delivery after 17 March 2027, until it is cancelled. ${END}`,
    )
  })
})

describe("payment methods", () => {
  it("are named by brand or bank and their last digits", () => {
    const called = (id: string) => paymentMethod(testMethod(id)!)
    expect(called("pm_test_visa")).toBe("Visa •••• 1111")
    expect(called("pm_test_mastercard")).toBe("Mastercard •••• 4444")
    expect(called("pm_test_verve")).toBe("Verve •••• 5060")
    expect(called("pm_test_bank_account")).toBe("Test Bank •••• 6789")
    expect(called("pm_test_ussd")).toBe("USSD, Test Bank")
    expect(expiry(testMethod("pm_test_visa")!)).toBe("expires 12/2034")
    expect(expiry(testMethod("pm_test_ussd")!)).toBe(null)
  })

  it("of the sandbox are all different", () => {
    const looks = [...TEST_METHODS.keys()].map((id) => paymentMethod(testMethod(id)!))
    expect(new Set(looks).size).toBe(looks.length)
    const digits = [...TEST_METHODS.values()].flatMap(({ looks: { last4 } }) => last4 ?? [])
    expect(new Set(digits).size).toBe(digits.length)
    for (const one of digits) expect(one).toMatch(/^\d{4}$/)
  })

  it("of the sandbox end like their test cards", () => {
    for (const { number, method } of TEST_CARDS)
      expect([method, testMethod(method)!.last4]).toEqual([method, number.replaceAll(" ", "").slice(-4)])
  })

  it("have a name if little is known of them", () => {
    const unknown = { id: "pm_1", brand: null, last4: null, bank_name: null, exp_month: null, exp_year: null }
    expect(paymentMethod({ ...unknown, type: "card" })).toBe("Card")
    expect(paymentMethod({ ...unknown, type: "card", brand: "afrigo" })).toBe("afrigo")
    expect(paymentMethod({ ...unknown, type: "bank_account" })).toBe("Bank account")
    expect(paymentMethod({ ...unknown, type: "ussd" })).toBe("USSD")
  })
})

describe("other sentences", () => {
  it("say how a payment method will be used", () => {
    expect(saving("Iron Gym", true, "default")).toBe(
      "Later payments to Iron Gym are charged to this payment method, until you ask Iron Gym to remove it.",
    )
    expect(saving("Iron Gym", false, { plan: "Gym" })).toBe(
      "Nothing is charged now. Later payments for Gym are charged to this payment method, until you ask Iron Gym to remove it.",
    )
    expect(saving("Iron Gym", false, "beside")).toBe(
      "Nothing is charged now. It is kept beside the payment method that Iron Gym charges now: ask Iron Gym to have it charged instead.",
    )
    expect(kept("Iron Gym")).toBe("The payment method that you pay with is kept for your later payments to Iron Gym.")
  })

  it("say what is not served, and what ends that", () => {
    const sentences = (["pause", "restrict", "hold"] as const).map((what) =>
      halt({ plan: "Gym", what, since: START, ends: "by_paying" }, "Iron Gym"),
    )
    expect(sentences).toEqual([
      "Gym has been paused since 3 March 2027. Paying resumes it.",
      "Access to Gym has been restricted since 3 March 2027. Paying restores it.",
      "Deliveries of Gym have been held since 3 March 2027. Paying starts them again.",
    ])
    const asked = (at: number | null) => halt({ plan: "Gym", what: "pause", since: START, ends: { at } }, "Iron Gym")
    expect([asked(START + DAY_MS), asked(null)]).toEqual([
      "Gym has been paused since 3 March 2027, and resumes on 4 March 2027.",
      "Gym has been paused since 3 March 2027: to resume it, contact Iron Gym.",
    ])
  })

  it("say what comes next", () => {
    const gym = { plan: "Gym", at: START }
    expect(upcoming({ ...gym, what: "charge" })).toBe("The next charge for Gym comes on 3 March 2027.")
    expect(upcoming({ ...gym, what: "charge", at: null })).toBe(
      "The next charge for Gym comes with your next delivery.",
    )
    expect(upcoming({ ...gym, what: "end", billsUnits: false })).toBe(
      "Gym ends on 3 March 2027, and nothing more is charged for it.",
    )
    expect(upcoming({ ...gym, what: "end", billsUnits: true })).toBe(
      "Gym ends on 3 March 2027: only what you have used by then is still charged.",
    )
    expect(upcoming({ ...gym, what: "cancelled" })).toBe(
      "Gym was cancelled on 3 March 2027: nothing more is charged for it.",
    )
  })

  it("say what happens automatically", () => {
    const sentences = (["retry", "pause", "restrict", "hold", "cancel"] as const).map((what) =>
      consequence({ at: START, what, plan: "Gym" }),
    )
    expect(sentences).toEqual([
      "We try your saved payment method again",
      "Gym is paused",
      "Access to Gym is restricted",
      "Deliveries of Gym are held",
      "Gym is cancelled",
    ])
  })
})
