import { describe, expect, it } from "vitest"

import { useInstance } from "../support/instance.ts"
import { signedIn } from "../support/member.ts"
import { createCustomer, createPlan, data } from "../support/story.ts"

const { database, server, accountId, api, stranger } = useInstance()

const BASE = "/dashboard/sandbox"

describe("the search", () => {
  it("leads to the page of any object by its ID, as it is written in different places", async () => {
    const member = await signedIn(database, server().origin, accountId(), "support")
    const find = async (q: string) => (await member.get(`${BASE}/search?${new URLSearchParams({ q })}`)).location
    const customer = await createCustomer(api, { name: "Ada" })
    const plan = await createPlan(api)
    const subscription = data(
      await api.post("/subscriptions", { customer, plan, payment_method: "pm_test_success" }),
      201,
    )
    const charge = subscription.latest_charge
    expect(await find(` ${customer} `)).toBe(`${BASE}/customers/${customer}`)
    expect(await find(plan.toUpperCase())).toBe(`${BASE}/plans/${plan}`)
    expect(await find(subscription.id)).toBe(`${BASE}/subscriptions/${subscription.id}`)
    expect(await find(charge.replace("_", "-"))).toBe(`${BASE}/charges/${charge}`)
    expect(await find("SB-01M7YYP0A6")).toBe(`${BASE}/instalments/SB-01M7YYP0A6`)
    const units = data(await api.post(`/subscriptions/${subscription.id}/unit-records`, { quantity: 1 }), 201).id
    expect(await find(units)).toBe(`${BASE}/subscriptions/${subscription.id}`)
    const [row] = await database.run((sql) => sql`SELECT id FROM ledger_entry WHERE charge_id = ${charge}`)
    const { id: entry } = row as { readonly id: string }
    expect(await find(entry)).toBe(`${BASE}/charges/${charge}`)
  })

  it("finds customers by e-mail address and phone number in any form, and charges by their provider's number", async () => {
    const member = await signedIn(database, server().origin, accountId(), "support")
    const find = (q: string) => member.get(`${BASE}/search?${new URLSearchParams({ q })}`)
    const email = "both@fit.example"
    const [first, second] = [
      await createCustomer(api, { name: "Bola <1>", email, phone: "+2348031234567" }),
      await createCustomer(api, { name: "Bola 2", email }),
    ]
    expect((await find("0803 123 4567")).location).toBe(`${BASE}/customers/${first}`)
    const both = await find("BOTH@fit.example")
    expect(both.text).toContain(`<a href="${BASE}/customers/${first}">Bola &lt;1&gt;</a>`)
    expect(both.text).toContain(`<a href="${BASE}/customers/${second}">Bola 2</a>`)
    const charge = data(
      await api.post("/charges", { customer: second, amount: 5_000, currency: "NGN", payment_method: "pm_test_visa" }),
      201,
    ).id
    await database.run((sql) => sql`UPDATE charge SET rail_id = '4099260516' WHERE id = ${charge}`)
    expect((await find("4099260516")).location).toBe(`${BASE}/charges/${charge}`)
  })

  it("finds nothing of others, and says what can be searched", async () => {
    const member = await signedIn(database, server().origin, accountId(), "support")
    await createCustomer(stranger, { name: "Other", email: "other@fit.example" })
    for (const q of ["other@fit.example", "", "<script>", "%' OR 1=1 --"]) {
      const page = await member.get(`${BASE}/search?${new URLSearchParams({ q })}`)
      expect(page.status).toBe(200)
      expect(page.text).toContain("<h2>Nothing found</h2>")
      expect(page.text).not.toContain("<script>")
    }
  })
})
