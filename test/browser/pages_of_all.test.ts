/** Tests the pages for all users (keyboard, slow network, dark mode, print), and pages without a session. */
import { describe, expect, it } from "vitest"
import { comesTrue, inspect, titled, useBuyers, valueIn } from "../support/browser.ts"
import { PAYS, pay, pick, select } from "../support/form.ts"
import { openOnClock, openSession, PRICE, seen } from "../support/hosted.ts"
import { useInstance } from "../support/instance.ts"
import { useShop } from "../support/shop.ts"
import { createCustomer, data } from "../support/story.ts"

const { api, server, database, accountId } = useInstance()
const shop = useShop()
const newBuyer = useBuyers(
  () => server().origin,
  () => shop.origin(),
)

const PAID = ["completed", "active", `succeeded ${PRICE}`]
const openOne = async (plan: object = {}) =>
  openSession(api, { customer: await createCustomer(api), ...shop.urls() }, plan)

describe("with the keyboard only", () => {
  it("a purchase: each focus stop is visible and in page order, and Enter submits", async () => {
    const { id, url } = await openSession(api, shop.urls())
    const { page } = await newBuyer()
    await page.goto(url)
    const stops: Array<string> = []
    const typed = ["Ada Obi", "ada@example.com", "08031234567", "4242424242424242", "1234", "123"]
    for (let stop = 0; stop < 9; stop++) {
      await page.keyboard.press("Tab")
      const style = "getComputedStyle(document.activeElement)"
      expect(await valueIn(page, `${style}.outlineStyle`)).toBe("solid")
      expect(Number.parseFloat(await valueIn(page, `${style}.outlineWidth`))).toBeGreaterThanOrEqual(2)
      stops.push(await valueIn(page, "document.activeElement.id || document.activeElement.textContent"))
      if (stop > 0 && stop <= typed.length) await page.keyboard.type(typed[stop - 1]!)
    }
    expect(stops).toEqual([
      "Test cards",
      ...["name", "email", "phone", "card_number", "card_expiry", "card_cvc"],
      "Pay ₦5,000.00",
      "Cancel and go back to Fit Lagos",
    ])
    await page.keyboard.press("Shift+Tab")
    await page.keyboard.press("Shift+Tab")
    await page.keyboard.press("Enter")
    await shop.landed(page, id)
    expect(await seen(api, id)).toEqual(PAID)
  })

  it("arrow keys move among saved methods", async () => {
    const customer = await createCustomer(api)
    for (const default_payment_method of ["pm_test_mastercard", "pm_test_verve"])
      data(await api.patch(`/customers/${customer}`, { default_payment_method }))
    const { id, url } = await openSession(api, { customer, ...shop.urls() })
    const { page } = await newBuyer()
    await page.goto(url)
    await page.keyboard.press("Tab")
    await page.keyboard.press("Tab")
    const label = () =>
      valueIn<string>(page, "document.activeElement.closest('label')?.innerText.split('\\n')[0].trim()")
    expect(await label()).toBe("Another card")
    const met: Array<string> = []
    for (let step = 0; step < 3; step++) {
      await page.keyboard.press("ArrowDown")
      met.push(await label())
      expect(await valueIn(page, "document.activeElement.checked")).toBe(true)
      expect(await valueIn(page, "getComputedStyle(document.activeElement).outlineStyle")).toBe("solid")
    }
    expect(met.map((one) => one.split(" ")[0])).toEqual(["Verve", "Mastercard", "Another"])
    await page.keyboard.press("ArrowUp")
    await page.keyboard.press("Enter")
    await shop.landed(page, id)
    expect(await seen(api, id)).toEqual(PAID)
  })
})

it("on a slow network the page is one small request, and the buyer can pay on it", async () => {
  const { id, url } = await openOne()
  const { page, context, asked } = await newBuyer()
  const network = await context.newCDPSession(page)
  await network.send("Network.emulateNetworkConditions", {
    offline: false,
    latency: 400,
    downloadThroughput: 50_000,
    uploadThroughput: 50_000,
  })
  await page.goto(url)
  expect(asked).toEqual([`GET ${new URL(url).pathname}`])
  await inspect(page)
  await pick(page, PAYS)
  await pay(page)
  await shop.landed(page, id)
  expect(await seen(api, id)).toEqual(PAID)
})

it("shows names that contain markup as plain text", async () => {
  const name = `<img src=x onerror="alert(1)"> & "Sons" </title><script>alert(2)</script>`
  await database.run((sql) => sql`UPDATE account SET business_name = ${name} WHERE id = ${accountId()}`)
  const customer = await createCustomer(api, { name: `<b>Ada</b> & "Co"` })
  const plan = { name: "<i>Gold</i> & 'more'", description: "</main><script>alert(3)</script>" }
  const { id, url } = await openSession(api, { customer, ...shop.urls() }, plan)
  const { page } = await newBuyer()
  const dialogs: Array<string> = []
  page.on("dialog", (dialog) => {
    dialogs.push(dialog.message())
    void dialog.dismiss()
  })
  await page.goto(url)
  await titled(page, "Subscribe to <i>Gold</i> & 'more'")
  expect(await page.title()).toBe(`Subscribe to <i>Gold</i> & 'more' · ${name}`)
  const text = await page.locator("body").innerText()
  expect(text).toContain(name)
  expect(text).toContain(`<b>Ada</b> & "Co"`)
  expect(text).toContain("</main><script>alert(3)</script>")
  expect(await page.locator("img, b, i").count()).toBe(0)
  expect(await page.locator("script").count()).toBe(1)
  await inspect(page)
  await pick(page, PAYS)
  await pay(page)
  await shop.landed(page, id)
  await page.goto(url)
  await page.getByRole("link", { name: `Continue to ${name}` }).waitFor()
  await inspect(page)
  await database.run((sql) => sql`UPDATE account SET business_name = 'Fit Lagos' WHERE id = ${accountId()}`)
  expect(dialogs).toEqual([])
})

it("is dark when the buyer prefers dark, and has no motion when the buyer prefers none", async () => {
  const { url } = await openOnClock(api, shop.urls())
  const { page } = await newBuyer()
  await page.goto(url)
  const ground = () => valueIn<string>(page, "getComputedStyle(document.body).backgroundColor")
  const light = await ground()
  await page.emulateMedia({ colorScheme: "dark" })
  expect([light, await ground()]).toEqual(["rgb(244, 245, 242)", "rgb(16, 21, 19)"])
  await select(page, "pm_test_bank_account")
  await pay(page)
  await titled(page, "Waiting for your payment")
  const moves = () => valueIn<string>(page, "getComputedStyle(document.querySelector('.waiting')).animationName")
  expect(await moves()).toBe("turn")
  await page.emulateMedia({ reducedMotion: "reduce" })
  expect(await moves()).toBe("none")
})

it("prints the purchase without its buttons", async () => {
  const { url } = await openOne()
  const { page } = await newBuyer()
  await page.goto(url)
  await page.emulateMedia({ media: "print" })
  expect(await page.getByRole("button").count()).toBe(0)
  expect(await page.getByLabel("Card number").isVisible()).toBe(false)
  expect(await page.getByText("₦5,000.00 every month").first().isVisible()).toBe(true)
})

it("keeps typed input when only the view of the page changes", async () => {
  const { url } = await openOne()
  const { page } = await newBuyer()
  await page.goto(url)
  await pick(page, PAYS)
  await page.setViewportSize({ width: 320, height: 640 })
  await comesTrue(page, "document.documentElement.scrollWidth <= 320")
  expect(await page.getByLabel("Card number").inputValue()).toBe(PAYS)
})

describe("pages without a session", () => {
  it.each([
    ["/", "A recurring-billing service"],
    ["/docs/errors", /^Error codes/],
    ["/checkout/nothing", "This link leads nowhere"],
    ["/pay/nothing", "This link leads nowhere"],
    ["/nothing/here", "There is no page here"],
    ["/sandbox/v1/customers", "There is no page here"],
  ])("%s", async (path, title) => {
    const { page, asked } = await newBuyer()
    await page.goto(server().origin + path)
    await titled(page, title)
    await inspect(page)
    expect(asked).toEqual([`GET ${path}`])
  })
})
