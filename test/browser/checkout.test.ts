/** Tests the checkout page in a browser, and the data that the merchant sees afterwards. */
import type { Page } from "playwright-core"
import { describe, expect, it } from "vitest"
import { inspect, titled, useBuyers, valueIn } from "../support/browser.ts"
import { pay, pick, select, typeCard } from "../support/form.ts"
import { openOnClock, openSession, PRICE, seen } from "../support/hosted.ts"
import { useInstance } from "../support/instance.ts"
import { useShop } from "../support/shop.ts"
import { advance, createCustomer, data } from "../support/story.ts"

const { api, server } = useInstance()
const shop = useShop()
const newBuyer = useBuyers(
  () => server().origin,
  () => shop.origin(),
)

const PAID = ["completed", "active", `succeeded ${PRICE}`]

const ofCustomer = async (plan: object = {}, session: object = {}) =>
  openSession(api, { customer: await createCustomer(api), ...shop.urls(), ...session }, plan)

const brandsOf = async (id: string): Promise<ReadonlyArray<string>> => {
  const { subscription } = data(await api.get(`/checkout-sessions/${id}`))
  return (await api.all(`/charges?subscription=${subscription}`)).map(({ payment_method }) => payment_method.brand)
}
const focused = (page: Page) => valueIn<string>(page, "document.activeElement.id")

describe("a purchase", () => {
  it("starts at the shop and returns there, paid by a typed card", async () => {
    const { id, url } = await ofCustomer()
    shop.put("/plans", `<a href="${url}">Subscribe</a>`)
    const { page, asked } = await newBuyer()
    await page.goto(`${shop.origin()}/plans`)
    await page.getByText("Subscribe").click()
    await titled(page, "Subscribe to Gym")
    await inspect(page)
    await typeCard(page, "4242424242424242")
    expect(await page.getByLabel("Card number").inputValue()).toBe("4242 4242 4242 4242")
    expect(await page.getByLabel("Expiry").inputValue()).toBe("12/34")
    expect(asked).toEqual([`GET ${new URL(url).pathname}`])
    await pay(page)
    await shop.landed(page, id)
    expect(await seen(api, id)).toEqual(PAID)
  })

  it("keeps the caret in place when digits in the middle of a number are corrected", async () => {
    const { url } = await ofCustomer()
    const { page } = await newBuyer()
    await page.goto(url)
    const number = page.getByLabel("Card number")
    await number.pressSequentially("42424242424242")
    await valueIn(page, "document.getElementById('card_number').setSelectionRange(4, 4)")
    await number.pressSequentially("99")
    expect(await number.inputValue()).toBe("4242 9942 4242 4242")
    expect(await valueIn(page, "document.getElementById('card_number').selectionStart")).toBe(7)
    await number.press("Backspace")
    await number.press("Backspace")
    expect(await number.inputValue()).toBe("4242 4242 4242 42")
    await number.press("End")
    await number.pressSequentially("42x")
    expect(await number.inputValue()).toBe("4242 4242 4242 4242")
  })

  it("is paid by a test card's button", async () => {
    const { id, url } = await ofCustomer()
    const { page } = await newBuyer()
    await page.goto(url)
    await page.getByRole("link", { name: "Test cards" }).click()
    await pick(page, "4242 4242 4242 4242")
    expect(await page.getByLabel("Card number").inputValue()).toBe("4242 4242 4242 4242")
    expect(await valueIn(page, "document.activeElement.type")).toBe("submit")
    await page.keyboard.press("Enter")
    await shop.landed(page, id)
    expect(await seen(api, id)).toEqual(PAID)
  })

  it("is declined, and paid by another card", async () => {
    const { id, url } = await ofCustomer()
    const { page } = await newBuyer()
    await page.goto(url)
    await pick(page, "insufficient funds")
    await pay(page)
    const alert = page.getByRole("alert")
    await alert.getByText("there is not enough money on the account").waitFor()
    expect(await page.title()).toMatch(/^Error: Subscribe to Gym/)
    expect(await valueIn(page, "document.activeElement.getAttribute('role')")).toBe("alert")
    expect(await page.getByLabel("Card number").inputValue()).toBe("")
    expect(await seen(api, id)).toEqual(["open", "incomplete", `failed ${PRICE}`])
    await inspect(page)
    await typeCard(page, "4242424242424242")
    await pay(page)
    await shop.landed(page, id)
    expect(await seen(api, id)).toEqual(["completed", "active", `failed ${PRICE}`, `succeeded ${PRICE}`])
  })

  it("shows each field's error, and accepts the corrected form", async () => {
    const { id, url } = await openSession(api, shop.urls())
    const { page } = await newBuyer()
    await page.goto(url)
    await inspect(page)
    await page.getByLabel("E-mail").fill("ada@example")
    await page.getByLabel("Phone").fill("12")
    await page.getByLabel("Card number").fill("4242424242424241")
    await page.getByLabel("Expiry").fill("12/20")
    await page.getByLabel("CVC").fill("1")
    await pay(page)
    await page.getByRole("heading", { name: "Please check what you have typed" }).waitFor()
    expect(await valueIn(page, "document.activeElement.getAttribute('role')")).toBe("alert")
    const fields = ["name", "email", "phone", "card_number", "card_expiry", "card_cvc"]
    const links = page.getByRole("alert").getByRole("link")
    expect(await links.evaluateAll((all) => all.map((link) => link.getAttribute("href")))).toEqual(
      fields.map((field) => `#${field}`),
    )
    for (const [index, field] of fields.entries()) {
      const input = page.locator(`#${field}`)
      expect(await input.getAttribute("aria-invalid")).toBe("true")
      const message = page.locator(`#${field}-error`)
      expect((await input.getAttribute("aria-describedby"))?.split(" ")).toContain(`${field}-error`)
      expect(await message.textContent()).toBe(`Error: ${await links.nth(index).innerText()}`)
      await links.nth(index).click()
      expect(await focused(page)).toBe(field)
    }
    await inspect(page)
    expect(await page.getByLabel("E-mail").inputValue()).toBe("ada@example")
    expect(await page.getByLabel("Card number").inputValue()).toBe("")
    await page.getByLabel("Name").fill("Ada Obi")
    await page.getByLabel("E-mail").fill("ada@example.com")
    await page.getByLabel("Phone").fill("0803 123 4567")
    await pick(page, "4242 4242 4242 4242")
    await pay(page)
    await shop.landed(page, id)
    expect(await seen(api, id)).toEqual(PAID)
    const { customer } = data(await api.get(`/checkout-sessions/${id}`))
    expect(data(await api.get(`/customers/${customer}`))).toMatchObject({
      name: "Ada Obi",
      email: "ada@example.com",
      phone: "+2348031234567",
    })
  })

  it("asks for the bank's code, and asks again after a wrong one", async () => {
    const { id, url } = await ofCustomer()
    const { page } = await newBuyer()
    await page.goto(url)
    await pick(page, "asks for a code")
    await pay(page)
    const code = page.getByLabel("One-time code")
    await code.waitFor()
    expect(await seen(api, id)).toEqual(["open", "incomplete"])
    await inspect(page)
    await code.fill("000000")
    await pay(page)
    await page.getByRole("link", { name: "The one-time code was not right. Nothing was charged." }).waitFor()
    expect(await seen(api, id)).toEqual(["open", "incomplete", `failed ${PRICE}`])
    await inspect(page)
    await page.getByRole("link", { name: "Use another payment method" }).click()
    await page.getByLabel("Card number").waitFor()
    await pick(page, "asks for a code")
    await pay(page)
    await code.fill("123456")
    await pay(page)
    await shop.landed(page, id)
    expect(await seen(api, id)).toEqual(["completed", "active", `failed ${PRICE}`, `succeeded ${PRICE}`])
  })

  it("offers the saved methods of a customer, and another card", async () => {
    const customer = await createCustomer(api)
    for (const default_payment_method of ["pm_test_mastercard", "pm_test_verve"])
      data(await api.patch(`/customers/${customer}`, { default_payment_method }))
    const first = await openSession(api, { customer, ...shop.urls() })
    const second = await openSession(api, { customer, ...shop.urls() })
    const { page } = await newBuyer()
    await page.goto(first.url)
    expect(await page.getByRole("radio").count()).toBe(3)
    expect(await page.getByRole("radio", { name: "Another card" }).isChecked()).toBe(true)
    await inspect(page)
    await page.getByRole("radio", { name: /^Mastercard/ }).check()
    expect(await page.getByLabel("Card number").isVisible()).toBe(false)
    await inspect(page)
    await pay(page)
    await shop.landed(page, first.id)
    expect(await seen(api, first.id)).toEqual(PAID)
    expect(await brandsOf(first.id)).toEqual(["mastercard"])
    await page.goto(second.url)
    await page.getByRole("radio", { name: /^Verve/ }).check()
    await pick(page, "4242 4242 4242 4242")
    expect(await page.getByRole("radio", { name: "Another card" }).isChecked()).toBe(true)
    await pay(page)
    await shop.landed(page, second.id)
    expect(await seen(api, second.id)).toEqual(PAID)
    expect(await brandsOf(second.id)).toEqual(["visa"])
  })
})

describe("a checkout with nothing to pay today", () => {
  it("starts a trial and shows when it is charged", async () => {
    const { id, url } = await ofCustomer({ trial_days: 14 })
    const { page } = await newBuyer()
    await page.goto(url)
    await titled(page, "Try Gym for free")
    const main = await page.getByRole("main").innerText()
    expect(main).toContain("₦0.00 to pay today")
    expect(main).toMatch(/Free until \d+ \w+ \d{4} \(14 days\)\. Then ₦5,000\.00 every month\./)
    expect(main).toMatch(
      /Nothing is charged for it today\. You are charged on \d+ \w+ \d{4} and every month after that/,
    )
    await inspect(page)
    await pick(page, "4242 4242 4242 4242")
    await page.getByRole("button", { name: "Start free trial" }).click()
    await shop.landed(page, id)
    expect(await seen(api, id)).toEqual(["completed", "trialing"])
    await page.goto(url)
    await titled(page, "You are subscribed already")
    await inspect(page)
  })

  it("saves a payment method", async () => {
    const customer = await createCustomer(api)
    const session = { mode: "setup", customer, ...shop.urls() }
    const { id, url } = data(await api.post("/checkout-sessions", session), 201)
    const { page } = await newBuyer()
    await page.goto(url)
    await titled(page, "Save a payment method")
    expect(await page.getByRole("main").innerText()).toContain("Nothing is charged now.")
    await inspect(page)
    await pick(page, "asks for a code")
    await page.getByRole("button", { name: "Save payment method" }).click()
    await page.getByLabel("One-time code").fill("123456")
    await page.getByRole("button", { name: "Save payment method" }).click()
    await shop.landed(page, id)
    expect(await seen(api, id)).toEqual(["completed"])
    expect(data(await api.get(`/customers/${customer}`)).default_payment_method).toMatchObject({
      id: "pm_test_requires_otp",
    })
    await page.goto(url)
    await titled(page, "Your payment method is saved")
    await inspect(page)
  })
})

describe("a payment with a slow bank", () => {
  it("is awaited by the page, which continues when it settles", async () => {
    const { id, url, clock } = await openOnClock(api, shop.urls())
    const { page } = await newBuyer()
    await page.goto(url)
    await select(page, "pm_test_bank_account")
    expect(await page.getByLabel("Card number").isVisible()).toBe(false)
    await inspect(page)
    await pay(page)
    await titled(page, "Waiting for your payment")
    expect(page.url()).toBe(`${url}/return`)
    expect(await page.getByRole("status").innerText()).toContain("₦5,000.00 from Test Bank •••• 6789")
    await inspect(page)
    expect(await seen(api, id)).toEqual(["open", "incomplete", `pending ${PRICE}`])
    await page.reload()
    await titled(page, "Waiting for your payment")
    await advance(api, clock, "2027-03-01T10:00:00Z")
    await shop.landed(page, id)
    expect(await seen(api, id)).toEqual(PAID)
  })

  it("can be retried with another method after the bank declines it", async () => {
    const { id, url, clock } = await openOnClock(api, shop.urls())
    const { page } = await newBuyer()
    await page.goto(url)
    await select(page, "pm_test_bank_account_insufficient_funds")
    await pay(page)
    await titled(page, "Waiting for your payment")
    await advance(api, clock, "2027-03-01T10:00:00Z")
    await page.getByText("there is not enough money on the account").waitFor()
    await inspect(page)
    await pick(page, "4242 4242 4242 4242")
    await pay(page)
    await shop.landed(page, id)
    expect(await seen(api, id)).toEqual(["completed", "active", `failed ${PRICE}`, `succeeded ${PRICE}`])
  })
})

describe("a session that is over", () => {
  it("shows that it has expired, both on submission and on opening", async () => {
    const { id, url } = await ofCustomer()
    const { page } = await newBuyer()
    await page.goto(url)
    await pick(page, "4242 4242 4242 4242")
    data(await api.post(`/checkout-sessions/${id}/expire`))
    await pay(page)
    await titled(page, "This checkout has expired")
    await inspect(page)
    await page.goto(url)
    await titled(page, "This checkout has expired")
    expect(await seen(api, id)).toEqual(["expired", "cancelled"])
    await page.getByRole("link", { name: "Go back to Fit Lagos" }).click()
    await page.waitForURL(`${shop.origin()}/plans`)
  })

  it("shows that it is paid when the buyer returns or reloads after paying", async () => {
    const { id, url } = await ofCustomer()
    const { page } = await newBuyer()
    await page.goto(url)
    await pick(page, "4242 4242 4242 4242")
    await pay(page)
    await shop.landed(page, id)
    await page.reload()
    await page.goBack()
    await titled(page, "This is paid already")
    expect(page.url()).toBe(url)
    expect(await page.getByRole("button").count()).toBe(0)
    expect(await page.getByRole("main").innerText()).toContain("You paid ₦5,000.00 on")
    await inspect(page)
    await page.reload()
    await titled(page, "This is paid already")
    await page.goto(`${url}/complete`)
    await titled(page, "This is paid already")
    await page.getByRole("link", { name: "Continue to Fit Lagos" }).click()
    await shop.landed(page, id)
    expect(await seen(api, id)).toEqual(PAID)
  })

  it("shows no form when the buyer returns after a decline", async () => {
    const { id, url } = await ofCustomer()
    const { page } = await newBuyer()
    await page.goto(url)
    await pick(page, "insufficient funds")
    await pay(page)
    await page.getByRole("alert").waitFor()
    await pick(page, "4242 4242 4242 4242")
    await pay(page)
    await shop.landed(page, id)
    for (let back = 0; back < 2; back++) {
      await page.goBack()
      await titled(page, "This is paid already")
      expect(await page.getByRole("button").count()).toBe(0)
    }
    expect(await seen(api, id)).toEqual(["completed", "active", `failed ${PRICE}`, `succeeded ${PRICE}`])
  })
})
