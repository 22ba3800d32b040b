/** Tests the dashboard in a browser: a day of each role, without scripts, by keyboard, and passkeys. */
import type { Page } from "playwright-core"
import { describe, expect, it } from "vitest"
import type { Role } from "../../src/security/role/rights.ts"
import { createApi } from "../support/api.ts"
import { inspect, titled, useMembers, valueIn } from "../support/browser.ts"
import { useOwnInstance } from "../support/instance.ts"
import { signedIn } from "../support/member.ts"
import { advance, createClock, createCustomer, createPlan, data, eventually } from "../support/story.ts"

const { api, database, server, accountId } = useOwnInstance()
/** Passkeys belong to a host name. */
const local = () => server().origin.replace("127.0.0.1", "localhost")
const newBrowser = useMembers(local)

/** A browser in which a member with this role is signed in. */
const signedInBrowser = async (role: Role = "owner", options: Parameters<typeof newBrowser>[0] = {}) => {
  const member = await signedIn(database, local(), accountId(), role)
  const { page, context } = await newBrowser(options)
  await context.addCookies([{ name: "session", value: member.cookie, url: local(), httpOnly: true, sameSite: "Lax" }])
  return { member, page, context }
}

const button = (page: Page, name: string) => page.getByRole("button", { name, exact: true })

/** Asks for a code, and types the one that development shows. */
const enterCode = async (page: Page, action: string) => {
  await titled(page, "Enter the code")
  const code = /Your code is (\d{6})/.exec(await page.getByLabel("Development").innerText())![1]!
  await inspect(page)
  await page.getByLabel("Code").fill(code)
  await button(page, action).click()
}

it("an owner's first day: signs up, makes a customer, invites support, who joins and works", async () => {
  const { page } = await newBrowser()
  await page.goto(`${local()}/dashboard/sign-up`)
  await page.getByLabel("Business name").fill("Mama Chidi & Sons")
  await page.getByLabel("E-mail").fill("chidi@kitchen.example")
  await button(page, "Send the code").click()
  await enterCode(page, "Create the account")
  await titled(page, "Welcome, Mama Chidi & Sons")
  await inspect(page)
  await page.getByRole("link", { name: "Open the dashboard" }).click()
  await titled(page, "Home")
  await page.getByRole("link", { name: "Customers" }).click()
  await page.getByRole("heading", { name: "No customers yet" }).waitFor()
  await inspect(page)
  await page.getByRole("link", { name: "New customer" }).first().click()
  await button(page, "Review").click()
  await page.getByLabel("Name").fill("Ada Obi")
  await page.getByLabel("Phone").fill("0803")
  await button(page, "Review").click()
  await page.getByRole("alert").waitFor()
  await inspect(page)
  await page.getByLabel("Phone").fill("+2348031234567")
  await button(page, "Review").click()
  await page.getByRole("heading", { name: "What this does" }).waitFor()
  await inspect(page)
  await button(page, "Create the customer").click()
  await titled(page, "Ada Obi")
  await page.goto(`${local()}/dashboard/team`)
  await page.getByLabel("E-mail").fill("ngozi@kitchen.example")
  await page.getByLabel(/^support: /).check()
  await button(page, "Send the invitation").click()
  const link = await page.getByLabel("Development").getByRole("link").getAttribute("href")
  await inspect(page)
  const support = await newBrowser()
  await support.page.goto(local() + new URL(link!).pathname)
  await titled(support.page, "Join Mama Chidi & Sons")
  await inspect(support.page)
  await button(support.page, "Join").click()
  await titled(support.page, "Home")
  await support.page.getByRole("link", { name: "Customers" }).click()
  await support.page.getByRole("link", { name: "Ada Obi" }).click()
  expect(await support.page.getByRole("link", { name: "Team" }).count()).toBe(0)
  // Removed: the next click leads to the sign-in.
  await page.goto(`${local()}/dashboard/team`)
  await page.getByRole("link", { name: "ngozi@kitchen.example" }).click()
  await button(page, "Remove").click()
  await page.getByText("The member was removed, and signed out.").waitFor()
  await support.page.getByRole("link", { name: "Customers" }).click()
  await titled(support.page, "Sign in")
})

it("a developer's day: a key, a webhook endpoint, an event, its request, and a month on a test clock", async () => {
  const { page } = await signedInBrowser("developer")
  const menu = (name: string) =>
    page.getByRole("navigation", { name: "Main" }).getByRole("link", { name, exact: true }).click()
  await page.goto(`${local()}/dashboard/sandbox`)
  await menu("API keys")
  await page.getByRole("link", { name: "Create a key" }).first().click()
  await button(page, "Create the secret key").click()
  const key = (await page.locator(".secret").innerText()).trim()
  expect(key).toMatch(/^sk_test_/)
  await inspect(page)
  await menu("Webhooks")
  await page.getByRole("link", { name: "New endpoint" }).first().click()
  await page.getByLabel("URL").fill("https://shop.example/webhooks")
  await button(page, "Create the endpoint").click()
  await titled(page, "Secret of the endpoint")
  await inspect(page)
  const own = createApi(server().origin, key)
  const body = { customer: await createCustomer(own), plan: await createPlan(own), payment_method: "pm_test_success" }
  const made = await own.post("/subscriptions", body)
  const requestId = made.headers.get("x-request-id")
  await eventually(async () => ((await own.get(`/requests/${requestId}`)).status === 200 ? true : undefined))
  await menu("Events")
  await page.getByRole("link", { name: "subscription.created" }).first().click()
  await page.getByText("https://shop.example/webhooks").waitFor()
  await page.getByRole("link", { name: "Open the request" }).click()
  await titled(page, "POST /sandbox/v1/subscriptions")
  await inspect(page)
  await page.getByRole("link", { name: data(made, 201).id }).click()
  await titled(page, "Gym for Ada Obi")
  await menu("Test clocks")
  await page.getByRole("link", { name: "New test clock" }).first().click()
  await page.getByLabel("Name").fill("A month")
  await page.locator("main form .button").click()
  await titled(page, "A month")
  await button(page, "A month").click()
  await page.getByText("ready", { exact: true }).first().waitFor()
  await inspect(page)
})

it("finance closes a month of the sandbox, and sees invoices", async () => {
  const clock = await createClock(api, "2026-01-05T09:00:00Z")
  const customer = await createCustomer(api, { test_clock: clock })
  const body = { customer, plan: await createPlan(api), payment_method: "pm_test_success" }
  data(await api.post("/subscriptions", body), 201)
  await advance(api, clock, "2026-03-10T09:00:00Z")
  const { page } = await signedInBrowser("finance")
  await page.goto(`${local()}/dashboard/sandbox`)
  await page.getByRole("link", { name: "Books", exact: true }).click()
  await inspect(page)
  await page.getByRole("link", { name: "Close 2026-01" }).click()
  await titled(page, "Close 2026-01")
  await inspect(page)
  await page.locator("main form .button").click()
  await titled(page, "Books")
  await page
    .getByRole("row", { name: /2026-01/ })
    .getByText("closed")
    .waitFor()
  await inspect(page)
  await page.getByRole("link", { name: "Invoices", exact: true }).click()
  await titled(page, "Invoices")
  await page.locator("main").getByRole("link", { name: "in live" }).click()
  await titled(page, "Invoices")
})

describe("without scripts", () => {
  it("a member signs in, changes a customer and signs out on a phone", async () => {
    const { email } = await signedIn(database, local(), accountId(), "support")
    const customer = await createCustomer(api, { name: "Obi" })
    const { page } = await newBrowser({ javaScriptEnabled: false, viewport: { width: 320, height: 640 } })
    await page.goto(`${local()}/dashboard/sandbox/customers/${customer}/edit`)
    await titled(page, "Sign in")
    expect(await button(page, "Sign in with a passkey").isVisible()).toBe(false)
    await page.getByLabel("E-mail").fill(email)
    await button(page, "Send the code").click()
    await titled(page, "Enter the code")
    const code = /Your code is (\d{6})/.exec(await page.getByLabel("Development").innerText())![1]!
    await page.getByLabel("Code").fill(code)
    await button(page, "Sign in").click()
    await titled(page, "Change Obi")
    await page.getByLabel("Name").fill("Obi Two")
    await button(page, "Review").click()
    await button(page, "Save").click()
    await titled(page, "Obi Two")
    expect(data(await api.get(`/customers/${customer}`)).name).toBe("Obi Two")
    await page.getByRole("link", { name: "Menu", exact: true }).click()
    await page.getByRole("link", { name: "Close the menu" }).click()
    await page.getByRole("link", { name: "Menu", exact: true }).click()
    await button(page, "Sign out").click()
    await titled(page, "Sign in")
  })
})

describe("with the keyboard only", () => {
  it("the first stop skips to the content, and every stop is visible", async () => {
    const { page } = await signedInBrowser()
    await page.goto(`${local()}/dashboard/sandbox/customers`)
    await page.keyboard.press("Tab")
    expect(await valueIn(page, "document.activeElement.textContent")).toBe("Skip to the content")
    expect(await valueIn(page, "document.activeElement.getBoundingClientRect().top >= 0")).toBe(true)
    await page.keyboard.press("Enter")
    await page.keyboard.press("Tab")
    expect(await valueIn(page, "document.querySelector('main').contains(document.activeElement)")).toBe(true)
    for (let stop = 0; stop < 8; stop++) {
      const style = "getComputedStyle(document.activeElement)"
      expect(await valueIn(page, `${style}.outlineStyle`)).not.toBe("none")
      await page.keyboard.press("Tab")
    }
  })

  it("the menu of a phone opens and closes", async () => {
    const { page } = await signedInBrowser("owner", { viewport: { width: 320, height: 640 } })
    await page.goto(`${local()}/dashboard/sandbox`)
    const menu = page.getByRole("navigation", { name: "Main" })
    expect(await menu.isVisible()).toBe(false)
    await page.getByRole("link", { name: "Menu", exact: true }).focus()
    await page.keyboard.press("Enter")
    await menu.waitFor({ state: "visible" })
    await inspect(page)
    await page.keyboard.press("Tab")
    expect(await valueIn(page, "document.activeElement.textContent")).toBe("Close the menu")
    await page.keyboard.press("Enter")
    await menu.waitFor({ state: "hidden" })
  })
})

describe("a passkey", () => {
  it("is added, signs in, and is removed", async () => {
    const { page, context, member } = await signedInBrowser()
    const session = await context.newCDPSession(page)
    await session.send("WebAuthn.enable")
    await session.send("WebAuthn.addVirtualAuthenticator", {
      options: {
        protocol: "ctap2",
        transport: "internal",
        hasResidentKey: true,
        hasUserVerification: true,
        isUserVerified: true,
        automaticPresenceSimulation: true,
      },
    })
    await page.goto(`${local()}/dashboard/me`)
    await page.getByLabel("Name of the passkey").fill("My phone")
    await button(page, "Add a passkey").click()
    await page.getByText("The passkey was added.").waitFor()
    await inspect(page)
    await button(page, "Sign out").click()
    await titled(page, "Sign in")
    await button(page, "Sign in with a passkey").click()
    await titled(page, "Home")
    await page.goto(`${local()}/dashboard/me`)
    expect(await page.locator("body").innerText()).toContain(member.email)
    expect(await page.getByText("by passkey").count()).toBe(1)
    await button(page, "Remove").click()
    await page.getByText("The passkey was removed.").waitFor()
    await button(page, "Sign out").click()
    await button(page, "Sign in with a passkey").click()
    await page.getByText("This passkey was not accepted. Sign in with a code.").waitFor()
    await inspect(page)
  })
})
