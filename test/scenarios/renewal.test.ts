import { describe, expect, it } from "vitest"
import { useInstance } from "../support/instance.ts"
import * as story from "../support/story.ts"
import { advance, createClock, createCustomer, createPlan, data, timeline } from "../support/story.ts"
import { useWhole } from "../support/whole.ts"

const { api, database } = useInstance()
useWhole(database)

const subscribe = (at: string, method: string, plan: object = {}, subscription: object = {}) =>
  story.subscribe(api, at, method, plan, subscription)

describe("a subscription's life", () => {
  it("renews automatically", async () => {
    const { clock, id } = await subscribe("2025-01-10T09:30:00Z", "pm_test_success")
    await advance(api, clock, "2025-03-11T00:00:00Z")
    expect(await timeline(api, [id])).toEqual([
      "2025-01-10T09:30 subscription.created active",
      "2025-01-10T09:30 charge.succeeded succeeded",
      "2025-02-10T09:30 charge.succeeded succeeded",
      "2025-02-10T09:30 subscription.renewed active",
      "2025-03-10T09:30 charge.succeeded succeeded",
      "2025-03-10T09:30 subscription.renewed active",
    ])
    const charges = await api.all(`/charges?subscription=${id}`)
    expect(charges.map(({ amount, attempt_number, paid_at }) => [amount, attempt_number, paid_at])).toEqual([
      [500_000, 1, "2025-03-10T09:30:00.000Z"],
      [500_000, 1, "2025-02-10T09:30:00.000Z"],
      [500_000, 1, "2025-01-10T09:30:00.000Z"],
    ])
    const [renewed] = (await api.get("/events?type=subscription.renewed&limit=1")).body.data
    expect(renewed.data.previous_attributes).toEqual({
      latest_charge: charges[1].id,
      current_period_start: "2025-02-10T09:30:00.000Z",
      current_period_end: "2025-03-10T09:30:00.000Z",
      next_charge_at: "2025-03-10T09:30:00.000Z",
    })
    expect(renewed.data.object).toEqual(data(await api.get(`/subscriptions/${id}`)))
  })

  it("is retried on days 1, 4 and 11, escalated, and cancelled on day 30", async () => {
    const { clock, id } = await subscribe("2025-01-31T00:00:00Z", "pm_test_success_then_insufficient_funds")
    await advance(api, clock, "2025-03-12T00:00:00Z")
    const paused = data(await api.get(`/subscriptions/${id}`))
    expect(paused).toMatchObject({
      status: "paused",
      next_charge_at: null,
      paused_at: "2025-03-11T00:00:00.000Z",
      retry: { attempt: 3, max_attempts: 3, next_retry_at: null },
      escalation: { action: "pause", triggered_at: "2025-03-11T00:00:00.000Z" },
    })
    await advance(api, clock, "2025-04-30T00:00:00Z")
    expect(await timeline(api, [id])).toEqual([
      "2025-01-31T00:00 subscription.created active",
      "2025-01-31T00:00 charge.succeeded succeeded",
      "2025-02-28T00:00 charge.failed failed",
      "2025-02-28T00:00 subscription.past_due past_due",
      "2025-02-28T00:00 charge.retry_scheduled failed",
      "2025-03-01T00:00 charge.failed failed",
      "2025-03-01T00:00 charge.retry_scheduled failed",
      "2025-03-04T00:00 charge.failed failed",
      "2025-03-04T00:00 charge.retry_scheduled failed",
      "2025-03-11T00:00 charge.failed failed",
      "2025-03-11T00:00 subscription.escalated paused",
      "2025-03-11T00:00 subscription.paused paused",
      "2025-03-30T00:00 subscription.cancelled cancelled",
    ])
    const cancelled = data(await api.get(`/subscriptions/${id}`))
    expect(cancelled).toMatchObject({
      status: "cancelled",
      cancellation_reason: "nonpayment",
      cancelled_at: "2025-03-30T00:00:00.000Z",
      retry: null,
    })
    const charges = await api.all(`/charges?subscription=${id}&status=failed`)
    expect(
      charges.map(({ attempt_number, will_retry, next_retry_at, failure_code }) => [
        attempt_number,
        will_retry,
        next_retry_at,
        failure_code,
      ]),
    ).toEqual([
      [4, false, null, "insufficient_funds"],
      [3, true, "2025-03-11T00:00:00.000Z", "insufficient_funds"],
      [2, true, "2025-03-04T00:00:00.000Z", "insufficient_funds"],
      [1, true, "2025-03-01T00:00:00.000Z", "insufficient_funds"],
    ])
  })

  it.each([
    ["restrict_access", "restrict"],
    ["hold_delivery", "hold"],
    ["none", "none"],
  ])("stays past_due after %s", async (escalation_on_failure, action) => {
    const { clock, id } = await subscribe("2025-01-31T00:00:00Z", "pm_test_success_then_do_not_honor", {
      retry_logic: {
        max_attempts: 1,
        retry_intervals_days: [2],
        escalation_on_failure,
        cancel_after_days_unpaid: null,
      },
    })
    await advance(api, clock, "2025-12-31T00:00:00Z")
    expect(data(await api.get(`/subscriptions/${id}`))).toMatchObject({
      status: "past_due",
      escalation: { action, triggered_at: "2025-03-02T00:00:00.000Z" },
    })
    expect((await timeline(api, [id])).slice(5)).toEqual([
      "2025-03-02T00:00 charge.failed failed",
      ...(action === "none" ? [] : ["2025-03-02T00:00 subscription.escalated past_due"]),
    ])
  })

  it("recovers on attempt 3 without drifting", async () => {
    const { clock, customer, id } = await subscribe("2025-01-31T00:00:00Z", "pm_test_success")
    // Its own method fails until the third attempt at a bill.
    await database.run(
      (sql) => sql`
      INSERT INTO payment_method (account_id, livemode, id, customer_id, type, created_at)
      SELECT account_id, livemode, 'pm_test_succeeds_on_attempt_3', id, 'card', created_at FROM customer WHERE id = ${customer}`,
    )
    await database.run(
      (sql) => sql`UPDATE subscription SET payment_method_id = 'pm_test_succeeds_on_attempt_3' WHERE id = ${id}`,
    )
    await advance(api, clock, "2025-03-31T00:00:00Z")
    expect((await timeline(api, [id])).slice(2)).toEqual([
      "2025-02-28T00:00 charge.failed failed",
      "2025-02-28T00:00 subscription.past_due past_due",
      "2025-02-28T00:00 charge.retry_scheduled failed",
      "2025-03-01T00:00 charge.failed failed",
      "2025-03-01T00:00 charge.retry_scheduled failed",
      "2025-03-04T00:00 charge.succeeded succeeded",
      "2025-03-04T00:00 subscription.recovered active",
      "2025-03-31T00:00 charge.failed failed",
      "2025-03-31T00:00 subscription.past_due past_due",
      "2025-03-31T00:00 charge.retry_scheduled failed",
    ])
    const recovered = (await api.get("/events?type=subscription.recovered&limit=1")).body.data[0].data.object
    expect(recovered).toMatchObject({
      current_period_start: "2025-02-28T00:00:00.000Z",
      current_period_end: "2025-03-31T00:00:00.000Z",
      next_charge_at: "2025-03-31T00:00:00.000Z",
      retry: null,
      escalation: null,
    })
  })

  it("keeps the 31st through 14 months, a leap year included", async () => {
    const { clock, id } = await subscribe("2023-01-31T12:00:00Z", "pm_test_success")
    await advance(api, clock, "2024-01-31T12:00:00Z")
    await advance(api, clock, "2024-03-31T12:00:00Z")
    const renewals = (await timeline(api, [id]))
      .filter((line) => line.includes("renewed"))
      .map((line) => line.slice(0, 16))
    expect(renewals).toEqual(
      ["02-28", "03-31", "04-30", "05-31", "06-30", "07-31", "08-31", "09-30", "10-31", "11-30", "12-31"]
        .map((day) => `2023-${day}T12:00`)
        .concat(["2024-01-31T12:00", "2024-02-29T12:00", "2024-03-31T12:00"]),
    )
  })

  it("charges after the trial, and announces the end 3 days before", async () => {
    const { clock, id, created } = await subscribe("2025-05-01T00:00:00Z", "pm_test_success", { trial_days: 14 })
    expect(created).toMatchObject({
      status: "trialing",
      trial_end: "2025-05-15T00:00:00.000Z",
      next_charge_at: "2025-05-15T00:00:00.000Z",
      latest_charge: null,
    })
    await advance(api, clock, "2025-06-16T00:00:00Z")
    expect(await timeline(api, [id])).toEqual([
      "2025-05-01T00:00 subscription.created trialing",
      "2025-05-12T00:00 subscription.trial_will_end trialing",
      "2025-05-15T00:00 charge.succeeded succeeded",
      "2025-05-15T00:00 subscription.updated active",
      "2025-06-15T00:00 charge.succeeded succeeded",
      "2025-06-15T00:00 subscription.renewed active",
    ])
  })

  it("becomes past_due if the payment after the trial fails", async () => {
    const { clock, id } = await subscribe("2025-05-01T00:00:00Z", "pm_test_expired_card", {}, { trial_days: 2 })
    await advance(api, clock, "2025-05-04T00:00:00Z")
    expect(await timeline(api, [id])).toEqual([
      "2025-05-01T00:00 subscription.created trialing",
      "2025-05-01T00:00 subscription.trial_will_end trialing",
      "2025-05-03T00:00 charge.failed failed",
      "2025-05-03T00:00 subscription.past_due past_due",
    ])
    expect(data(await api.get(`/subscriptions/${id}`)).retry).toEqual({
      attempt: 0,
      max_attempts: 3,
      next_retry_at: null,
    })
  })

  it("starts later if start_at says so", async () => {
    const { clock, id, created } = await subscribe(
      "2025-05-01T00:00:00Z",
      "pm_test_success",
      {},
      { start_at: "2025-05-31T10:00:00Z" },
    )
    expect(created).toMatchObject({ status: "incomplete", next_charge_at: "2025-05-31T10:00:00.000Z" })
    await advance(api, clock, "2025-07-01T00:00:00Z")
    expect(await timeline(api, [id])).toEqual([
      "2025-05-01T00:00 subscription.created incomplete",
      "2025-05-31T10:00 charge.succeeded succeeded",
      "2025-05-31T10:00 subscription.updated active",
      "2025-06-30T10:00 charge.succeeded succeeded",
      "2025-06-30T10:00 subscription.renewed active",
    ])
  })

  it("ends immediately if the first payment is declined", async () => {
    const { id, created } = await subscribe("2025-05-01T00:00:00Z", "pm_test_do_not_honor")
    expect(created).toMatchObject({ status: "cancelled", cancellation_reason: "nonpayment" })
    expect((await timeline(api, [id])).map((line) => line.split(" ")[1])).toEqual([
      "subscription.created",
      "charge.failed",
      "subscription.cancelled",
    ])
  })

  it.each([
    ["pm_test_pending_then_success", "2025-05-01T01:00", "active"],
    ["pm_test_ussd", "2025-05-01T00:10", "active"],
    ["pm_test_timeout_then_success", "2025-05-01T00:00:10", "active"],
    ["pm_test_ussd_timeout", "2025-05-01T00:30", "cancelled"],
    ["pm_test_timeout_not_found", "2025-05-01T01:00", "cancelled"],
  ])("waits for %s", async (method, settledAt, status) => {
    const { clock, id, created } = await subscribe("2025-05-01T00:00:00Z", method)
    expect(created.status).toBe("incomplete")
    await advance(api, clock, "2025-05-02T00:00:00Z")
    const [settled] = (await timeline(api, [id])).filter((line) => line.includes("charge."))
    expect(settled).toBe(`${settledAt} ${status === "active" ? "charge.succeeded succeeded" : "charge.failed failed"}`)
    expect(data(await api.get(`/subscriptions/${id}`))).toMatchObject({
      status,
      current_period_start: "2025-05-01T00:00:00.000Z",
    })
  })
})

describe("cancelling", () => {
  it("at period end changes nothing until then, and can be undone", async () => {
    const { clock, id } = await subscribe("2025-01-10T00:00:00Z", "pm_test_success")
    const cancel = () => api.post(`/subscriptions/${id}/cancel`, { at_period_end: true, reason: "customer_request" })
    expect(data(await cancel())).toMatchObject({
      status: "active",
      cancel_at_period_end: true,
      next_charge_at: null,
      cancellation_reason: null,
    })
    expect(data(await cancel())).toMatchObject({ cancel_at_period_end: true })
    expect(data(await api.patch(`/subscriptions/${id}`, { cancel_at_period_end: false }))).toMatchObject({
      cancel_at_period_end: false,
      next_charge_at: "2025-02-10T00:00:00.000Z",
    })
    data(await cancel())
    await advance(api, clock, "2025-04-01T00:00:00Z")
    expect((await timeline(api, [id])).slice(2)).toEqual([
      "2025-01-10T00:00 subscription.updated active",
      "2025-01-10T00:00 subscription.updated active",
      "2025-01-10T00:00 subscription.updated active",
      "2025-02-10T00:00 subscription.cancelled cancelled",
    ])
    expect(data(await api.get(`/subscriptions/${id}`)).cancellation_reason).toBe("customer_request")
  })

  it("now is final", async () => {
    const { clock, id } = await subscribe("2025-01-10T00:00:00Z", "pm_test_success")
    expect(data(await api.post(`/subscriptions/${id}/cancel`))).toMatchObject({
      status: "cancelled",
      cancellation_reason: "merchant_request",
    })
    for (const answer of [
      await api.post(`/subscriptions/${id}/cancel`),
      await api.patch(`/subscriptions/${id}`, { cancel_at_period_end: false }),
    ]) {
      expect(answer.status).toBe(422)
      expect(answer.body.error).toMatchObject({ type: "state_error", code: "subscription_state_invalid" })
    }
    await advance(api, clock, "2025-12-01T00:00:00Z")
    expect((await timeline(api, [id])).length).toBe(3)
  })

  it("during a payment owes that payment back", async () => {
    const { clock, id } = await subscribe("2025-01-10T00:00:00Z", "pm_test_bank_account")
    data(await api.post(`/subscriptions/${id}/cancel`))
    await advance(api, clock, "2025-01-11T00:00:00Z")
    const [charge] = await api.all(`/charges?subscription=${id}`)
    expect(charge).toMatchObject({ status: "succeeded", refund_due: true })
    const entries = await database.run(
      (sql) => sql<{ event: string; ledger_account: string; amount_kobo: number }>`
      SELECT e.event, l.ledger_account, l.amount_kobo FROM ledger_entry e JOIN ledger_line l ON l.entry_id = e.id WHERE e.subscription_id = ${id} ORDER BY l.line_no`,
    )
    expect(entries).toEqual([
      { event: "refund_due", ledger_account: "clearing", amount_kobo: 500_000 },
      { event: "refund_due", ledger_account: "refunds_payable", amount_kobo: -500_000 },
    ])
  })
})

describe("reported units", () => {
  const report = (id: string, body: object) => api.post(`/subscriptions/${id}/unit-records`, body)

  it("are billed once, with the renewal that closes their period", async () => {
    const plan = { overage_per_unit: 1_000 }
    const { clock, id } = await subscribe("2025-01-31T00:00:00Z", "pm_test_success", plan)
    expect(data(await report(id, { quantity: 10 }), 201)).toMatchObject({
      object: "unit_record",
      action: "increment",
      period_total: 10,
      timestamp: "2025-01-31T00:00:00.000Z",
    })
    await advance(api, clock, "2025-02-10T00:00:00Z")
    expect(
      data(await report(id, { quantity: 5, timestamp: "2025-02-01T00:00:00Z", description: "litres" }), 201),
    ).toMatchObject({ period_total: 15, description: "litres" })
    expect(data(await report(id, { quantity: 12, action: "set" }), 201)).toMatchObject({ period_total: 12 })
    await advance(api, clock, "2025-04-01T00:00:00Z")
    const charges = await api.all(`/charges?subscription=${id}`)
    expect(
      charges.map(({ amount, lines }) => [
        amount,
        lines.map(({ type, quantity, unit_amount, amount }: Record<string, number>) => [
          type,
          quantity,
          unit_amount,
          amount,
        ]),
      ]),
    ).toEqual([
      [500_000, [["plan", 1, 500_000, 500_000]]],
      [
        512_000,
        [
          ["plan", 1, 500_000, 500_000],
          ["overage", 12, 1_000, 12_000],
        ],
      ],
      [500_000, [["plan", 1, 500_000, 500_000]]],
    ])
    const [usage] = await database.run(
      (sql) => sql<{ kobo: number }>`
      SELECT sum(l.amount_kobo)::bigint AS kobo FROM ledger_entry e JOIN ledger_line l ON l.entry_id = e.id WHERE e.subscription_id = ${id} AND l.ledger_account = 'usage_revenue'`,
    )
    expect(usage!.kobo).toBe(-12_000)
  })

  it("in a trial are free, and during an overdue bill belong to the next", async () => {
    const { clock, id } = await subscribe("2025-01-01T00:00:00Z", "pm_test_succeeds_on_attempt_2", {
      overage_per_unit: 500,
      trial_days: 7,
    })
    data(await report(id, { quantity: 100 }), 201)
    await advance(api, clock, "2025-01-08T00:00:00Z")
    expect(data(await api.get(`/subscriptions/${id}`)).status).toBe("past_due")
    expect(data(await report(id, { quantity: 4 }), 201)).toMatchObject({ period_total: 4 })
    await advance(api, clock, "2025-02-10T00:00:00Z")
    const paid = await api.all(`/charges?subscription=${id}&status=succeeded`)
    expect(paid.map(({ amount }) => amount)).toEqual([502_000, 500_000])
  })

  it("in a trial are free to its last moment, also while its payment is in progress", async () => {
    const { clock, id } = await subscribe("2025-01-01T00:00:00Z", "pm_test_bank_account", {
      overage_per_unit: 500,
      trial_days: 7,
    })
    await advance(api, clock, "2025-01-08T00:30:00Z")
    data(await report(id, { quantity: 7, timestamp: "2025-01-07T00:00:00Z" }), 201)
    await advance(api, clock, "2025-02-10T00:00:00Z")
    expect((await api.all(`/charges?subscription=${id}`)).map(({ amount }) => amount)).toEqual([500_000, 500_000])
  })

  it("are refused outside their period, and for a subscription that has ended", async () => {
    const { clock, id } = await subscribe("2025-01-31T00:00:00Z", "pm_test_success", { overage_per_unit: 1_000 })
    await advance(api, clock, "2025-03-01T00:00:00Z")
    const refusal = async (body: object) => {
      const { status, body: answer } = await report(id, body)
      return [status, answer.error.code, answer.error.param]
    }
    expect(await refusal({ quantity: 1, timestamp: "2025-02-27T00:00:00Z" })).toEqual([
      422,
      "timestamp_out_of_period",
      "timestamp",
    ])
    expect(await refusal({ quantity: 1, timestamp: "2025-03-01T00:00:01Z" })).toEqual([
      400,
      "parameter_invalid",
      "timestamp",
    ])
    expect(await refusal({ quantity: -1 })).toEqual([400, "parameter_invalid", "quantity"])
    expect(await refusal({})).toEqual([400, "parameter_missing", "quantity"])
    expect(await refusal({ quantity: 1_000_000_000 })).toEqual([400, "parameter_invalid", "quantity"])
    data(await api.post(`/subscriptions/${id}/cancel`))
    expect(await refusal({ quantity: 1 })).toEqual([422, "subscription_state_invalid", null])
  })

  it("stay within the maximum charge, though their price was raised after they were reported", async () => {
    const plan = await createPlan(api)
    const clock = await createClock(api, "2025-01-31T00:00:00Z")
    const customer = await createCustomer(api, { test_clock: clock })
    const { id } = data(await api.post("/subscriptions", { customer, plan, payment_method: "pm_test_success" }), 201)
    data(await report(id, { quantity: 1_000_000_000 }), 201)
    data(await api.patch(`/plans/${plan}`, { overage_per_unit: 1_000 }))
    await advance(api, clock, "2025-03-01T00:00:00Z")
    expect((await api.all(`/charges?subscription=${id}`))[0]).toMatchObject({
      amount: 99_999_999_999,
      status: "succeeded",
    })
  })

  it("reported by concurrent requests are all counted", async () => {
    const { clock, id } = await subscribe("2025-01-31T00:00:00Z", "pm_test_success", { overage_per_unit: 1_000 })
    const answers = await Promise.all(Array.from({ length: 30 }, () => report(id, { quantity: 2 })))
    const totals = answers.map((answer) => data(answer, 201).period_total as number).sort((a, b) => a - b)
    expect(totals).toEqual(Array.from({ length: 30 }, (_, n) => 2 * (n + 1)))
    await advance(api, clock, "2025-03-01T00:00:00Z")
    expect((await api.all(`/charges?subscription=${id}`))[0].amount).toBe(560_000)
  })
})

describe("a clock with many customers", () => {
  it("fires every timer in order of its instant, and of creation within one", async () => {
    const clock = await createClock(api, "2025-01-01T00:00:00Z")
    const plan = await createPlan(api, { billing_cycle: "daily" })
    const ids: Array<string> = []
    for (let n = 0; n < 4; n++) {
      const customer = await createCustomer(api, { test_clock: clock })
      ids.push(data(await api.post("/subscriptions", { customer, plan, payment_method: "pm_test_success" }), 201).id)
    }
    await advance(api, clock, "2025-01-03T00:00:00Z")
    const events = (await api.all("/events?type=subscription.renewed"))
      .filter(({ data: { object } }) => ids.includes(object.id))
      .reverse()
    expect(events.map(({ created_at, data: { object } }) => [created_at, object.id])).toEqual(
      ["2025-01-02T00:00:00.000Z", "2025-01-03T00:00:00.000Z"].flatMap((at) => ids.map((id) => [at, id])),
    )
  })
})
