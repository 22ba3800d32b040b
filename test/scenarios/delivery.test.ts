import { describe, expect, it } from "vitest"
import { useInstance } from "../support/instance.ts"
import { advance, charges, data, refusal, subscribe, timeline } from "../support/story.ts"
import { useWhole } from "../support/whole.ts"

const { api, database } = useInstance()
useWhole(database)

const DIESEL = { billing_cycle: "per_delivery", amount: 300_000, overage_per_unit: 77 }
const report = (id: string, body: object, headers: Readonly<Record<string, string>> = {}) =>
  api.post(`/subscriptions/${id}/unit-records`, body, headers)
const get = async (id: string) => data(await api.get(`/subscriptions/${id}`))

describe("a plan that is billed by deliveries (decision D8)", () => {
  it("charges one price for each reported delivery, at any time", async () => {
    const { clock, id, created } = await subscribe(api, "2025-01-31T00:00:00Z", "pm_test_success", DIESEL, {
      quantity: 2,
    })
    expect(created).toMatchObject({
      status: "active",
      current_period_start: "2025-01-31T00:00:00.000Z",
      current_period_end: "2025-02-28T00:00:00.000Z",
      next_charge_at: null,
    })
    await advance(api, clock, "2025-02-10T12:00:00Z")
    expect(
      data(await report(id, { quantity: 1, timestamp: "2025-02-09T08:00:00Z", description: "Tank 4" }), 201),
    ).toMatchObject({
      subscription: id,
      action: "increment",
      quantity: 1,
      period_total: 1,
      timestamp: "2025-02-09T08:00:00.000Z",
      description: "Tank 4",
    })
    expect(await get(id)).toMatchObject({
      current_period_start: "2025-02-09T08:00:00.000Z",
      current_period_end: "2025-03-09T08:00:00.000Z",
      next_charge_at: null,
    })
    // No calendar: nothing is due, also past the informational horizon.
    await advance(api, clock, "2025-06-01T00:00:00Z")
    data(await report(id, { quantity: 3 }), 201)
    expect(await charges(api, id)).toEqual([
      "2025-01-31T00:00 600000 succeeded #1",
      "2025-02-10T12:00 600000 succeeded #1",
      "2025-06-01T00:00 1800000 succeeded #1",
    ])
    const [{ lines }] = await api.all(`/charges?subscription=${id}`)
    expect(lines).toEqual([
      { type: "plan", description: "Deliveries", quantity: 6, unit_amount: 300_000, amount: 1_800_000 },
    ])
    expect((await timeline(api, [id])).slice(2)).toEqual([
      "2025-02-10T12:00 charge.succeeded succeeded",
      "2025-02-10T12:00 subscription.renewed active",
      "2025-06-01T00:00 charge.succeeded succeeded",
      "2025-06-01T00:00 subscription.renewed active",
    ])
  })

  it("accepts no report while a charge for deliveries is unpaid, and continues after it is paid", async () => {
    const { clock, id } = await subscribe(api, "2025-01-01T00:00:00Z", "pm_test_success", DIESEL)
    data(await api.patch(`/subscriptions/${id}`, { payment_method: "pm_test_bank_account" }))
    await advance(api, clock, "2025-01-05T00:00:00Z")
    data(await report(id, { quantity: 1 }), 201)
    expect(refusal(await report(id, { quantity: 1 }))).toEqual([422, "subscription_unpaid", null])
    await advance(api, clock, "2025-01-06T00:00:00Z")
    expect((await get(id)).current_period_start).toBe("2025-01-05T00:00:00.000Z")
    data(await api.patch(`/subscriptions/${id}`, { payment_method: "pm_test_succeeds_on_attempt_2" }))
    data(await report(id, { quantity: 2 }), 201)
    expect(await get(id)).toMatchObject({ status: "past_due", next_charge_at: "2025-01-07T00:00:00.000Z" })
    expect(refusal(await report(id, { quantity: 1 }))).toEqual([422, "subscription_unpaid", null])
    await advance(api, clock, "2025-01-08T00:00:00Z")
    expect(await get(id)).toMatchObject({
      status: "active",
      current_period_start: "2025-01-06T00:00:00.000Z",
    })
    expect((await timeline(api, [id])).slice(3)).toEqual([
      "2025-01-05T01:00 charge.succeeded succeeded",
      "2025-01-05T01:00 subscription.renewed active",
      "2025-01-06T00:00 subscription.updated active",
      "2025-01-06T00:00 charge.failed failed",
      "2025-01-06T00:00 subscription.past_due past_due",
      "2025-01-06T00:00 charge.retry_scheduled failed",
      "2025-01-07T00:00 charge.succeeded succeeded",
      "2025-01-07T00:00 subscription.recovered active",
    ])
  })

  it("refuses invalid reports of deliveries", async () => {
    const { clock, id } = await subscribe(api, "2025-01-01T00:00:00Z", "pm_test_success", {
      ...DIESEL,
      pause_enabled: true,
    })
    await advance(api, clock, "2025-01-05T00:00:00Z")
    expect(refusal(await report(id, { quantity: 1, action: "set" }))).toEqual([
      422,
      "subscription_state_invalid",
      "action",
    ])
    expect(refusal(await report(id, { quantity: 1, timestamp: "2024-12-31T23:59:59Z" }))).toEqual([
      422,
      "timestamp_out_of_period",
      "timestamp",
    ])
    expect(refusal(await report(id, { quantity: 1, timestamp: "2025-01-05T00:00:01Z" }))).toEqual([
      400,
      "parameter_invalid",
      "timestamp",
    ])
    expect(refusal(await report(id, { quantity: 400_000 }))).toEqual([400, "parameter_invalid", "quantity"])
    // No delivery is no charge.
    expect(data(await report(id, { quantity: 0 }), 201)).toMatchObject({ period_total: 0 })
    expect(await charges(api, id)).toHaveLength(1)
    data(await api.post(`/subscriptions/${id}/pause`))
    expect(refusal(await report(id, { quantity: 1 }))).toEqual([422, "subscription_state_invalid", null])
    // A paid delivery is still due, so resuming costs nothing (E24).
    data(await api.post(`/subscriptions/${id}/resume`))
    expect(await charges(api, id)).toHaveLength(1)
  })

  it("is not charged for a paused time, also on a plan that does not prorate", async () => {
    const plan = { ...DIESEL, pause_enabled: true, pro_rate: false }
    const { clock, id } = await subscribe(api, "2025-01-01T00:00:00Z", "pm_test_success", plan)
    await advance(api, clock, "2025-01-05T00:00:00Z")
    const paused = data(await api.post(`/subscriptions/${id}/pause`, { resumes_at: "2025-01-09T00:00:00Z" }))
    expect(paused).toMatchObject({ status: "paused", next_charge_at: null })
    await advance(api, clock, "2025-01-10T00:00:00Z")
    expect(await get(id)).toMatchObject({ status: "active", next_charge_at: null })
    expect(await charges(api, id)).toEqual(["2025-01-01T00:00 300000 succeeded #1"])
  })

  it("is free during a trial, whose end charges for the first delivery", async () => {
    const { clock, id } = await subscribe(api, "2025-01-01T00:00:00Z", "pm_test_success", { ...DIESEL, trial_days: 5 })
    // As many as would cost too much later.
    data(await report(id, { quantity: 1_000_000_000 }), 201)
    await advance(api, clock, "2025-02-20T00:00:00Z")
    expect(await charges(api, id)).toEqual(["2025-01-06T00:00 300000 succeeded #1"])
    data(await report(id, { quantity: 1 }), 201)
    expect(await charges(api, id)).toHaveLength(2)
  })

  it("is cancelled at period end with the next report, or at the horizon", async () => {
    const reported = await subscribe(api, "2025-01-01T00:00:00Z", "pm_test_success", DIESEL)
    data(await api.post(`/subscriptions/${reported.id}/cancel`, { at_period_end: true }))
    await advance(api, reported.clock, "2025-01-20T00:00:00Z")
    data(await report(reported.id, { quantity: 1 }), 201)
    expect((await timeline(api, [reported.id])).at(-1)).toBe("2025-01-20T00:00 subscription.cancelled cancelled")
    expect(await charges(api, reported.id)).toHaveLength(1)

    const silent = await subscribe(api, "2025-01-01T00:00:00Z", "pm_test_success", DIESEL)
    data(await api.post(`/subscriptions/${silent.id}/cancel`, { at_period_end: true }))
    await advance(api, silent.clock, "2025-03-01T00:00:00Z")
    expect((await timeline(api, [silent.id])).at(-1)).toBe("2025-02-01T00:00 subscription.cancelled cancelled")

    const late = await subscribe(api, "2025-01-01T00:00:00Z", "pm_test_success", DIESEL)
    await advance(api, late.clock, "2025-03-01T00:00:00Z")
    expect(data(await api.post(`/subscriptions/${late.id}/cancel`, { at_period_end: true })).status).toBe("cancelled")
  })

  it("charges a report once, for any number of copies with any quantity", async () => {
    const { id } = await subscribe(api, "2025-01-01T00:00:00Z", "pm_test_success", DIESEL)
    const key = { "idempotency-key": `delivery-${id}` }
    const first = await report(id, { quantity: 1 }, key)
    expect(await report(id, { quantity: 1 }, key)).toMatchObject({ status: 201, body: first.body })
    const parallel = await Promise.all(Array.from({ length: 10 }, () => report(id, { quantity: 1 })))
    const accepted = parallel.filter(({ status }) => status === 201).length
    for (const answer of parallel.filter(({ status }) => status !== 201))
      expect(refusal(answer)).toEqual([422, "subscription_unpaid", null])
    // The first delivery, the repeated one, and the accepted ones: each paid once.
    expect(await charges(api, id)).toHaveLength(2 + accepted)
  })
})
