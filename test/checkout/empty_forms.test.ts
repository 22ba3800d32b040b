/** What pages say of a form that was sent as it was, with nothing typed (decision G8): at its first empty field. */
import { describe, expect, it } from "vitest"
import { checkout, createSession, markup, open, overdue, type Shown, submit, submitForm } from "../support/checkout.ts"
import { beginPlan, createProduct, useShop } from "../support/instalments.ts"
import { useInstance } from "../support/instance.ts"
import { createClock, createPlan, data, refusal } from "../support/story.ts"
import { useWhole } from "../support/whole.ts"

const instance = useInstance()
const { api, database } = instance
useWhole(database)
const { buyers } = useShop(instance)

const NO_CARD = [
  ["card_number", "Enter the card number."],
  ["card_expiry", "Enter the expiry date."],
  ["card_cvc", "Enter the security code."],
]

/** What a browser sends of a form in which nothing was typed and another way to pay is ticked: every field, with what the page wrote there. */
const untouched = (shown: Shown): Readonly<Record<string, string>> =>
  Object.fromEntries(
    [...markup(shown).matchAll(/<(?:input|select)[^>]* name="([^"]*)"[^>]*>/g)]
      .filter(([tag]) => !/type="radio"/.test(tag))
      .map(([tag, name]) => [name!, / value="([^"]*)"/.exec(tag)?.[1] ?? ""]),
  )

/** The fields that a page says something of, in order, and what; each is a field of the page, to which the summary leads. */
const faultsOf = (shown: Shown): ReadonlyArray<readonly [string, string]> => {
  const page = markup(shown)
  const faults = [...page.matchAll(/<li><a href="#([^"]*)">([^<]*)<\/a><\/li>/g)].map(
    ([, field, message]) => [field!, message!] as const,
  )
  for (const [field, message] of faults) {
    expect(page).toMatch(new RegExp(`<input id="${field}"[^>]*aria-invalid="true"`))
    expect(page).toContain(
      `<span class="wrong" id="${field}-error"><span class="unseen">Error: </span>${message}</span>`,
    )
  }
  return faults
}

describe("an empty form", () => {
  it("of a known buyer says so at the card's fields, and nothing is tried", async () => {
    const { url, id } = await checkout(api)
    const fields = untouched(await open(url))
    expect(Object.keys(fields)).toEqual([
      "submission",
      "amount",
      "card_number",
      "card_expiry",
      "card_cvc",
      "payment_method",
    ])
    const shown = await submitForm(url, fields)
    expect([shown.status, faultsOf(shown)]).toEqual([400, NO_CARD])
    // The other ways to pay stay folded.
    expect(markup(shown)).toContain("<details>")
    expect(data(await api.get(`/checkout-sessions/${id}`)).status).toBe("open")
    expect(faultsOf(await submitForm(url, {}))).toEqual(NO_CARD)
  })

  it("of a buyer whom the merchant does not know says so at the name first", async () => {
    const { url } = await createSession(api, { plan: await createPlan(api) })
    const shown = await submitForm(url, untouched(await open(url)))
    expect([shown.status, faultsOf(shown)]).toEqual([400, [["name", "Enter your name."], ...NO_CARD]])
  })

  it("beside saved methods says so at the card's fields, with another way to pay still ticked", async () => {
    const { link } = await overdue(api)
    const shown = await submitForm(link, untouched(await open(link)))
    expect([shown.status, faultsOf(shown)]).toEqual([400, NO_CARD])
    expect(markup(shown)).toContain('id="another_card" name="payment_method" value="" checked')
  })

  it("of an instalment plan says so at the amount first, where the buyer chooses it or has emptied it", async () => {
    const testClock = await createClock(api, "2027-01-31T09:00:00.000Z")
    const flexible = { mode: "flexible", allowedFrequencies: undefined }
    const plans = [await createProduct(api, flexible), await createProduct(api)]
    for (const product of plans) {
      const { paymentUrl } = await beginPlan(buyers(), product, { testClock })
      const shown = await submitForm(paymentUrl, { ...untouched(await open(paymentUrl)), amount: "" })
      const amount = ["amount", "Enter how much you want to pay, in whole naira, such as 5000."]
      expect([shown.status, faultsOf(shown)]).toEqual([400, [amount, ...NO_CARD]])
      expect(untouched(shown).amount).toBe("")
    }
  })

  it("that a program sends names the parameter that programs use", async () => {
    const { url } = await checkout(api)
    expect(refusal(await submit(url, {}))).toEqual([400, "parameter_missing", "payment_method"])
  })
})
