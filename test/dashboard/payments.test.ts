import { describe, expect, it } from "vitest"
import { failureOf } from "../../src/pages/dashboard/failures.ts"
import { FAILURE_CODES } from "../../src/rails/rail/PaymentRail.ts"

import { useInstance } from "../support/instance.ts"
import { act, hiddenIn, signedIn } from "../support/member.ts"
import { createCustomer, createPlan, data, eventually } from "../support/story.ts"

const { database, server, accountId, api } = useInstance()

const member = (role: Parameters<typeof signedIn>[3] = "owner") =>
  signedIn(database, server().origin, accountId(), role)

const BASE = "/dashboard/sandbox"

describe("charges in the dashboard", () => {
  it("are made once, even if the form is sent twice, with the amount that was reviewed", async () => {
    const support = await member("support")
    const customer = await createCustomer(api, { name: "Bola" })
    const path = `${BASE}/charges/new?customer=${customer}`
    const fields = { amount: "2,500.50", description: "Registration", payment_method: "pm_test_visa", attempt: "one" }
    const review = await support.post(path, { ...fields, intent: "review" })
    expect(review.text).toContain("₦2,500.50 is charged now.")
    const confirm = { ...fields, reviewed: hiddenIn(review.text).reviewed!, intent: "confirm" }
    const [first, second] = await Promise.all([support.post(path, confirm), support.post(path, confirm)])
    expect([first.status, second.status].toSorted()[0]).toBe(303)
    const again = await support.post(path, confirm)
    const charges = data(await api.get(`/charges?customer=${customer}`))
    expect(charges).toMatchObject([{ amount: 250_050, status: "succeeded", description: "Registration" }])
    expect(again.location).toBe(`${BASE}/charges/${charges[0].id}?notice=created`)
    const rows = await database.run(
      (sql) => sql`SELECT actor_name, action FROM activity WHERE object_id = ${charges[0].id}`,
    )
    expect(rows).toEqual([{ actor_name: support.email, action: "charge.create" }])
  })

  it("say why they failed and what to do, and are tried again with another method", async () => {
    const owner = await member()
    const customer = await createCustomer(api, { name: "Chidi" })
    const failed = data(
      await api.post("/charges", {
        customer,
        amount: 100_000,
        currency: "NGN",
        payment_method: "pm_test_insufficient_funds",
      }),
      201,
    )
    const path = `${BASE}/charges/${failed.id}`
    const page = await owner.get(path)
    expect(page.text).toContain("<h1>₦1,000.00 from Chidi</h1>")
    expect(page.text).toContain("<strong>There was not enough money on the account.</strong>")
    expect(page.text).toContain(`href="${path}/retry"`)
    expect((await owner.get(`${BASE}/charges?customer=${customer}&status=failed`)).text).toContain(
      "There was not enough money on the account.",
    )
    const done = await act(owner, `${path}/retry`, { payment_method: "pm_test_visa" })
    const id = /charges\/(chg_\w+)\?notice=done$/.exec(done.location ?? "")![1]!
    expect(data(await api.get(`/charges/${id}`))).toMatchObject({ status: "succeeded", attempt_number: 2 })
    const paid = await owner.get(`${BASE}/charges/${id}`)
    const [entry] = data(await api.get(`/charges/${id}/timeline`)).flatMap(
      ({ ledger_entries }: { ledger_entries: ReadonlyArray<string> }) => ledger_entries,
    )
    expect(paid.text).toContain(`<code class="id">${entry}</code>`)
    const refused = await act(owner, `${path}/retry`, { payment_method: "pm_test_visa" })
    expect(refused.text).toContain("The charge was retried already")
  })

  it("has words for every failure code, and for unknown ones", () => {
    const words = FAILURE_CODES.map((code) => failureOf(code).why)
    expect(words.every((why) => why.endsWith("."))).toBe(true)
    expect(failureOf("constructor").why).toBe("The payment was declined.")
  })

  it("follow the role", async () => {
    const finance = await member("finance")
    expect((await finance.get(`${BASE}/charges`)).text).not.toContain("Charge once")
    expect((await finance.get(`${BASE}/charges/new`)).status).toBe(403)
    const developer = await member("developer")
    expect((await developer.get("/dashboard/live/charges/new")).status).toBe(403)
  })
})

describe("checkout sessions in the dashboard", () => {
  it("are created with a link to copy, and expired", async () => {
    const owner = await member()
    const plan = await createPlan(api, { name: "Gold" })
    const fields = {
      mode: "subscription",
      plan,
      success_url: "https://shop.example/thanks",
      cancel_url: "https://shop.example/plans",
      expires_in_minutes: "60",
    }
    const done = await act(owner, `${BASE}/checkout-sessions/new?plan=${plan}`, fields)
    const id = /checkout-sessions\/(cs_\w+)\?notice=created$/.exec(done.location ?? "")![1]!
    const session = data(await api.get(`/checkout-sessions/${id}`))
    expect(session).toMatchObject({ mode: "subscription", plan, quantity: 1, status: "open" })
    const path = `${BASE}/checkout-sessions/${id}`
    const page = await owner.get(path)
    expect(page.text).toContain(`<code id="checkout-link">${session.url}</code>`)
    expect((await owner.get(`${BASE}/checkout-sessions.csv`)).text).not.toContain(session.url)
    const form = await owner.get(`${BASE}/checkout-sessions/new`)
    expect(form.text).toContain('value="https://shop.example/thanks"')
    await act(owner, `${path}/expire`)
    expect(data(await api.get(`/checkout-sessions/${id}`)).status).toBe("expired")
    const after = await owner.get(path)
    expect(after.text).not.toContain("checkout-link")
    expect(after.text).not.toContain(`${path}/expire`)
  })

  it("collects a payment method of a customer, and shows refusals at their fields", async () => {
    const owner = await member()
    const customer = await createCustomer(api)
    const path = `${BASE}/checkout-sessions/new?mode=setup&customer=${customer}`
    const form = await owner.get(path)
    expect(form.text).toContain("<h1>Collect a payment method</h1>")
    expect(form.text).toContain(`value="${customer}"`)
    const urls = { success_url: "https://shop.example/a", cancel_url: "https://shop.example/b" }
    const refused = await owner.post(path, {
      mode: "setup",
      customer,
      quantity: "2",
      ...urls,
      attempt: "one",
      intent: "review",
    })
    expect(refused.text).toMatch(/id="field-quantity-error"/)
    const done = await act(owner, path, { mode: "setup", customer, ...urls })
    const id = /(cs_\w+)\?notice=created$/.exec(done.location ?? "")![1]!
    expect(data(await api.get(`/checkout-sessions/${id}`))).toMatchObject({ mode: "setup", customer })
  })
})

describe("nudges in the dashboard", () => {
  it("are sent with the source dashboard, and show the message in the sandbox", async () => {
    const support = await member("support")
    const customer = await createCustomer(api, { name: "Dayo", phone: "+2348031234567" })
    const path = `${BASE}/nudges/new?customer=${customer}`
    const done = await act(support, path, { template: "custom", custom_message: "Come <back>", channels: ["sms"] })
    const id = /nudges\/(ndg_\w+)\?notice=created$/.exec(done.location ?? "")![1]!
    const nudge = await eventually(async () => {
      const shown = data(await api.get(`/nudges/${id}`))
      return shown.status === "queued" ? undefined : shown
    })
    expect(nudge).toMatchObject({ source: "dashboard", template: "custom", channel: "sms" })
    const page = await support.get(`${BASE}/nudges/${id}`)
    expect(page.text).toContain("<h1>Custom message to Dayo</h1>")
    expect(page.text).toContain("Come &lt;back&gt;")
    expect((await support.get(`${BASE}/nudges?customer=${customer}`)).text).toContain(`${BASE}/nudges/${id}`)
  })

  it("shows refusals at their fields, and the limit of a customer", async () => {
    const owner = await member()
    const customer = await createCustomer(api, { name: "Efe", email: "efe@fit.example" })
    const path = `${BASE}/nudges/new?customer=${customer}`
    const refused = await owner.post(path, { template: "custom", attempt: "one", intent: "review" })
    expect(refused.text).toMatch(/id="field-custom_message-error"/)
    for (const _ of [1, 2, 3]) await act(owner, path, { template: "payment_due" })
    const limited = await act(owner, path, { template: "payment_due" })
    expect(limited.text).toContain("The customer was sent 3 nudges within the last 24 hours")
    expect(data(await api.get(`/nudges?customer=${customer}`))).toHaveLength(3)
  })

  it("says how many nudges are left in live", async () => {
    const owner = await member()
    const made = await act(owner, "/dashboard/live/customers/new", { name: "Femi", email: "femi@fit.example" })
    const customer = /(cus_\w+)/.exec(made.location!)![1]
    const form = await owner.get(`/dashboard/live/nudges/new?customer=${customer}`)
    expect(form.text).toMatch(/\d+ nudges of this month&#39;s allowance are left\./)
  })
})
