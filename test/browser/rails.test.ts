/** Tests buyers who pay on the rails' own pages, in a browser (decisions P5, P6). */
import { describe, expect, it } from "vitest"
import { type Buyer, inspect, titled, useBuyers } from "../support/browser.ts"
import { BOTH, type LiveAccount, useRails } from "../support/rails/live.ts"
import { useShop } from "../support/shop.ts"
import { createCustomer, createPlan, data } from "../support/story.ts"

const { server, open, railOf } = useRails()

const shop = useShop(true)
const buyerOf = useBuyers(
  () => server().origin,
  () => shop.origin(),
  () => railOf("paystack").url,
  () => railOf("flutterwave").url,
)

const newBuyer = (options: Parameters<typeof buyerOf>[0] = {}): Promise<Buyer> =>
  buyerOf({ ignoreHTTPSErrors: true, ...options })

const openSession = async ({ api }: LiveAccount, session: object = {}, plan: Readonly<Record<string, unknown>> = {}) =>
  data(
    await api.post("/checkout-sessions", {
      mode: "subscription",
      plan: await createPlan(api, plan),
      ...shop.urls(),
      ...session,
    }),
    201,
  )

const RAIL_PAGE = "The rail's page"

const giveDetails = async ({ page }: Buyer) => {
  await page.getByLabel("Name").fill("Ada Obi")
  await page.getByLabel("E-mail").fill("ada@example.com")
}

describe.each(BOTH)("on %s", (name) => {
  it("a buyer goes to the rail's page, pays, and returns to the shop", async () => {
    const account = await open(name)
    const { id, url } = await openSession(account)
    const buyer = await newBuyer()
    const { page } = buyer
    await page.goto(url)
    await inspect(page)
    expect(await page.getByLabel("Card number").count()).toBe(0)
    // The rail's page requires the e-mail address.
    await page.getByLabel("Name").fill("Ada Obi")
    await page.getByRole("button", { name: /^Pay/ }).click()
    await page.getByRole("alert").waitFor()
    await page.getByLabel("E-mail").fill("ada@example.com")
    await page.getByRole("button", { name: /^Pay/ }).click()
    await titled(page, RAIL_PAGE)
    await page.getByRole("button", { name: "Pay", exact: true }).click()
    await shop.landed(page, id)
    expect(data(await account.api.get(`/checkout-sessions/${id}`)).status).toBe("completed")
  })

  it("a buyer sees why the payment was declined, and pays at the second try, also without scripts", async () => {
    const account = await open(name)
    const { id, url } = await openSession(account)
    const buyer = await newBuyer({ javaScriptEnabled: false })
    const { page } = buyer
    await page.goto(url)
    await giveDetails(buyer)
    await page.getByRole("button", { name: /^Pay/ }).click()
    await page.getByRole("button", { name: "Decline" }).click()
    await page.getByRole("alert").waitFor()
    await giveDetails(buyer)
    await page.getByRole("button", { name: /^Pay/ }).click()
    await page.getByRole("button", { name: "Pay", exact: true }).click()
    await shop.landed(page, id)
    expect(data(await account.api.get(`/checkout-sessions/${id}`)).status).toBe("completed")
  })

  it("a buyer who goes back, or opens a second tab, continues the same payment", async () => {
    const account = await open(name)
    const customer = await createCustomer(account.api, { email: "ada@example.com" })
    const { id, url } = await openSession(account, { customer })
    const buyer = await newBuyer()
    const { page, context } = buyer
    await page.goto(url)
    await page.getByRole("button", { name: /^Pay/ }).click()
    await titled(page, RAIL_PAGE)
    const address = page.url()
    await page.goBack()
    await titled(page, "Waiting for your payment")
    await inspect(page)
    await page.getByRole("link", { name: "Go on to pay" }).click()
    await titled(page, RAIL_PAGE)
    expect(page.url()).toBe(address)
    const tab = await context.newPage()
    await tab.goto(url)
    await titled(tab, "Waiting for your payment")
    await page.getByRole("button", { name: "Pay", exact: true }).click()
    await shop.landed(page, id)
    // The other tab refreshes itself.
    await shop.landed(tab, id)
    const { subscription } = data(await account.api.get(`/checkout-sessions/${id}`))
    expect(await account.api.all(`/charges?subscription=${subscription}`)).toHaveLength(1)
  })

  it("a buyer who leaves the rail's page may try again, or may continue the payment while the rail does not say it is unpaid", async () => {
    const account = await open(name)
    const { id, url } = await openSession(account, {}, { trial_days: 7 })
    const buyer = await newBuyer()
    const { page } = buyer
    await page.goto(url)
    await giveDetails(buyer)
    await page.getByRole("button", { name: "Start free trial" }).click()
    await page.getByRole("button", { name: "Leave" }).click()
    if (name === "paystack") {
      await titled(page, "Try Gym for free")
      await page.getByRole("alert").waitFor()
      await inspect(page)
      await giveDetails(buyer)
      await page.getByRole("button", { name: "Start free trial" }).click()
    } else {
      await titled(page, "Waiting for your payment")
      await page.getByRole("link", { name: "Go on to pay" }).click()
    }
    await page.getByRole("button", { name: "Pay", exact: true }).click()
    await shop.landed(page, id)
  })
})
