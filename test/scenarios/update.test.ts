import { describe, expect, it } from "vitest"
import { useInstance } from "../support/instance.ts"
import { advance, charges, data, refusal, subscribe, timeline } from "../support/story.ts"
import { useWhole } from "../support/whole.ts"

const { api, database, stranger } = useInstance()
useWhole(database)

const patch = (id: string, body: object) => api.patch(`/subscriptions/${id}`, body)
const newest = async (type: string) => (await api.get(`/events?type=${type}&limit=1`)).body.data[0].data

describe("PATCH /subscriptions/{id} (decision E14)", () => {
  it("takes a quantity from the next renewal on", async () => {
    const { clock, id } = await subscribe(api, "2025-01-31T00:00:00Z", "pm_test_success")
    expect(data(await patch(id, { quantity: 3 }))).toMatchObject({ quantity: 3 })
    expect((await newest("subscription.updated")).previous_attributes).toEqual({ quantity: 1 })
    await advance(api, clock, "2025-03-01T00:00:00Z")
    expect(await charges(api, id)).toEqual([
      "2025-01-31T00:00 500000 succeeded #1",
      "2025-02-28T00:00 1500000 succeeded #1",
    ])
  })

  it("refuses a quantity that leaves no room for the reported units (decision B4)", async () => {
    const plan = { amount: 40_000_000_000, overage_per_unit: 1_000_000 }
    const { id } = await subscribe(api, "2025-01-31T00:00:00Z", "pm_test_success", plan)
    data(await api.post(`/subscriptions/${id}/unit-records`, { quantity: 20_000 }), 201)
    const refused = await patch(id, { quantity: 2 })
    expect(refusal(refused)).toEqual([400, "parameter_invalid", "quantity"])
    expect(refused.body.error.message).toContain("₦200,000,000.00 for the units")
    data(await api.post(`/subscriptions/${id}/unit-records`, { quantity: 19_999, action: "set" }), 201)
    data(await patch(id, { quantity: 2 }))
  })

  it("reports all changes of one request in one event, and no unchanged field", async () => {
    const { clock, id } = await subscribe(
      api,
      "2025-01-31T00:00:00Z",
      "pm_test_success",
      {},
      { metadata: { a: "1", b: "2" } },
    )
    const changed = data(
      await patch(id, {
        quantity: 2,
        cancel_at_period_end: true,
        payment_method: "pm_test_visa",
        metadata: { a: "", c: "3" },
      }),
    )
    expect(changed).toMatchObject({
      quantity: 2,
      cancel_at_period_end: true,
      payment_method: "pm_test_visa",
      metadata: { b: "2", c: "3" },
      next_charge_at: null,
    })
    const { object, previous_attributes } = await newest("subscription.updated")
    expect(object).toEqual(changed)
    expect(previous_attributes).toEqual({
      quantity: 1,
      cancel_at_period_end: false,
      payment_method: "pm_test_success",
      metadata: { a: "1", b: "2" },
      next_charge_at: "2025-02-28T00:00:00.000Z",
    })
    for (const same of [
      {},
      { quantity: 2 },
      { cancel_at_period_end: true, metadata: { b: "2" } },
      { payment_method: "pm_test_visa" },
      { metadata: { nothing: "" } },
    ]) {
      expect(data(await patch(id, same))).toEqual(changed)
    }
    expect(data(await patch(id, { metadata: null, payment_method: null }))).toMatchObject({
      metadata: {},
      payment_method: null,
    })
    await advance(api, clock, "2025-02-28T00:00:00Z")
    expect((await timeline(api, [id])).slice(2)).toEqual([
      "2025-01-31T00:00 subscription.updated active",
      "2025-01-31T00:00 subscription.updated active",
      "2025-02-28T00:00 subscription.cancelled cancelled",
    ])
  })

  it("undoes a cancellation at period end in every state that is not final", async () => {
    const pausable = { pause_enabled: true, retry_logic: { escalation_on_failure: "restrict_access" } }
    const later = { start_at: "2025-03-01T00:00:00Z" }
    const stories = [
      ["incomplete", await subscribe(api, "2025-01-31T00:00:00Z", "pm_test_success", pausable, later)],
      ["trialing", await subscribe(api, "2025-01-31T00:00:00Z", "pm_test_success", pausable, { trial_days: 30 })],
      ["active", await subscribe(api, "2025-01-31T00:00:00Z", "pm_test_success", pausable)],
      ["paused", await subscribe(api, "2025-01-31T00:00:00Z", "pm_test_success", pausable)],
      ["past_due", await subscribe(api, "2024-12-31T00:00:00Z", "pm_test_success_then_expired_card", pausable)],
    ] as const
    data(await api.post(`/subscriptions/${stories[3][1].id}/pause`))
    await advance(api, stories[4][1].clock, "2025-02-01T00:00:00Z")
    for (const [status, { id, clock }] of stories) {
      const cancelling = data(await api.post(`/subscriptions/${id}/cancel`, { at_period_end: true }))
      expect(cancelling).toMatchObject({ status, cancel_at_period_end: true, cancellation_reason: null })
      expect(data(await patch(id, { cancel_at_period_end: false }))).toMatchObject({
        status,
        cancel_at_period_end: false,
      })
      await advance(api, clock, "2025-03-15T00:00:00Z")
      const after = data(await api.get(`/subscriptions/${id}`))
      expect([status, after.cancellation_reason]).toEqual([status, status === "past_due" ? "nonpayment" : null])
    }
  })

  it("is refused with the correction to make", async () => {
    const { id } = await subscribe(api, "2025-01-31T00:00:00Z", "pm_test_success")
    expect(refusal(await patch(id, { quantity: 0 }))).toEqual([400, "parameter_invalid", "quantity"])
    expect(refusal(await patch(id, { quantity: 200_001 }))).toEqual([400, "parameter_invalid", "quantity"])
    expect(refusal(await patch(id, { payment_method: "pm_unknown" }))).toEqual([
      400,
      "resource_missing",
      "payment_method",
    ])
    expect(refusal(await patch(id, { plan: "plan_x" }))).toEqual([400, "parameter_unknown", "plan"])
    expect(refusal(await stranger.patch(`/subscriptions/${id}`, { quantity: 2 }))).toEqual([
      404,
      "resource_missing",
      null,
    ])
    data(await api.post(`/subscriptions/${id}/cancel`))
    expect(refusal(await patch(id, { quantity: 2 }))).toEqual([422, "subscription_state_invalid", null])
    expect(refusal(await patch(id, {}))).toEqual([422, "subscription_state_invalid", null])
  })
})

describe("cancelling (decisions E12, E13)", () => {
  it.each(["customer_request", "merchant_request", "nonpayment", "checkout_expired", "other"])(
    "for %s",
    async (reason) => {
      const { id } = await subscribe(api, "2025-01-31T00:00:00Z", "pm_test_success")
      expect(data(await api.post(`/subscriptions/${id}/cancel`, { reason })).cancellation_reason).toBe(reason)
      expect(refusal(await api.post(`/subscriptions/${id}/cancel`, { reason }))).toEqual([
        422,
        "subscription_state_invalid",
        null,
      ])
    },
  )

  it("at the end of a trial never charges; before its start, at the end of its first period", async () => {
    const trial = await subscribe(api, "2025-01-01T00:00:00Z", "pm_test_success", {}, { trial_days: 10 })
    data(await api.post(`/subscriptions/${trial.id}/cancel`, { at_period_end: true }))
    await advance(api, trial.clock, "2025-02-01T00:00:00Z")
    expect(await timeline(api, [trial.id])).toEqual([
      "2025-01-01T00:00 subscription.created trialing",
      "2025-01-01T00:00 subscription.updated trialing",
      "2025-01-08T00:00 subscription.trial_will_end trialing",
      "2025-01-11T00:00 subscription.cancelled cancelled",
    ])
    expect(await charges(api, trial.id)).toEqual([])

    const later = await subscribe(
      api,
      "2025-01-01T00:00:00Z",
      "pm_test_success",
      {},
      { start_at: "2025-01-31T00:00:00Z" },
    )
    data(await api.post(`/subscriptions/${later.id}/cancel`, { at_period_end: true }))
    await advance(api, later.clock, "2025-03-31T00:00:00Z")
    expect((await timeline(api, [later.id])).slice(1)).toEqual([
      "2025-01-01T00:00 subscription.updated incomplete",
      "2025-01-31T00:00 charge.succeeded succeeded",
      "2025-01-31T00:00 subscription.updated active",
      "2025-02-28T00:00 subscription.cancelled cancelled",
    ])
  })

  it("now bills no pending units: they appear as unbilled in the books' view", async () => {
    const { id } = await subscribe(api, "2025-01-31T00:00:00Z", "pm_test_success", { overage_per_unit: 250 })
    data(await api.post(`/subscriptions/${id}/unit-records`, { quantity: 8 }), 201)
    const view = () =>
      database.run(
        (sql) => sql`SELECT state, units, amount_kobo FROM finance.unbilled_units WHERE subscription = ${id}`,
      )
    expect(await view()).toEqual([{ state: "pending", units: 8, amount_kobo: 2_000 }])
    data(await api.post(`/subscriptions/${id}/cancel`))
    expect(await view()).toEqual([{ state: "unbilled", units: 8, amount_kobo: 2_000 }])
  })

  it("in a trial leaves nothing unbilled: units of trials are free", async () => {
    const free = { overage_per_unit: 250 }
    const { id, clock } = await subscribe(api, "2025-01-01T00:00:00Z", "pm_test_insufficient_funds", free, {
      trial_days: 10,
    })
    const { id: left } = await subscribe(api, "2025-01-01T00:00:00Z", "pm_test_success", free, { trial_days: 10 })
    const slow: Array<string> = []
    const view = () =>
      database.run(
        (sql) =>
          sql`SELECT subscription, units FROM finance.unbilled_units WHERE subscription = ANY(${[id, left, ...slow]}) ORDER BY 1`,
      )
    for (const one of [id, left]) data(await api.post(`/subscriptions/${one}/unit-records`, { quantity: 8 }), 201)
    data(await api.post(`/subscriptions/${left}/cancel`))
    expect(await view()).toEqual([])
    // Those reported while its payment is in progress are free, too.
    const bank = await subscribe(api, "2025-01-01T00:00:00Z", "pm_test_bank_account", free, { trial_days: 10 })
    slow.push(bank.id)
    await advance(api, bank.clock, "2025-01-11T00:10:00Z")
    data(await api.post(`/subscriptions/${bank.id}/unit-records`, { quantity: 8 }), 201)
    data(await api.post(`/subscriptions/${bank.id}/cancel`))
    expect(await view()).toEqual([])
    // The first payment fails: service from then on is not free.
    await advance(api, clock, "2025-01-11T00:30:00Z")
    data(await api.post(`/subscriptions/${id}/unit-records`, { quantity: 3 }), 201)
    data(await api.post(`/subscriptions/${id}/cancel`))
    expect(await view()).toEqual([{ subscription: id, units: 3 }])
  })

  it("while a trial's first payment, or a renewal, is pending owes a later payment back (E15)", async () => {
    const { clock, id } = await subscribe(api, "2025-01-01T00:00:00Z", "pm_test_bank_account", {}, { trial_days: 10 })
    await advance(api, clock, "2025-01-11T00:30:00Z")
    expect(data(await api.get(`/subscriptions/${id}`)).status).toBe("trialing")
    data(await api.post(`/subscriptions/${id}/cancel`))
    await advance(api, clock, "2025-01-12T00:00:00Z")
    expect((await timeline(api, [id])).slice(2)).toEqual([
      "2025-01-11T00:30 subscription.cancelled cancelled",
      "2025-01-11T01:00 charge.succeeded succeeded",
    ])
    const [charge] = await api.all(`/charges?subscription=${id}`)
    expect(charge.refund_due).toBe(true)
  })
})

describe("reading subscriptions", () => {
  it("filters and expands", async () => {
    const one = await subscribe(api, "2025-01-31T00:00:00Z", "pm_test_success")
    const list = async (query: string) => (await api.all(`/subscriptions?${query}`)).map(({ id }) => id)
    expect(await list(`customer=${one.customer}`)).toEqual([one.id])
    expect(await list(`plan=${one.plan}&status=active`)).toEqual([one.id])
    expect(await list(`plan=${one.plan}&status=paused`)).toEqual([])
    expect(await list("customer=cus_unknown")).toEqual([])
    expect(refusal(await api.get("/subscriptions?status=dormant"))).toEqual([400, "parameter_invalid", "status"])
    const expanded = data(
      await api.get(`/subscriptions/${one.id}?expand[]=customer&expand[]=plan&expand[]=latest_charge`),
    )
    expect([expanded.customer.object, expanded.plan.object, expanded.latest_charge.object]).toEqual([
      "customer",
      "plan",
      "charge",
    ])
    expect(refusal(await api.get(`/subscriptions/${one.id}?expand[]=metadata`))).toEqual([
      400,
      "parameter_invalid",
      "expand[]",
    ])
  })
})
