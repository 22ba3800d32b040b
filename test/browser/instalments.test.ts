/** Tests buyers who save for goods: paying in parts, catching up, and cancelling. */
import { expect, it } from "vitest"
import { inspect, titled, useBuyers } from "../support/browser.ts"
import { ASKS_CODE, DECLINED, fillCard, PAYS, pay, pick } from "../support/form.ts"
import { beginPlan, createProduct, useShop } from "../support/instalments.ts"
import { useInstance } from "../support/instance.ts"
import { advance, createClock, data } from "../support/story.ts"

const instance = useInstance()
const { api, server } = instance
const { buyers } = useShop(instance)
const newBuyer = useBuyers(() => server().origin)

const get = async (id: string) => data(await api.get(`/provider-savings/${id}`))
const begin = async (over: Readonly<Record<string, unknown>> = {}) => {
  const clock = await createClock(api, "2027-01-31T09:00:00Z")
  return { clock, plan: await beginPlan(buyers(), await createProduct(api, over), { testClock: clock }) }
}
const PAY = "Pay now"

it("a plan is started, missed, caught up and paid in full, with a declined card and a code on the way", async () => {
  const { clock, plan } = await begin()
  const { page } = await newBuyer()
  await page.goto(plan.pageUrl)
  await titled(page, "Saving for Inverter")
  await inspect(page)
  await page.getByRole("link", { name: PAY }).click()
  await titled(page, "Pay for Inverter")
  await inspect(page)
  await pick(page, DECLINED)
  await pay(page, PAY)
  await page.getByRole("alert").getByText("there is not enough money on the account").waitFor()
  await inspect(page)
  await pick(page, PAYS)
  await pay(page, PAY)
  await page.getByRole("status").getByText("Thank you: ₦1,000.00 is paid.").waitFor()
  expect(await page.getByRole("progressbar").getAttribute("value")).toBe("100000")
  await inspect(page)
  await advance(api, clock, "2027-03-02T09:00:00Z")
  await page.reload()
  await page.getByText("is late. ₦100.00 of it is for being late.").waitFor()
  await inspect(page)
  await page.getByRole("link", { name: PAY }).click()
  expect(await page.getByLabel("Amount in naira").inputValue()).toBe("1100")
  await page.getByLabel("Amount in naira").fill("9999")
  await pick(page, PAYS)
  await pay(page, PAY)
  await page.getByRole("alert").getByRole("link", { name: "Pay at most" }).click()
  expect(await page.getByLabel("Amount in naira").getAttribute("aria-invalid")).toBe("true")
  await inspect(page)
  await page.getByLabel("Amount in naira").fill("2101")
  await pick(page, ASKS_CODE)
  await pay(page, PAY)
  await page.getByLabel("One-time code").waitFor()
  await inspect(page)
  await page.getByLabel("One-time code").fill("123456")
  await page.keyboard.press("Enter")
  await titled(page, "Inverter is yours")
  await inspect(page)
  expect(await get(plan.id)).toMatchObject({ status: "completed", pendingFee: 0 })
  await page.goBack()
  await page.goto(plan.paymentUrl)
  await titled(page, "Inverter is yours")
})

it("a buyer cancels, and first sees the amount that will be returned", async () => {
  const { plan } = await begin()
  const { page } = await newBuyer()
  await page.goto(plan.paymentUrl)
  await pick(page, PAYS)
  await pay(page, PAY)
  await page.getByRole("status").getByText("Thank you").waitFor()
  await page.getByRole("link", { name: "Cancel this plan" }).click()
  await titled(page, "Cancel your plan for Inverter?")
  await page.getByText("Fit Lagos owes you ₦1,000.00 back").waitFor()
  await inspect(page)
  await page.getByRole("link", { name: "Keep saving" }).click()
  await titled(page, "Saving for Inverter")
  expect((await get(plan.id)).status).toBe("active")
  await page.getByRole("link", { name: "Cancel this plan" }).click()
  await page.getByRole("button", { name: "Cancel, and get ₦1,000.00 back" }).click()
  await titled(page, "This plan is cancelled")
  await inspect(page)
  expect((await get(plan.id)).status).toBe("cancelled")
})

it("two tabs pay one instalment: the second shows that it is paid", async () => {
  const { plan } = await begin()
  const { context, page } = await newBuyer()
  const other = await context.newPage()
  for (const tab of [page, other]) {
    await tab.goto(plan.paymentUrl)
    await pick(tab, PAYS)
  }
  await pay(page, PAY)
  await page.getByRole("status").getByText("Thank you").waitFor()
  await pay(other, PAY)
  await other.getByRole("alert").getByText("A payment was made meanwhile: ₦1,000.00 is paid in all.").waitFor()
  await inspect(other)
  expect((await get(plan.id)).amountPaid).toBe(1_000)
})

it("without scripts, a flexible plan takes the amount that the buyer chooses", async () => {
  const { plan } = await begin({ mode: "flexible", allowedFrequencies: undefined })
  const { page } = await newBuyer({ javaScriptEnabled: false })
  await page.goto(plan.pageUrl)
  await page.getByText("Pay as much as you like").waitFor()
  await page.getByRole("link", { name: PAY }).click()
  await page.getByLabel("Amount in naira").fill("₦1,250")
  await fillCard(page, "4242 4242 4242 4242")
  await pay(page, PAY)
  await page.getByText("Thank you: ₦1,250.00 is paid.").waitFor()
  expect((await get(plan.id)).amountPaid).toBe(1_250)
})
