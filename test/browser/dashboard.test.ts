/** Tests the dashboard in a browser: every page for all users, a day of each role, without scripts, by keyboard, and passkeys. */
import type { Page } from "playwright-core"
import { describe, expect, it } from "vitest"
import { may, type Right, ROLES, type Role } from "../../src/security/role/rights.ts"
import { createApi } from "../support/api.ts"
import { inspect, titled, useMembers, valueIn } from "../support/browser.ts"
import { useOwnInstance } from "../support/instance.ts"
import { signedIn } from "../support/member.ts"
import { advance, createClock, createCustomer, createPlan, data, eventually } from "../support/story.ts"

const { api, database, server, accountId } = useOwnInstance()
/** Passkeys belong to a host name. */
const local = () => server().origin.replace("127.0.0.1", "localhost")
const newBrowser = useMembers(local)

/** The pages of the dashboard with their titles and rights. A new page is one line. `{customer}` is an object's ID. */
const PAGES: ReadonlyArray<readonly [path: string, title: string | RegExp, right: Right]> = [
  ["/dashboard/sandbox", "Home", "see"],
  ["/dashboard/live", "Home", "see"],
  ["/dashboard/sandbox/customers", "Customers", "see"],
  ["/dashboard/sandbox/customers?email=none@example.com", "Customers", "see"],
  ["/dashboard/live/customers", "Customers", "see"],
  ["/dashboard/sandbox/customers/{customer}", "Ada Obi", "see"],
  ["/dashboard/sandbox/customers/new", "New customer", "operate"],
  ["/dashboard/sandbox/customers/{customer}/edit", "Change Ada Obi", "operate"],
  ["/dashboard/sandbox/customers/cus_none", "This does not exist", "see"],
  ["/dashboard/sandbox/subscriptions", "Subscriptions", "see"],
  ["/dashboard/sandbox/subscriptions/{subscription}", /^Gym for /, "see"],
  ["/dashboard/sandbox/subscriptions/{subscription}/cancel", /^Cancel Gym for /, "operate"],
  ["/dashboard/sandbox/subscriptions/new", "New subscription", "operate"],
  ["/dashboard/sandbox/plans", "Plans", "see"],
  ["/dashboard/sandbox/plans/{plan}", "Gym", "see"],
  ["/dashboard/sandbox/plans/new", "New plan", "operate"],
  ["/dashboard/sandbox/plans/{plan}/edit", "Change Gym", "operate"],
  ["/dashboard/sandbox/charges", "Charges", "see"],
  ["/dashboard/sandbox/charges/{charge}", /^₦5,000\.00 from /, "see"],
  ["/dashboard/sandbox/charges/new?customer={customer}", "Charge Ada Obi once", "operate"],
  ["/dashboard/sandbox/checkout-sessions", "Checkout sessions", "see"],
  ["/dashboard/sandbox/checkout-sessions/new", "New checkout session", "operate"],
  ["/dashboard/sandbox/nudges", "Nudges", "see"],
  ["/dashboard/sandbox/nudges/new?customer={customer}", "Send a nudge to Ada Obi", "operate"],
  ["/dashboard/sandbox/books", "Books", "finance"],
  ["/dashboard/sandbox/books/clearing", /^Clearing/, "finance"],
  ["/dashboard/sandbox/books/rules", "Rules of the books", "finance"],
  ["/dashboard/sandbox/settlements", "Settlements", "finance"],
  ["/dashboard/sandbox/invoices", "Invoices", "finance"],
  ["/dashboard/live/invoices", "Invoices", "finance"],
  ["/dashboard/sandbox/keys", "API keys", "develop"],
  ["/dashboard/sandbox/keys/new", "Create a key", "develop"],
  ["/dashboard/sandbox/keys/new?type=restricted", "Create a key", "develop"],
  ["/dashboard/sandbox/webhooks", "Webhooks", "develop"],
  ["/dashboard/sandbox/webhooks/new", "New webhook endpoint", "develop"],
  ["/dashboard/sandbox/events", "Events", "develop"],
  ["/dashboard/sandbox/events/{event}", /^\w+\.\w+$/, "develop"],
  ["/dashboard/sandbox/events/trigger", "Create a test event", "develop"],
  ["/dashboard/sandbox/requests", "Requests", "develop"],
  ["/dashboard/sandbox/clocks", "Test clocks", "develop"],
  ["/dashboard/sandbox/clocks/{clock}", /./, "develop"],
  ["/dashboard/sandbox/clocks/new", "New test clock", "develop"],
  ["/dashboard/sandbox/machines", "Machines", "see"],
  ["/dashboard/sandbox/machines/subscription", "Subscription", "see"],
  ["/dashboard/sandbox/reset", "Reset the sandbox", "develop"],
  ["/dashboard/sandbox/search?q=none", "Search", "see"],
  ["/dashboard/account", "Account", "account"],
  ["/dashboard/account/rail", "Payment rail", "account"],
  ["/dashboard/team", "Team", "account"],
  ["/dashboard/team/{member}", /@fit\.example$/, "account"],
  ["/dashboard/activity", "Activity", "account"],
  ["/dashboard/live-access", "Live access", "account"],
  ["/dashboard/me", "You", "see"],
]

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

describe("every page", () => {
  it("is accessible, fits every width, and is like the others, in light and dark", async () => {
    const { page, member } = await signedInBrowser()
    const customer = await createCustomer(api)
    const plan = await createPlan(api)
    const clock = await createClock(api, "2027-01-05T09:00:00Z")
    const body = { customer, plan, payment_method: "pm_test_success" }
    const { id: subscription, latest_charge: charge } = data(await api.post("/subscriptions", body), 201)
    const event = data(await api.get("/events?limit=1"))[0].id
    const ids: Readonly<Record<string, string>> = {
      ...{ customer, plan, clock, subscription, charge, event },
      member: member.id,
    }
    for (const [path, title] of PAGES) {
      await page.goto(local() + path.replace(/\{(\w+)\}/, (_, name) => ids[name]!))
      await titled(page, title)
      expect(await page.getByRole("heading", { level: 1 }).count()).toBe(1)
      expect(await page.title()).toContain(await page.getByRole("heading", { level: 1 }).innerText())
      await inspect(page)
    }
  })

  it.each(["/dashboard/sign-in", "/dashboard/sign-up", "/dashboard/invitations/x", "/dashboard/links/x"])(
    "%s, without a session",
    async (path) => {
      const { page } = await newBrowser()
      await page.goto(local() + path)
      await inspect(page)
    },
  )
})

it.each(ROLES)("%s can follow every link of the navigation that leads to a page of this list", async (role) => {
  const { page } = await signedInBrowser(role)
  await page.goto(`${local()}/dashboard/sandbox`)
  const hrefs: ReadonlyArray<string> = await valueIn(
    page,
    "[...document.querySelectorAll('.navigation li a')].map((link) => link.getAttribute('href'))",
  )
  const known = PAGES.filter(([path]) => hrefs.includes(path))
  expect(known.length).toBeGreaterThan(2)
  for (const [path, title, right] of known) {
    expect(may(role, right, !path.startsWith("/dashboard/sandbox"))).toBe(true)
    await page.goto(local() + path)
    await titled(page, title)
    expect(await page.locator(".navigation [aria-current=page]").getAttribute("href")).toBe(path)
  }
})

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
