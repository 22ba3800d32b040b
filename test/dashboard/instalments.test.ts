import { describe, expect, it } from "vitest"
import { createAccount } from "../../src/merchants/account/accounts.ts"
import { beginPlan, createProduct, pay, useShop } from "../support/instalments.ts"
import { useInstance } from "../support/instance.ts"
import { act, signedIn } from "../support/member.ts"
import { data } from "../support/story.ts"

const instance = useInstance()
const { database, server, accountId, api } = instance
const { buyers } = useShop(instance)

const member = (role: Parameters<typeof signedIn>[3] = "owner") =>
  signedIn(database, server().origin, accountId(), role)

const BASE = "/dashboard/sandbox/instalments"

const FIELDS = {
  name: "Inverter <2>",
  price: "300000",
  cycleMonths: "3",
  mode: "fixed",
  allowedFrequencies: ["weekly", "monthly"],
  slots: "50",
  lateFee: "500",
  refundWindowDays: "7",
  isActive: "true",
}

describe("instalment plans in the dashboard", () => {
  it("are for shops only", async () => {
    const { account } = await database.run(() => createAccount({ businessName: "A gym" }))
    const stranger = await signedIn(database, server().origin, account.id, "owner")
    for (const path of [BASE, `${BASE}.csv`, `${BASE}/products`, `${BASE}/products/new`])
      expect((await stranger.get(path)).status, path).toBe(404)
    expect((await stranger.get("/dashboard/sandbox/customers")).text).not.toContain("Instalment plans")
  })

  it("begin with a product, which is created and changed", async () => {
    const owner = await member()
    const done = await act(owner, `${BASE}/products/new`, FIELDS)
    expect(done.location).toBe(`${BASE}/products?notice=created`)
    const [product] = data(await api.get("/provider-savings/products"))
    expect(product).toMatchObject({ name: "Inverter <2>", price: 300_000, slots: { total: 50 }, lateFee: 500 })
    const page = await owner.get(`${BASE}/products`)
    expect(page.text).toContain(`<a href="${BASE}/products/${product.id}/edit">Inverter &lt;2&gt;</a>`)
    await act(owner, `${BASE}/products/${product.id}/edit`, { ...FIELDS, price: "320000", slots: "", isActive: "" })
    expect(data(await api.get("/provider-savings/products"))[0]).toMatchObject({
      price: 320_000,
      slots: { total: null },
      isActive: false,
    })
    const refused = await act(owner, `${BASE}/products/new`, { ...FIELDS, price: "5" })
    expect(refused.text).toMatch(/id="field-price-error"/)
  })

  it("are listed with their totals, shown with their schedule, and extended", async () => {
    const owner = await member()
    const plan = await beginPlan(buyers(), await createProduct(api))
    await pay(plan)
    const page = await owner.get(BASE)
    expect(page.text).toContain("<h1>Instalment plans</h1>")
    expect(page.text).toContain(`<a href="${BASE}/${plan.id}">Inverter ${plan.id}</a>`)
    expect(page.text).toMatch(/Left to pay<\/h2><p class="amount">₦2,001\.00/)
    expect((await owner.get(`${BASE}?status=delivered`)).text).toContain("Nothing matches")
    expect((await owner.get(`${BASE}.csv`)).text).toContain(`${plan.id},Inverter,active,fixed,3001,1000,2001,0,`)
    const one = await owner.get(`${BASE}/${plan.id}`)
    expect(one.text).toContain("₦1,000.00 of ₦3,001.00")
    expect(one.text).toContain("<h2>Schedule</h2>")
    const before = data(await api.get(`/provider-savings/${plan.id}`)).deadline
    await act(owner, `${BASE}/${plan.id}/extend`, { days: "14" })
    const after = data(await api.get(`/provider-savings/${plan.id}`)).deadline
    expect(Date.parse(after) - Date.parse(before)).toBe(14 * 86_400_000)
    const [last] = data(await api.get(`/provider-savings/${plan.id}/timeline`))
    expect(last.cause).toMatchObject({ kind: "dashboard", member: owner.id })
    const both = await act(owner, `${BASE}/${plan.id}/extend`, { days: "14", deadline: "2099-01-01T10:00" })
    expect(both.status).toBe(400)
  })

  it("are shipped and delivered when they are paid", async () => {
    const support = await member("support")
    const plan = await beginPlan(buyers(), await createProduct(api))
    await pay(plan, { amount: 3_001 })
    expect((await support.get(`${BASE}/${plan.id}`)).text).toContain(`${BASE}/${plan.id}/ship`)
    await act(support, `${BASE}/${plan.id}/ship`)
    await act(support, `${BASE}/${plan.id}/deliver`)
    expect(data(await api.get(`/provider-savings/${plan.id}`)).status).toBe("delivered")
    const finance = await member("finance")
    expect((await finance.get(`${BASE}/${plan.id}/extend`)).status).toBe(403)
  })
})
