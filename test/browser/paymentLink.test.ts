/** Tests buyers who open the link of a reminder, and the data that the merchant sees afterwards. */
import { expect, it } from "vitest"
import { inspect, titled, useBuyers } from "../support/browser.ts"
import { ASKS_CODE, DECLINED, PAYS, pay, pick, select } from "../support/form.ts"
import { linkAbout, overdue, seenOf } from "../support/hosted.ts"
import { useInstance } from "../support/instance.ts"
import { advance, data } from "../support/story.ts"

const { api, server } = useInstance()
const newBuyer = useBuyers(
  () => server().origin,
  () => server().origin,
)

const OWED = ["past_due", "succeeded", "failed"]

it("the amount due is declined, then paid; the link is used", async () => {
  const { id, url } = await overdue(api)
  expect(await seenOf(api, id)).toEqual(OWED)
  const { page } = await newBuyer()
  await page.goto(url)
  await titled(page, "₦5,000.00 to pay")
  expect(await page.getByRole("main").innerText()).toContain("If you do nothing")
  await inspect(page)
  await pick(page, DECLINED)
  await pay(page)
  await page.getByRole("alert").getByText("there is not enough money on the account").waitFor()
  await inspect(page)
  await pick(page, PAYS)
  await pay(page)
  await titled(page, "Thank you: this is paid")
  expect(await page.getByRole("main").innerText()).toContain("with Visa •••• 4242")
  await inspect(page)
  expect(await seenOf(api, id)).toEqual(["active", "succeeded", "failed", "failed", "succeeded"])
  await page.reload()
  await titled(page, "Thank you: this is paid")
  await page.goBack()
  await titled(page, "Thank you: this is paid")
  await page.goto(url)
  await titled(page, "Thank you: this is paid")
})

it("a form sent empty shows errors at its fields, and a declined saved method is not offered again", async () => {
  const { id, url } = await overdue(api)
  const { page } = await newBuyer()
  await page.goto(url)
  const another = page.getByRole("radio", { name: "Another card" })
  expect(await another.isChecked()).toBe(true)
  await pay(page)
  await page.getByRole("alert").getByRole("link", { name: "Enter the card number." }).click()
  const number = page.getByLabel("Card number")
  expect(await page.locator(":focus").getAttribute("id")).toBe("card_number")
  expect(await number.getAttribute("aria-invalid")).toBe("true")
  await inspect(page)
  const declined = page.getByRole("radio", { name: /declined on/ })
  await declined.check()
  await pay(page)
  await page.getByRole("alert").getByText("Nothing was charged").waitFor()
  expect(await page.getByRole("radio").count()).toBe(0)
  expect(await number.isVisible()).toBe(true)
  await inspect(page)
  expect(await seenOf(api, id)).toEqual([...OWED, "failed"])
})

it("a bank asks for a code", async () => {
  const { id, url } = await overdue(api)
  const { page } = await newBuyer()
  await page.goto(url)
  await pick(page, ASKS_CODE)
  await pay(page)
  await page.getByLabel("One-time code").waitFor()
  await inspect(page)
  await page.getByLabel("One-time code").fill("123456")
  await page.keyboard.press("Enter")
  await titled(page, "Thank you: this is paid")
  expect(await seenOf(api, id)).toEqual(["active", "succeeded", "failed", "succeeded"])
})

it("a bank is slow: the page continues when the payment settles", async () => {
  const { id, url, clock } = await overdue(api)
  const { page } = await newBuyer()
  await page.goto(url)
  await select(page, "pm_test_bank_account")
  await pay(page)
  await titled(page, "Waiting for your payment")
  await inspect(page)
  await advance(api, clock, "2027-04-01T13:00:00Z")
  await titled(page, "Thank you: this is paid")
  expect(await seenOf(api, id)).toEqual(["active", "succeeded", "failed", "succeeded"])
})

it("a second tab shows that the first has paid", async () => {
  const { id, url } = await overdue(api)
  const { page: first, context } = await newBuyer()
  const second = await context.newPage()
  await Promise.all([first.goto(url), second.goto(url)])
  await pick(first, PAYS)
  await pick(second, PAYS)
  await pay(first)
  await titled(first, "Thank you: this is paid")
  await pay(second)
  await titled(second, "Thank you: this is paid")
  expect(await seenOf(api, id)).toEqual(["active", "succeeded", "failed", "succeeded"])
})

it("two tabs at the same time pay once", async () => {
  const { id, url } = await overdue(api)
  const { page: first, context } = await newBuyer()
  const second = await context.newPage()
  await Promise.all([first.goto(url), second.goto(url)])
  for (const page of [first, second]) await pick(page, PAYS)
  await Promise.all([pay(first), pay(second)])
  await Promise.all([titled(first, "Thank you: this is paid"), titled(second, "Thank you: this is paid")])
  expect(await seenOf(api, id)).toEqual(["active", "succeeded", "failed", "succeeded"])
})

it("nothing is due: a payment method is saved, and nothing is charged", async () => {
  const { id, url: first, customer } = await overdue(api)
  const { page } = await newBuyer()
  await page.goto(first)
  await pick(page, PAYS)
  await pay(page)
  await titled(page, "Thank you: this is paid")
  await page.goto(await linkAbout(api, customer, id))
  await titled(page, "Nothing to pay")
  await inspect(page)
  await select(page, "pm_test_verve")
  await pay(page, "Save payment method")
  await page.getByRole("status").getByText("Your payment method is saved.").waitFor()
  await inspect(page)
  expect(await seenOf(api, id)).toEqual(["active", "succeeded", "failed", "succeeded"])
  expect(data(await api.get(`/subscriptions/${id}`)).payment_method).toBe("pm_test_verve")
})

it("a link older than thirty days has expired", async () => {
  // For a plan that is not due yet. A debt that is a month old is cancelled by then.
  const { url, clock, id } = await overdue(api, { billing_cycle: "quarterly" })
  const { page } = await newBuyer()
  await page.goto(url)
  await titled(page, "Nothing to pay")
  await pick(page, PAYS)
  await advance(api, clock, "2027-05-01T12:00:01Z")
  await pay(page, "Save payment method")
  await titled(page, "This link has expired")
  await inspect(page)
  expect(await page.getByRole("button").count()).toBe(0)
  expect(await seenOf(api, id)).toEqual(["active", "succeeded"])
})

it("a cancelled subscription has nothing due, even through a form that was open", async () => {
  const { id, url } = await overdue(api)
  const { page } = await newBuyer()
  await page.goto(url)
  await pick(page, PAYS)
  data(await api.post(`/subscriptions/${id}/cancel`, {}))
  await pay(page)
  await titled(page, "This subscription is cancelled")
  await inspect(page)
  await page.goto(url)
  await titled(page, "This subscription is cancelled")
  expect(await seenOf(api, id)).toEqual(["cancelled", "succeeded", "failed"])
})
