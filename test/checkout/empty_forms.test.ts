/** Tests how pages answer a form with nothing typed (decision G8): with an error at its first empty field. */
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

/** The fields that a browser sends with nothing typed and another way to pay ticked, with the page's own values. */
const untouched = (shown: Shown): Readonly<Record<string, string>> =>
  Object.fromEntries(
    [...markup(shown).matchAll(/<(?:input|select)[^>]* name="([^"]*)"[^>]*>/g)]
      .filter(([tag]) => !/type="radio"/.test(tag))
      .map(([tag, name]) => [name!, / value="([^"]*)"/.exec(tag)?.[1] ?? ""]),
  )

/** The fields with an error, in order, with messages. Each is a field of the page, and the summary links to it. */
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
  it("of an existing customer gets errors at the card's fields, and nothing is charged", async () => {
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

  it("of an unknown buyer gets its first error at the name", async () => {
    const { url } = await createSession(api, { plan: await createPlan(api) })
    const shown = await submitForm(url, untouched(await open(url)))
    expect([shown.status, faultsOf(shown)]).toEqual([400, [["name", "Enter your name."], ...NO_CARD]])
  })

  it("beside saved methods gets errors at the card's fields, and another way to pay stays ticked", async () => {
    const { link } = await overdue(api)
    const shown = await submitForm(link, untouched(await open(link)))
    expect([shown.status, faultsOf(shown)]).toEqual([400, NO_CARD])
    expect(markup(shown)).toContain('id="another_card" name="payment_method" value="" checked')
  })

  it("of an instalment plan gets its first error at the amount, if the buyer chooses it or has emptied it", async () => {
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

  it("from a program gets the parameter names that programs use", async () => {
    const { url } = await checkout(api)
    expect(refusal(await submit(url, {}))).toEqual([400, "parameter_missing", "payment_method"])
  })
})
