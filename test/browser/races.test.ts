/** Tests buyers who click twice, open two tabs, or come too late: one payment is made, and each page shows it. */
import { Effect } from "effect"
import type { Page } from "playwright-core"
import { describe, expect, it } from "vitest"
import { inspect, titled, useBuyers } from "../support/browser.ts"
import { DECLINED, fillCard, PAYS, pay, pick } from "../support/form.ts"
import { openSession, PRICE, seen, whileLocked } from "../support/hosted.ts"
import { useOwnInstance } from "../support/instance.ts"
import { useShop } from "../support/shop.ts"
import { createCustomer, createPlan, data, eventually } from "../support/story.ts"

const { api, server, database } = useOwnInstance()
const shop = useShop()
const newBuyer = useBuyers(
  () => server().origin,
  () => shop.origin(),
)

const PAID = ["completed", "active", `succeeded ${PRICE}`]
const PAID_ELSEWHERE = "You are subscribed already"

const openOne = async (session: object = {}) =>
  openSession(api, { customer: await createCustomer(api), ...shop.urls(), ...session })

/** The position of the button, for clicks while the browser loads the next page. */
const buttonOf = async (page: Page) => {
  const button = page.getByRole("button", { name: "Pay ₦5,000.00" })
  await button.scrollIntoViewIfNeeded()
  const { x, y, width, height } = (await button.boundingBox())!
  return { x: x + width / 2, y: y + height / 2 }
}

const posts = (asked: ReadonlyArray<string>): number => asked.filter((one) => one.startsWith("POST ")).length
/** Waits until the browser has sent this many forms. Forms after the first wait in the server, not in the database. */
const sent = (asked: ReadonlyArray<string>, count: number) =>
  eventually(async () => (posts(asked) >= count ? true : undefined))

describe("a buyer who clicks Pay twice", () => {
  it("sends the form once, and sees that it is in progress", async () => {
    const { id, url } = await openOne()
    const { page, asked } = await newBuyer()
    const pressed: Array<string> = []
    await page.exposeFunction("pressed", (entry: string) => void pressed.push(entry))
    await page.goto(url)
    await page.evaluate(
      "addEventListener('submit', (event) => pressed(`${event.defaultPrevented ? 'held back' : 'sent'}: ${event.submitter.textContent}`))",
    )
    await pick(page, PAYS)
    const at = await buttonOf(page)
    await whileLocked(database, "lifecycle_journal", async (waited) => {
      await pay(page)
      await waited(1)
      await page.mouse.click(at.x, at.y)
      await page.keyboard.press("Enter")
    })
    await shop.landed(page, id)
    expect(pressed).toEqual(["sent: Paying…", "held back: Paying…", "held back: Paying…"])
    expect(posts(asked)).toBe(1)
    expect(await seen(api, id)).toEqual(PAID)
  })

  it("pays once when two clicks are one gesture", async () => {
    const { id, url } = await openOne()
    const { page, asked } = await newBuyer()
    await page.goto(url)
    await pick(page, PAYS)
    await page.getByRole("button", { name: "Pay ₦5,000.00" }).dblclick()
    await shop.landed(page, id)
    expect(posts(asked)).toBe(1)
    expect(await seen(api, id)).toEqual(PAID)
  })

  it("pays once when no script stops the second form, and returns to the shop", async () => {
    const { id, url } = await openOne()
    const { page, asked } = await newBuyer({ javaScriptEnabled: false })
    await page.goto(url)
    await fillCard(page, PAYS)
    const at = await buttonOf(page)
    await whileLocked(database, "lifecycle_journal", async (waited) => {
      await pay(page)
      await waited(1)
      await page.mouse.click(at.x, at.y)
      await sent(asked, 2)
    })
    await shop.landed(page, id)
    expect(posts(asked)).toBe(2)
    expect(await seen(api, id)).toEqual(PAID)
  })
})

describe("two tabs", () => {
  it("with two cards at the same time: one pays, the other shows it", async () => {
    const { id, url } = await openOne()
    const { page: first, context, asked } = await newBuyer()
    const second = await context.newPage()
    await Promise.all([first.goto(url), second.goto(url)])
    await pick(first, PAYS)
    await pick(second, "asks for a code")
    await second.getByLabel("Card number").fill(PAYS)
    await whileLocked(database, "lifecycle_journal", async (waited) => {
      await pay(first)
      await waited(1)
      await pay(second)
      await sent(asked, 2)
    })
    await shop.landed(first, id)
    await titled(second, "This is paid already")
    expect(await second.getByRole("main").innerText()).toContain("You paid ₦5,000.00 on")
    await inspect(second)
    expect(await seen(api, id)).toEqual(PAID)
    expect(shop.arrivals(id)).toBe(1)
  })

  it("with the first card declined: the other pays", async () => {
    const { id, url } = await openOne()
    const { page: first, context, asked } = await newBuyer()
    const second = await context.newPage()
    await Promise.all([first.goto(url), second.goto(url)])
    await pick(first, DECLINED)
    await pick(second, PAYS)
    await whileLocked(database, "lifecycle_journal", async (waited) => {
      await pay(first)
      await waited(1)
      await pay(second)
      await sent(asked, 2)
    })
    await shop.landed(second, id)
    await first.getByRole("heading", { level: 1 }).waitFor()
    expect(await seen(api, id)).toEqual(["completed", "active", `failed ${PRICE}`, `succeeded ${PRICE}`])
    await first.goto(url)
    await titled(first, "This is paid already")
  })

  it("with two checkouts of one plan: one is bought, the other is closed", async () => {
    const customer = await createCustomer(api)
    const plan = await createPlan(api)
    const session = { mode: "subscription", customer, plan, ...shop.urls() }
    const [one, other] = [
      data(await api.post("/checkout-sessions", session), 201),
      data(await api.post("/checkout-sessions", session), 201),
    ]
    const { page: first, context, asked } = await newBuyer()
    const second = await context.newPage()
    await Promise.all([first.goto(one.url), second.goto(other.url)])
    await pick(first, PAYS)
    await pick(second, PAYS)
    await whileLocked(database, "lifecycle_journal", async (waited) => {
      await pay(first)
      await waited(1)
      await pay(second)
      await sent(asked, 2)
    })
    await shop.landed(first, one.id)
    await titled(second, PAID_ELSEWHERE)
    expect(await second.getByRole("main").innerText()).toContain("Nothing was charged here.")
    await inspect(second)
    expect(await seen(api, one.id)).toEqual(PAID)
    expect(await seen(api, other.id)).toEqual(["expired", "cancelled"])
  })
})

describe("a buyer who comes late", () => {
  /** Makes a session expire after this time from now. */
  const leave = (id: string, seconds: number) =>
    database.run((sql) =>
      sql.withTransaction(
        Effect.gen(function* () {
          const until = sql`now() + ${seconds} * interval '1 second'`
          yield* sql`UPDATE checkout_session SET created_at = now() - interval '1 day', expires_at = ${until} WHERE id = ${id}`
          yield* sql`UPDATE timer SET due_at = ${until} WHERE actor_id = ${id}`
        }),
      ),
    )

  it("sees the countdown, and then the expiry", async () => {
    const { id, url } = await openOne()
    const { page } = await newBuyer()
    await leave(id, 5)
    await page.goto(url)
    await titled(page, "This checkout has expired")
    await inspect(page)
    const late = await page.request.post(`${url}/complete`, { form: { payment_method: "pm_test_success" } })
    expect(late.status()).toBe(422)
    expect(await seen(api, id)).toEqual(["expired", "cancelled"])
  })

  it("is warned when little time is left, however long the page has been open", async () => {
    const { id, url } = await openOne()
    const { page } = await newBuyer()
    await page.clock.install()
    await leave(id, 2 * 3600 + 1800)
    await page.goto(url)
    await page.getByText(/^ *\(2 h \d+ min left\)$/).waitFor()
    await page.clock.fastForward("01:45:00")
    await page.getByText(/^ *\(4\d min left\)$/).waitFor()
    await page.clock.fastForward("40:30")
    await page.getByText("Less than 5 minutes left to pay.").waitFor({ state: "attached" })
    await page.clock.fastForward("03:40")
    await page.getByText("Less than a minute left to pay.").waitFor({ state: "attached" })
    await page.getByText(/^ *\(\d+ s left\)$/).waitFor()
    await leave(id, -1)
    await page.clock.fastForward("01:00")
    await titled(page, "This checkout has expired")
  })

  it("is not misled by a wrong clock", async () => {
    const { url } = await openOne()
    const { page } = await newBuyer()
    await page.addInitScript("{ const now = Date.now; Date.now = () => now() + 40 * 24 * 3600 * 1000 }")
    await page.goto(url)
    await page.getByText(/^ *\(23 h 59 min left\)$/).waitFor()
    await titled(page, "Subscribe to Gym")
  })
})

it("cannot submit a form from another site's page", async () => {
  const { id, url } = await openOne()
  shop.put(
    "/trap",
    `<form method="post" action="${url}/complete"><input name="payment_method" value="pm_test_success"><button>Win</button></form>`,
  )
  const { page } = await newBuyer()
  await page.goto(`${shop.origin()}/trap`)
  await page.getByRole("button", { name: "Win" }).click()
  await titled(page, "This cannot be done")
  await inspect(page)
  expect(await seen(api, id)).toEqual(["open", "incomplete"])
})

it("cannot be framed by another site", async () => {
  const { url } = await openOne()
  shop.put("/frame", `<iframe src="${url}"></iframe>`)
  const { page, asked } = await newBuyer({}, [/^console: Framing .* violates .* "frame-ancestors 'none'"/])
  await page.goto(`${shop.origin()}/frame`)
  await eventually(async () => (page.frames().length > 1 && asked.length > 0 ? true : undefined))
  expect(asked).toEqual([`GET ${new URL(url).pathname}`])
  expect(await page.frameLocator("iframe").getByRole("heading").count()).toBe(0)
})
