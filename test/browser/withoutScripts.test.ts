/** Tests buyers whose browser runs no scripts: they can buy everything. */
import { expect, it } from "vitest"
import { titled, useBuyers } from "../support/browser.ts"
import { fillCard, PAYS, pay, select } from "../support/form.ts"
import { openOnClock, openSession, overdue, PRICE, seen, seenOf } from "../support/hosted.ts"
import { useInstance } from "../support/instance.ts"
import { useShop } from "../support/shop.ts"
import { advance } from "../support/story.ts"

const { api, server } = useInstance()
const shop = useShop()
const buyers = useBuyers(
  () => server().origin,
  () => shop.origin(),
)
const newBuyer = () => buyers({ javaScriptEnabled: false })

it("a purchase by a new buyer: all fields wrong, then a decline, then a one-time code", async () => {
  const { id, url } = await openSession(api, shop.urls())
  const { page } = await newBuyer()
  await page.goto(url)
  await titled(page, "Subscribe to Gym")
  await pay(page)
  await page.getByRole("heading", { name: "Please check what you have typed" }).waitFor()
  await page.getByRole("alert").getByRole("link", { name: "Enter your name." }).click()
  expect(await page.getByLabel("Name").getAttribute("aria-invalid")).toBe("true")
  await page.getByLabel("Name").fill("Ada Obi")
  await page.getByLabel("E-mail").fill("ada@example.com")
  await fillCard(page, "4084 0800 0000 0051")
  await pay(page)
  await page.getByText("there is not enough money on the account").waitFor()
  expect(await page.getByLabel("Name").inputValue()).toBe("Ada Obi")
  await fillCard(page, "5060666666666666666")
  await pay(page)
  await page.getByLabel("One-time code").fill("111111")
  await pay(page)
  await page.getByRole("link", { name: "The one-time code was not right." }).waitFor()
  await page.getByLabel("One-time code").fill("123456")
  await pay(page)
  await shop.landed(page, id)
  expect(await seen(api, id)).toEqual([
    "completed",
    "active",
    `failed ${PRICE}`,
    `failed ${PRICE}`,
    `succeeded ${PRICE}`,
  ])
  await page.goto(url)
  await titled(page, "This is paid already")
})

it("a payment with a slow bank: the page reloads itself", async () => {
  const { id, url, clock } = await openOnClock(api, shop.urls())
  const { page } = await newBuyer()
  await page.goto(url)
  await select(page, "pm_test_bank_account")
  await pay(page)
  await titled(page, "Waiting for your payment")
  await page.getByRole("link", { name: "Look again" }).click()
  await titled(page, "Waiting for your payment")
  await advance(api, clock, "2027-03-01T10:00:00Z")
  await shop.landed(page, id)
  expect(await seen(api, id)).toEqual(["completed", "active", `succeeded ${PRICE}`])
})

it("a payment link", async () => {
  const { id, url } = await overdue(api)
  const { page } = await newBuyer()
  await page.goto(url)
  await fillCard(page, PAYS)
  await page.getByRole("radio", { name: "Another card" }).check()
  await pay(page)
  await titled(page, "Thank you: this is paid")
  expect(await seenOf(api, id)).toEqual(["active", "succeeded", "failed", "succeeded"])
})
