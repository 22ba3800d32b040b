/** Tests which payment methods pages offer and preselect after declined payments (decisions F5, P5). */
import { describe, expect, it } from "vitest"
import {
  checkout,
  createSession,
  markup,
  nudge,
  open,
  overdue,
  pay,
  type Shown,
  submitForm,
} from "../support/checkout.ts"
import { beginPlan, createProduct, useShop } from "../support/instalments.ts"
import { useInstance } from "../support/instance.ts"
import { advance, createClock, createPlan, data } from "../support/story.ts"
import { useWhole } from "../support/whole.ts"

const instance = useInstance()
const { api, database } = instance
useWhole(database)
const { buyers } = useShop(instance)

const CARD = { card_number: "4084 0800 0000 0051", card_expiry: "12/34", card_cvc: "123" } as const
const HONOR = "pm_test_do_not_honor"
const VISA = "pm_test_visa"
/** Another way to pay, preselected. */
const OTHER = " ticked"

/** The ways to pay that a page offers, in order. "" is another way. */
const choicesOf = (shown: Shown): ReadonlyArray<string> =>
  [...markup(shown).matchAll(/<input type="radio"[^>]*? value="([^"]*)"( checked)?/g)].map(
    ([, value, ticked]) => `${value}${ticked === undefined ? "" : " ticked"}`,
  )

/** Attaches methods to a customer. The last one is the default. */
const attach = async (customer: string, ...methods: ReadonlyArray<string>) => {
  for (const default_payment_method of methods)
    data(await api.patch(`/customers/${customer}`, { default_payment_method }))
}

describe("a checkout", () => {
  it("does not offer a card that was just declined, typed or chosen", async () => {
    const { url, customer } = await checkout(api)
    await attach(customer, HONOR, VISA)
    expect(choicesOf(await open(url))).toEqual([VISA, HONOR, OTHER])
    const typed = await submitForm(url, CARD)
    expect([typed.status, choicesOf(typed)]).toEqual([402, [VISA, HONOR, OTHER]])
    const chosen = await submitForm(url, { payment_method: HONOR })
    expect([chosen.status, choicesOf(chosen)]).toEqual([402, [VISA, OTHER]])
    // A reload, a return to the page, and another session of the customer show the same.
    const { url: another } = await createSession(api, { customer, plan: await createPlan(api) })
    for (const address of [url, `${url}/return`, another]) expect(choicesOf(await open(address))).toEqual([VISA, OTHER])
  })

  it("asks for a card if the only method was declined", async () => {
    const { url } = await checkout(api)
    const shown = await submitForm(url, CARD)
    expect([shown.status, choicesOf(shown)]).toEqual([402, []])
    expect(markup(shown)).toContain("<legend>Card</legend>")
  })

  it("keeps the chosen method preselected if it was not tried", async () => {
    const { url, customer } = await checkout(api)
    await attach(customer, VISA)
    const shown = await submitForm(url, { payment_method: VISA, amount: "1" })
    expect([shown.status, choicesOf(shown)]).toEqual([422, [`${VISA} ticked`, ""]])
  })
})

describe("a payment link", () => {
  it("preselects another way to pay if a saved method was declined for its bill, and shows the date", async () => {
    const { link, customer } = await overdue(api)
    const [{ id }] = data(await api.get(`/customers/${customer}/payment-methods`))
    const shown = await open(link)
    expect([shown.status, choicesOf(shown)]).toEqual([200, [id, OTHER]])
    expect(markup(shown)).toContain("Visa •••• 1051 <small>expires 12/2034, declined on 1 February 2025</small>")
    const again = await submitForm(link, { payment_method: id })
    expect([again.status, choicesOf(again)]).toEqual([402, []])
  })

  it("offers a method a day after it was declined, and shows the date of the decline", async () => {
    const { link, clock, customer } = await overdue(api)
    expect((await pay(link, HONOR)).status).toBe(402)
    const choicesAt = async (at: string) => {
      await advance(api, clock, at)
      return choicesOf(await open(link))
    }
    expect(await choicesAt("2025-02-02T11:59:59Z")).not.toContain(HONOR)
    expect(await choicesAt("2025-02-02T12:00:00Z")).toEqual([HONOR, "pm_test_success_then_insufficient_funds", OTHER])
    expect(markup(await open(link))).toContain(
      "Visa •••• 0005 <small>expires 12/2034, declined on 1 February 2025</small>",
    )
    expect(data(await pay(link, VISA)).status).toBe("paid")
    expect(choicesOf(await open(await nudge(api, customer)))).toContain(VISA)
  })

  it("does not offer a method that can never pay again", async () => {
    const { link, clock } = await overdue(api, "expired_card")
    expect(choicesOf(await open(link))).toEqual([])
    await advance(api, clock, "2025-02-05T12:00:00Z")
    expect(choicesOf(await open(link))).toEqual([])
  })

  it("offers a method that asks for a code", async () => {
    const { link } = await overdue(api, "authentication_required")
    expect(choicesOf(await open(link))).toEqual(["pm_test_success_then_authentication_required", OTHER])
  })
})

describe("the page of an instalment plan", () => {
  it("does not offer a card that was just declined", async () => {
    const testClock = await createClock(api, "2027-01-31T09:00:00.000Z")
    const plan = await beginPlan(buyers(), await createProduct(api), { testClock })
    data(await pay(plan.paymentUrl, VISA))
    expect(choicesOf(await open(plan.paymentUrl))).toEqual([VISA, OTHER])
    const shown = await submitForm(plan.paymentUrl, { payment_method: HONOR })
    expect([shown.status, choicesOf(shown)]).toEqual([402, [VISA, OTHER]])
    expect(choicesOf(await open(plan.paymentUrl))).toEqual([VISA, OTHER])
  })
})
