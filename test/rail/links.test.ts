/** Tests payment links that buyers pay on the rails' own pages (decisions P5 to P8). */
import { Effect, Layer } from "effect"
import { describe, expect, it } from "vitest"
import { Nudging } from "../../src/outbound/nudge/Nudging.ts"
import { heading, markup, open as openPage, submit, submitForm } from "../support/checkout.ts"
import { faults } from "../support/rails/fault.ts"
import { BOTH, DUE, type LiveAccount, useRails } from "../support/rails/live.ts"
import { secretsLayer } from "../support/services.ts"
import { createCustomer, data, eventually } from "../support/story.ts"

const { database, server, open } = useRails()

const PRICE = 500_000
const MINUTE_MS = 60_000

/** The page behind a nudge's link. Its token is in the message only. */
const linkOf = async (account: string, nudge: string): Promise<string> => {
  const layer = Nudging.layer(null).pipe(Layer.provide(secretsLayer(database)))
  const token = await Effect.runPromise(
    Effect.map(Nudging, (nudging) => nudging.token({ account_id: account, livemode: true, id: nudge })).pipe(
      Effect.provide(layer),
    ),
  )
  return `${server().origin}/pay/${token}`
}

const linkAbout = async ({ api, id }: LiveAccount, customer: string, subscription: string) =>
  linkOf(id, data(await api.post("/nudges", { customer, subscription, template: "payment_due" }), 201).id)

/** A subscription whose second payment was declined, with a link to pay it. */
const overdue = async (account: LiveAccount) => {
  const buyer = await account.buyer()
  data(await account.api.patch(`/customers/${buyer.customer}`, { phone: "+2348031234567" }))
  const id = await account.subscribe(PRICE, buyer)
  account.plan("charge", faults.decline("Insufficient Funds"), PRICE)
  await account.pass(DUE)
  await eventually(async () => {
    const { status } = data(await account.api.get(`/subscriptions/${id}`))
    return status === "past_due" ? true : undefined
  })
  return { ...buyer, id, url: await linkAbout(account, buyer.customer, id) }
}

const newest = async (customer: string) => {
  const [row] = await database.run(
    (sql) =>
      sql<{
        id: string
      }>`SELECT id FROM charge WHERE customer_id = ${customer} AND hosted ORDER BY created_at DESC LIMIT 1`,
  )
  return row!.id
}

describe.each(BOTH)("a payment link on %s", (name) => {
  it("redirects to the rail's page, and ends on its own finished page", async () => {
    const account = await open(name)
    const { api, merchant, rail } = account
    const { customer, id, url, method } = await overdue(account)
    const sent = await submitForm(url, {})
    expect(sent.status).toBe(303)
    expect(sent.headers.get("location")).toContain(rail.url)
    const waiting = await openPage(url)
    expect([heading(waiting), markup(waiting)]).toEqual([
      "Waiting for your payment",
      expect.stringContaining("Go on to pay"),
    ])
    const reference = await newest(customer)
    expect((await api.post(`/charges/${reference}/retry`)).body.error.code).toBe("charge_in_progress")

    const back = await rail.payOnPage(reference, "pay", { card: { last4: "0409" } })
    expect(back).toContain(`${url}/return`)
    const returned = await openPage(back!)
    expect([returned.status, heading(returned)]).toEqual([200, "Thank you: this is paid"])
    const recovered = data(await api.get(`/subscriptions/${id}`))
    expect(recovered.status).toBe("active")
    expect(recovered.payment_method).not.toBe(method)
    expect(data(await api.get(`/customers/${customer}/payment-methods`))).toHaveLength(2)
    expect(merchant.books.get(reference).taken).toEqual([PRICE])
  })

  it("is given up half an hour after the page was opened, if the rail says that it is unpaid", async () => {
    const account = await open(name)
    const { customer, id, url } = await overdue(account)
    data(await submit(url, {}))
    const reference = await newest(customer)
    await account.pass(29 * MINUTE_MS)
    expect(await account.see(reference)).toMatchObject({ status: "pending" })
    await account.pass(MINUTE_MS)
    expect(await account.settled(reference)).toMatchObject({ status: "failed", failure_code: "customer_abandoned" })
    expect(data(await account.api.get(`/subscriptions/${id}`)).status).toBe("past_due")
    expect(heading(await openPage(url))).toBe("₦5,000.00 to pay")
  })

  it("for all debts pays one bill on the page and the others with the saved method", async () => {
    const account = await open(name)
    const { api, rail } = account
    const buyer = await account.buyer()
    data(await api.patch(`/customers/${buyer.customer}`, { phone: "+2348031234567" }))
    const both = [await account.subscribe(PRICE, buyer), await account.subscribe(PRICE, buyer)]
    account.plan("charge", [faults.decline("Insufficient Funds"), faults.decline("Insufficient Funds")], PRICE)
    await account.pass(DUE)
    await eventually(async () => {
      const all = await Promise.all(both.map((id) => api.get(`/subscriptions/${id}`)))
      return all.every((one) => data(one).status === "past_due") ? true : undefined
    })
    const nudge = data(await api.post("/nudges", { customer: buyer.customer, template: "payment_due" }), 201)
    const url = await linkOf(account.id, nudge.id)
    data(await submit(url, { amount: 2 * PRICE }))
    await openPage((await rail.payOnPage(await newest(buyer.customer), "pay"))!)
    for (const id of both)
      await eventually(async () => (data(await api.get(`/subscriptions/${id}`)).status === "active" ? true : undefined))
    expect(heading(await openPage(url))).toBe("Thank you: this is paid")
  })

  it("does not charge debts that are newer than the page", async () => {
    const account = await open(name)
    const { api, rail } = account
    const buyer = await account.buyer()
    data(await api.patch(`/customers/${buyer.customer}`, { phone: "+2348031234567" }))
    const owed = async (id: string) =>
      eventually(async () => (data(await api.get(`/subscriptions/${id}`)).status === "past_due" ? true : undefined))
    const shown = await account.subscribe(PRICE, buyer)
    await account.pass(20 * MINUTE_MS)
    const since = await account.subscribe(PRICE, buyer)
    account.plan("charge", [faults.decline("Insufficient Funds"), faults.decline("Insufficient Funds")], PRICE)
    await account.pass(DUE - 20 * MINUTE_MS)
    await owed(shown)
    const nudge = data(await api.post("/nudges", { customer: buyer.customer, template: "payment_due" }), 201)
    const url = await linkOf(account.id, nudge.id)
    data(await submit(url, { amount: PRICE }))
    await account.pass(20 * MINUTE_MS)
    await owed(since)
    await openPage((await rail.payOnPage(await newest(buyer.customer), "pay"))!)
    await eventually(async () =>
      data(await api.get(`/subscriptions/${shown}`)).status === "active" ? true : undefined,
    )
    expect(heading(await openPage(url))).toBe("₦5,000.00 to pay")
    expect(await api.all(`/charges?subscription=${since}`)).toHaveLength(2)
  })

  it("saves a payment method if nothing is due, for a new e-mail address", async () => {
    const account = await open(name)
    const { api, merchant, rail } = account
    const { method } = await account.buyer()
    const customer = await createCustomer(api, { phone: "+2348031234567" })
    expect(method).toMatch(/^pm_/)
    const url = await linkOf(account.id, data(await api.post("/nudges", { customer, template: "payment_due" }), 201).id)
    const missing = await submit(url, {})
    expect([missing.status, missing.body.error.param]).toEqual([400, "email"])
    const { redirect_url } = data(await submit(url, { email: "chidi@example.com" }))
    expect(redirect_url).toContain(rail.url)
    const reference = await newest(customer)
    expect(merchant.books.get(reference)).toMatchObject({ askedKobo: 5_000, email: "chidi@example.com" })
    const returned = await openPage((await rail.payOnPage(reference, "pay"))!)
    expect([returned.status, returned.headers.get("location")]).toEqual([303, `${new URL(url).pathname}?saved`])
    expect(markup(await openPage(`${url}?saved`))).toContain("Your payment method is saved")
    const [saved] = data(await api.get(`/customers/${customer}/payment-methods`))
    const { email, default_payment_method } = data(await api.get(`/customers/${customer}`))
    expect([email, default_payment_method.id]).toEqual(["chidi@example.com", saved.id])
    expect(await api.all(`/charges?customer=${customer}`)).toEqual([])
    await eventually(async () => {
      const [row] = await database.run(
        (sql) => sql<{ status: string }>`SELECT status FROM finance.card_verifications WHERE reference = ${reference}`,
      )
      if (row!.status === "returned") return row
      await account.pass(MINUTE_MS)
      return undefined
    })
    expect(await account.books()).toEqual({})
  })
})
