/** What buyers read, to the letter. */
import { describe, expect, it } from "vitest"
import type { Offer } from "../../src/pages/views.ts"
import {
  consequence,
  day,
  dayAndHour,
  expiry,
  kept,
  paymentMethod,
  renewal,
  saving,
  terms,
  units,
} from "../../src/pages/words.ts"
import { testMethod } from "../../src/rail/simulator/methods.ts"
import { DAY_MS } from "../../src/time.ts"

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
const END = "To cancel, contact Iron Gym: nothing more is charged then, and what was paid is not refunded by itself."

describe("days", () => {
  it("are Nigeria's", () => {
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

  it("says how many, how long a trial is, and what units cost", () => {
    expect(terms({ ...OFFER, quantity: 2 })).toBe("2 × ₦5,000.00 every month, from 3 March 2027")
    expect(terms(TRIAL)).toBe("Free until 17 March 2027 (14 days). Then ₦5,000.00 every month.")
    expect(terms({ ...TRIAL, trialEndsAt: START + DAY_MS })).toBe(
      "Free until 4 March 2027 (1 day). Then ₦5,000.00 every month.",
    )
    expect(units(5_000)).toBe("plus ₦50.00 for each unit used")
  })

  it("says how it goes on and ends", () => {
    expect(renewal("Iron Gym", OFFER)).toBe(
      `It renews by itself on 3 April 2027 and every month after that, until it is cancelled. ${END}`,
    )
    expect(renewal("Iron Gym", TRIAL)).toBe(
      `Nothing is charged for it today. You are charged on 17 March 2027 and every month after that, until it is cancelled. ${END}`,
    )
    expect(renewal("Iron Gym", { ...OFFER, isEnding: true })).toBe(
      `It ends by itself on 3 April 2027, and nothing more is charged. ${END}`,
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
  it("are called by brand or bank and their last digits", () => {
    const called = (id: string) => paymentMethod(testMethod(id)!)
    expect(called("pm_test_visa")).toBe("Visa •••• 4242")
    expect(called("pm_test_mastercard")).toBe("Mastercard •••• 4242")
    expect(called("pm_test_verve")).toBe("Verve •••• 4242")
    expect(called("pm_test_bank_account")).toBe("Test Bank •••• 6789")
    expect(called("pm_test_ussd")).toBe("USSD, Test Bank")
    expect(expiry(testMethod("pm_test_visa")!)).toBe("expires 12/2034")
    expect(expiry(testMethod("pm_test_ussd")!)).toBe(null)
  })

  it("are called something where little is known of them", () => {
    const unknown = { id: "pm_1", brand: null, last4: null, bank_name: null, exp_month: null, exp_year: null }
    expect(paymentMethod({ ...unknown, type: "card" })).toBe("Card")
    expect(paymentMethod({ ...unknown, type: "card", brand: "afrigo" })).toBe("afrigo")
    expect(paymentMethod({ ...unknown, type: "bank_account" })).toBe("Bank account")
    expect(paymentMethod({ ...unknown, type: "ussd" })).toBe("USSD")
  })
})

describe("other sentences", () => {
  it("say what becomes of a payment method", () => {
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

  it("say what happens by itself", () => {
    const said = (["retry", "pause", "restrict", "hold", "cancel"] as const).map((what) =>
      consequence({ at: START, what, plan: "Gym" }),
    )
    expect(said).toEqual([
      "We try your saved payment method again",
      "Gym is paused",
      "Access to Gym is restricted",
      "Deliveries of Gym are held",
      "Gym is cancelled",
    ])
  })
})
