import { describe, expect, it } from "vitest"

import { useInstance } from "../support/instance.ts"
import { act, hiddenIn, signedIn } from "../support/member.ts"
import { createCustomer, createPlan, data } from "../support/story.ts"

const { database, server, accountId, api, live } = useInstance()

const member = (role: Parameters<typeof signedIn>[3] = "owner") =>
  signedIn(database, server().origin, accountId(), role)

const BASE = "/dashboard/sandbox/subscriptions"

const idOf = (location: string | null): string => /(sub_\w+)\?notice=created$/.exec(location ?? "")![1]!

const subscribe = async (plan: Readonly<Record<string, unknown>> = {}) => {
  const customer = await createCustomer(api, { name: "Ada <Obi>" })
  const body = { customer, plan: await createPlan(api, plan), payment_method: "pm_test_success" }
  return data(await api.post("/subscriptions", body), 201).id as string
}

describe("subscriptions in the dashboard", () => {
  it("are created for a customer who is found first, and cost what the review says", async () => {
    const owner = await member()
    const customer = await createCustomer(api, { name: "Bola Ade", email: "bola@fit.example" })
    const plan = await createPlan(api, { name: "Gold", amount: 250_000 })
    const choice = await owner.get(`${BASE}/new?plan=${plan}`)
    expect(choice.text).toContain("For which customer?")
    const found = await owner.get(`${BASE}/new?plan=${plan}&find=BOLA%40fit.example`)
    const path = `${BASE}/new?plan=${plan}&customer=${customer}`
    expect(found.location).toBe(path)
    const fields = { plan, quantity: "2", payment_method: "pm_test_success", attempt: "twice" }
    const review = await owner.post(path, { ...fields, intent: "review" })
    expect(review.text).toContain("₦5,000.00 is charged now.")
    const { reviewed } = hiddenIn(review.text)
    const confirm = { ...fields, reviewed: reviewed!, intent: "confirm" }
    const done = await owner.post(path, confirm)
    const again = await owner.post(path, confirm)
    expect(again.location).toBe(done.location)
    const id = idOf(done.location)
    const mine = data(await api.get(`/subscriptions?customer=${customer}&expand[]=latest_charge`))
    expect(mine).toMatchObject([{ id, quantity: 2, status: "active", latest_charge: { amount: 500_000 } }])
    const [first] = data(await api.get(`/subscriptions/${id}/timeline`)).toReversed()
    expect(first.cause).toMatchObject({ kind: "dashboard", member: owner.id, key: null })
  })

  it("are listed with the price that they keep", async () => {
    const owner = await member()
    const id = await subscribe({ name: "Silver", amount: 300_000 })
    const { plan } = data(await api.get(`/subscriptions/${id}`))
    data(await api.patch(`/plans/${plan}`, { amount: 900_000 }))
    const page = await owner.get(`${BASE}?plan=${plan}`)
    expect(page.text).toContain("<h1>Subscriptions</h1>")
    expect(page.text).toContain(`<a href="${BASE}/${id}">Silver for Ada &lt;Obi&gt;</a>`)
    expect(page.text).toContain("₦3,000.00 every month")
    const csv = await owner.get(`${BASE}.csv?plan=${plan}`)
    expect(csv.text).toContain(`${id},active,`)
    expect(csv.text).toContain(",Silver,1,3000,")
  })

  it("are paused, resumed, changed, cancelled and kept by the API's verbs", async () => {
    const owner = await member()
    const id = await subscribe({ pause_enabled: true, overage_per_unit: 100 })
    const now = async () => data(await api.get(`/subscriptions/${id}`))
    const does = async (verb: string, fields: Readonly<Record<string, string>> = {}) => {
      const done = await act(owner, `${BASE}/${id}/${verb}`, fields)
      expect(done.location, done.text).toBe(`${BASE}/${id}?notice=done`)
      return now()
    }
    expect(await does("pause", { reason: "Away", resumes_at: "2099-01-05T10:00" })).toMatchObject({
      status: "paused",
      resumes_at: "2099-01-05T09:00:00.000Z",
    })
    expect(await does("resume")).toMatchObject({ status: "active", resumes_at: null })
    expect(await does("change", { quantity: "3", payment_method: "pm_test_visa", metadata: "a=1\nb=2" })).toMatchObject(
      { quantity: 3, payment_method: "pm_test_visa", metadata: { a: "1", b: "2" } },
    )
    expect(await does("change", { quantity: "3", payment_method: "", metadata: "b=2" })).toMatchObject({
      payment_method: null,
      metadata: { b: "2" },
    })
    await does("units", { quantity: "7", action: "increment" })
    expect(await does("cancel", { at_period_end: "true", reason: "customer_request" })).toMatchObject({
      cancel_at_period_end: true,
    })
    expect(await does("keep")).toMatchObject({ cancel_at_period_end: false })
    expect(await does("cancel", { at_period_end: "false", reason: "customer_request" })).toMatchObject({
      status: "cancelled",
      cancellation_reason: "customer_request",
    })
    const timeline = data(await api.get(`/subscriptions/${id}/timeline?limit=100`))
    expect(timeline.at(0)).toMatchObject({
      event: { type: "cancel" },
      cause: { kind: "dashboard", member: owner.id },
    })
    expect(timeline.filter(({ cause }: { cause: { kind: string } }) => cause.kind === "dashboard").length).toBe(8)
  })

  it("shows a refusal of the dry run at its field, and asks again when the sums have changed", async () => {
    const owner = await member()
    const id = await subscribe({ pause_enabled: true })
    const refused = await owner.post(`${BASE}/${id}/pause`, {
      resumes_at: "2020-01-01T10:00",
      attempt: "past",
      intent: "review",
    })
    expect(refused.status).toBe(400)
    expect(refused.text).toMatch(/id="field-resumes_at-error">.*This must be in the future/)
    const customer = await createCustomer(api)
    const plan = await createPlan(api, { amount: 100_000 })
    const path = `${BASE}/new?customer=${customer}`
    const fields = { plan, quantity: "1", payment_method: "pm_test_success", attempt: "changed" }
    const { reviewed } = hiddenIn((await owner.post(path, { ...fields, intent: "review" })).text)
    data(await api.patch(`/plans/${plan}`, { amount: 120_000 }))
    const again = await owner.post(path, { ...fields, reviewed: reviewed!, intent: "confirm" })
    expect(again.text).toContain("This has changed since you looked. Check it again.")
    expect(again.text).toContain("₦1,200.00 is charged now.")
    expect(data(await api.get(`/subscriptions?customer=${customer}`))).toEqual([])
  })

  it("is not metered, and follows the role in each environment", async () => {
    const owner = await member()
    const customer = await createCustomer(live)
    const plan = await createPlan(live, { trial_days: 7 })
    const before = data(await live.get("/usage")).write_requests.used
    await act(owner, "/dashboard/live/customers/new", { name: "Chidi" })
    await act(owner, `/dashboard/live/plans/new`, { name: "Free", amount: "100" })
    expect(data(await live.get("/usage")).write_requests.used).toBe(before)
    const developer = await member("developer")
    const finance = await member("finance")
    const id = await subscribe()
    expect((await developer.get(BASE)).text).toContain("New subscription")
    expect((await developer.get("/dashboard/live/subscriptions")).text).not.toContain("New subscription")
    expect((await developer.get(`/dashboard/live/subscriptions/new?customer=${customer}&plan=${plan}`)).status).toBe(
      403,
    )
    expect((await developer.get(`${BASE}/${id}/cancel`)).status).toBe(200)
    expect((await finance.get(BASE)).status).toBe(200)
    expect((await finance.post(`${BASE}/${id}/cancel`, { intent: "confirm" })).status).toBe(403)
    expect(data(await api.get(`/subscriptions/${id}`)).status).toBe("active")
  })
})

describe("payment methods of a customer in the dashboard", () => {
  it("are chosen as the default, and removed", async () => {
    const owner = await member()
    const customer = await createCustomer(api)
    const path = `/dashboard/sandbox/customers/${customer}`
    const chosen = await act(owner, `${path}/default-method`, { default_payment_method: "pm_test_visa" })
    expect(chosen.location).toBe(`${path}?notice=saved`)
    expect(data(await api.get(`/customers/${customer}`)).default_payment_method.id).toBe("pm_test_visa")
    expect((await owner.get(path)).text).toContain(`${path}/payment-methods/pm_test_visa/remove`)
    const removed = await act(owner, `${path}/payment-methods/pm_test_visa/remove`)
    expect(removed.location).toBe(`${path}?notice=done`)
    expect(data(await api.get(`/customers/${customer}`)).default_payment_method).toBeNull()
  })

  it("offers the sandbox's test clocks for a new customer", async () => {
    const owner = await member()
    const clock = data(await api.post("/test/clocks", { frozen_time: "2026-01-31T09:00:00Z", name: "A year" }), 201).id
    const form = await owner.get("/dashboard/sandbox/customers/new")
    expect(form.text).toContain(`<option value="${clock}">A year: it is 31 Jan 2026, 10:00</option>`)
    const done = await act(owner, "/dashboard/sandbox/customers/new", { name: "Timed", test_clock: clock })
    const id = /(cus_\w+)/.exec(done.location!)![1]
    expect(data(await api.get(`/customers/${id}`)).test_clock).toBe(clock)
  })
})
