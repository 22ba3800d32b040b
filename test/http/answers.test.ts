/** Tests that a request that charges returns the state after everything is settled, as a later GET shows it. */
import { describe, expect, it } from "vitest"
import { useInstance } from "../support/instance.ts"
import { advance, createClock, createCustomer, createPlan, data } from "../support/story.ts"

const { api } = useInstance()

const METHODS = [
  "pm_test_success",
  "pm_test_insufficient_funds",
  "pm_test_pending_then_success",
  "pm_test_pending_then_failed",
  "pm_test_timeout_then_success",
  "pm_test_timeout_not_found",
]
const METADATA = { bb: "1", a: "2" }

const got = async (path: string, id: string) => data(await api.get(`${path}/${id}`))

describe.each(METHODS)("with %s", (payment_method) => {
  it("a subscription and a charge return their settled state", async () => {
    const customer = await createCustomer(api)
    const plan = await createPlan(api)
    const made = await api.post("/subscriptions", { customer, plan, payment_method, metadata: METADATA })
    expect([201, 402]).toContain(made.status)
    if (made.status === 201) expect(data(made, 201)).toEqual(await got("/subscriptions", made.body.data.id))
    const charged = await api.post("/charges", { customer, amount: 50_000, currency: "NGN", payment_method })
    expect([201, 402]).toContain(charged.status)
    if (charged.status === 201) expect(data(charged, 201)).toEqual(await got("/charges", charged.body.data.id))
  })

  it("a resumed subscription, or one with a new payment method for an overdue bill, returns its settled state", async () => {
    const clock = await createClock(api, "2026-01-01T00:00:00Z")
    const customer = await createCustomer(api, { test_clock: clock })
    const plan = await createPlan(api, { pause_enabled: true })
    const first = { customer, plan, payment_method: "pm_test_success" }
    const { id } = data(await api.post("/subscriptions", first), 201)
    data(await api.post(`/subscriptions/${id}/pause`, {}))
    data(await api.patch(`/subscriptions/${id}`, { payment_method }))
    await advance(api, clock, "2026-02-03T00:00:00Z")
    const resumed = await api.post(`/subscriptions/${id}/resume`, {})
    expect(data(resumed)).toEqual(await got("/subscriptions", id))
    const other = await api.patch(`/subscriptions/${id}`, { payment_method: "pm_test_visa" })
    expect(data(other)).toEqual(await got("/subscriptions", id))
  })
})

it("a request without a charge returns its settled state too", async () => {
  const customer = await createCustomer(api)
  const plan = await createPlan(api, { trial_days: 7, overage_per_unit: 100 })
  const subscription = { customer, plan, payment_method: "pm_test_success", metadata: METADATA }
  const trial = data(await api.post("/subscriptions", subscription), 201)
  expect(trial).toEqual(await got("/subscriptions", trial.id))
  const report = { quantity: 3, description: "Three" }
  const [first, second] = [
    await api.post(`/subscriptions/${trial.id}/unit-records`, report, { "idempotency-key": "report" }),
    await api.post(`/subscriptions/${trial.id}/unit-records`, report, { "idempotency-key": "report" }),
  ]
  expect(data(first, 201)).toMatchObject({ ...report, action: "increment" })
  expect(second.body.data).toEqual(first.body.data)
})
