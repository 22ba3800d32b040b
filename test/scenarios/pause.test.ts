import { describe, expect, it } from "vitest"
import { useInstance } from "../support/instance.ts"
import { advance, charges, data, refusal, subscribe, timeline } from "../support/story.ts"
import { useWhole } from "../support/whole.ts"

const { api, database } = useInstance()
useWhole(database)

const PAUSABLE = { pause_enabled: true }
const pause = (id: string, body: object = {}) => api.post(`/subscriptions/${id}/pause`, body)
const resume = (id: string) => api.post(`/subscriptions/${id}/resume`)
const get = async (id: string) => data(await api.get(`/subscriptions/${id}`))

/** The movements of the entries about this subscription: event, account and kobo. */
const entries = (id: string, event: string) =>
  database.run(
    (sql) => sql<{ ledger_account: string; amount_kobo: number }>`
      SELECT l.ledger_account, l.amount_kobo FROM ledger_entry e
      JOIN ledger_line l ON (l.account_id, l.livemode, l.entry_id) = (e.account_id, e.livemode, e.id)
      WHERE e.subscription_id = ${id} AND e.event = ${event} ORDER BY e.id, l.line_no`,
  )

describe("pausing (decision E10)", () => {
  it("charges nothing until resumed; then a new period starts, less the unused credit (E11)", async () => {
    const { clock, id } = await subscribe(api, "2025-01-01T00:00:00Z", "pm_test_success", PAUSABLE)
    await advance(api, clock, "2025-01-11T00:00:00Z")
    expect(data(await pause(id, { reason: "Harmattan holiday" }))).toMatchObject({
      status: "paused",
      paused_at: "2025-01-11T00:00:00.000Z",
      resumes_at: null,
      next_charge_at: null,
      current_period_end: "2025-02-01T00:00:00.000Z",
      escalation: null,
    })
    await advance(api, clock, "2025-04-20T12:00:00Z")
    expect(await charges(api, id)).toEqual(["2025-01-01T00:00 500000 succeeded #1"])
    const resumed = data(await resume(id))
    expect(resumed).toMatchObject({
      status: "active",
      paused_at: null,
      current_period_start: "2025-04-20T12:00:00.000Z",
      current_period_end: "2025-05-20T12:00:00.000Z",
      next_charge_at: "2025-05-20T12:00:00.000Z",
    })
    // 21 of 31 days were unused: 338709.68 of 500000.
    const first = data(await api.get(`/charges/${resumed.latest_charge}`))
    expect(first.lines).toEqual([
      { type: "plan", description: "Plan", quantity: 1, unit_amount: 500_000, amount: 500_000 },
      {
        type: "proration",
        description: "Unused time before the pause",
        quantity: 1,
        unit_amount: -338_710,
        amount: -338_710,
      },
    ])
    expect(first.amount).toBe(161_290)
    await advance(api, clock, "2025-05-21T00:00:00Z")
    expect(await timeline(api, [id])).toEqual([
      "2025-01-01T00:00 subscription.created active",
      "2025-01-01T00:00 charge.succeeded succeeded",
      "2025-01-11T00:00 subscription.paused paused",
      "2025-04-20T12:00 subscription.resumed active",
      "2025-04-20T12:00 charge.succeeded succeeded",
      "2025-05-20T12:00 charge.succeeded succeeded",
      "2025-05-20T12:00 subscription.renewed active",
    ])
    expect(await entries(id, "paid")).toEqual(
      [500_000, 161_290, 500_000].flatMap((kobo) => [
        { ledger_account: "clearing", amount_kobo: kobo },
        { ledger_account: "deferred_revenue", amount_kobo: -kobo },
      ]),
    )
  })

  it("ends automatically at resumes_at, at that instant", async () => {
    const { clock, id } = await subscribe(api, "2025-01-31T08:00:00Z", "pm_test_success", {
      ...PAUSABLE,
      billing_cycle: "weekly",
      amount: 70_001,
    })
    const paused = data(await pause(id, { resumes_at: "2025-02-05T09:30:00Z" }))
    expect(paused).toMatchObject({
      resumes_at: "2025-02-05T09:30:00.000Z",
      next_charge_at: "2025-02-05T09:30:00.000Z",
    })
    await advance(api, clock, "2025-02-13T00:00:00Z")
    // Nothing of the first week was used: the whole is credited, and the total of 0 makes no charge (E2).
    expect(await timeline(api, [id])).toEqual([
      "2025-01-31T08:00 subscription.created active",
      "2025-01-31T08:00 charge.succeeded succeeded",
      "2025-01-31T08:00 subscription.paused paused",
      "2025-02-05T09:30 subscription.resumed active",
      "2025-02-12T09:30 charge.succeeded succeeded",
      "2025-02-12T09:30 subscription.renewed active",
    ])
    expect(await entries(id, "waived")).toEqual([])
  })

  it("waives a first charge under 100 kobo, and shows it in the books (E2)", async () => {
    // 99.99 % unused: 1 of 10000 parts of a week is 60.48 s.
    const { clock, id } = await subscribe(api, "2025-01-06T00:00:00.000Z", "pm_test_success", {
      ...PAUSABLE,
      billing_cycle: "weekly",
      amount: 990_000,
    })
    await advance(api, clock, "2025-01-06T00:01:00.480Z")
    data(await pause(id))
    expect(data(await resume(id)).status).toBe("active")
    expect(await charges(api, id)).toHaveLength(1)
    expect(await entries(id, "waived")).toEqual([
      { ledger_account: "waived", amount_kobo: 99 },
      { ledger_account: "deferred_revenue", amount_kobo: -99 },
    ])
    expect((await timeline(api, [id])).slice(-2).map((line) => line.split(" ")[1])).toEqual([
      "subscription.paused",
      "subscription.resumed",
    ])
  })

  it("credits nothing on a plan that does not prorate at the time of resuming (C3)", async () => {
    const { clock, id, plan } = await subscribe(api, "2025-01-01T00:00:00Z", "pm_test_success", PAUSABLE)
    await advance(api, clock, "2025-01-02T00:00:00Z")
    data(await pause(id))
    data(await api.patch(`/plans/${plan}`, { pro_rate: false }))
    data(await resume(id))
    expect((await charges(api, id)).at(-1)).toBe("2025-01-02T00:00 500000 succeeded #1")
  })

  it("bills the units of the interrupted period on resuming, and credits those that were prepaid", async () => {
    const { clock, id } = await subscribe(
      api,
      "2025-01-01T00:00:00Z",
      "pm_test_success",
      { ...PAUSABLE, overage_per_unit: 1_000 },
      { quantity: 2 },
    )
    await advance(api, clock, "2025-01-16T12:00:00Z")
    data(await api.post(`/subscriptions/${id}/unit-records`, { quantity: 7 }), 201)
    data(await pause(id))
    expect(refusal(await api.post(`/subscriptions/${id}/unit-records`, { quantity: 1 }))).toEqual([
      422,
      "subscription_state_invalid",
      null,
    ])
    // Three from the next bill on. Two were paid, and half of that is unused.
    data(await api.patch(`/subscriptions/${id}`, { quantity: 3 }))
    await advance(api, clock, "2025-03-01T00:00:00Z")
    const { latest_charge } = data(await resume(id))
    const { amount, lines } = data(await api.get(`/charges/${latest_charge}`))
    expect(lines.map(({ type, amount }: { type: string; amount: number }) => [type, amount])).toEqual([
      ["plan", 1_500_000],
      ["proration", -500_000],
      ["overage", 7_000],
    ])
    expect(amount).toBe(1_007_000)
    await advance(api, clock, "2025-04-02T00:00:00Z")
    expect((await charges(api, id)).at(-1)).toBe("2025-04-01T00:00 1500000 succeeded #1")
  })

  it("becomes past_due if the first charge after it is declined, and recovers into the period of the resumption", async () => {
    const { clock, customer, id } = await subscribe(api, "2025-01-01T00:00:00Z", "pm_test_success", PAUSABLE)
    data(await pause(id))
    data(await api.patch(`/subscriptions/${id}`, { payment_method: "pm_test_insufficient_funds" }))
    await advance(api, clock, "2025-01-10T00:00:00Z")
    data(await api.patch(`/plans/${(await get(id)).plan}`, { pro_rate: false }))
    expect(data(await resume(id))).toMatchObject({
      status: "past_due",
      current_period_start: "2025-01-10T00:00:00.000Z",
      retry: { attempt: 0, max_attempts: 3, next_retry_at: "2025-01-11T00:00:00.000Z" },
    })
    await advance(api, clock, "2025-01-12T00:00:00Z")
    data(await api.patch(`/customers/${customer}`, { default_payment_method: "pm_test_success" }))
    expect(await get(id)).toMatchObject({
      status: "active",
      payment_method: "pm_test_success",
      current_period_start: "2025-01-10T00:00:00.000Z",
      current_period_end: "2025-02-10T00:00:00.000Z",
    })
    expect((await timeline(api, [id])).slice(4)).toEqual([
      "2025-01-10T00:00 subscription.resumed active",
      "2025-01-10T00:00 charge.failed failed",
      "2025-01-10T00:00 subscription.past_due past_due",
      "2025-01-10T00:00 charge.retry_scheduled failed",
      "2025-01-11T00:00 charge.failed failed",
      "2025-01-11T00:00 charge.retry_scheduled failed",
      "2025-01-12T00:00 charge.succeeded succeeded",
      "2025-01-12T00:00 subscription.recovered active",
    ])
  })

  it("is refused in states that cannot pause", async () => {
    const { clock, id } = await subscribe(api, "2025-01-01T00:00:00Z", "pm_test_bank_account", PAUSABLE)
    expect(refusal(await pause(id))).toEqual([422, "charge_in_progress", null])
    await advance(api, clock, "2025-01-02T00:00:00Z")
    expect(refusal(await resume(id))).toEqual([422, "subscription_state_invalid", null])
    expect(refusal(await pause(id, { resumes_at: "2025-01-02T00:00:00Z" }))).toEqual([
      400,
      "parameter_invalid",
      "resumes_at",
    ])
    data(await pause(id))
    expect(refusal(await pause(id))).toEqual([422, "subscription_state_invalid", null])
    // The bank takes an hour: until then there is a charge in progress.
    expect(data(await resume(id))).toMatchObject({ status: "active" })
    expect(refusal(await pause(id))).toEqual([422, "charge_in_progress", null])
    expect(refusal(await resume(id))).toEqual([422, "charge_in_progress", null])
    await advance(api, clock, "2025-01-03T00:00:00Z")
    data(await pause(id))
    data(await api.post(`/subscriptions/${id}/cancel`))
    expect(refusal(await resume(id))).toEqual([422, "subscription_state_invalid", null])

    const other = await subscribe(api, "2025-01-01T00:00:00Z", "pm_test_success")
    expect(refusal(await pause(other.id))).toEqual([422, "pause_not_enabled", null])
    const trial = await subscribe(api, "2025-01-01T00:00:00Z", "pm_test_success", { ...PAUSABLE, trial_days: 7 })
    expect(refusal(await pause(trial.id))).toEqual([422, "subscription_state_invalid", null])
  })
})

describe("cancelling at period end while paused (decision E12)", () => {
  it("takes effect at the end of the paused period, also if it was requested before (E10)", async () => {
    for (const before of [true, false]) {
      const { clock, id } = await subscribe(api, "2025-01-31T00:00:00Z", "pm_test_success", PAUSABLE)
      const cancel = async () => data(await api.post(`/subscriptions/${id}/cancel`, { at_period_end: true }))
      if (before) await cancel()
      data(await pause(id, { resumes_at: "2025-02-28T00:00:00Z" }))
      if (!before) await cancel()
      expect(await get(id)).toMatchObject({ status: "paused", cancel_at_period_end: true, next_charge_at: null })
      // At one instant, cancelling comes before resuming (E19).
      await advance(api, clock, "2025-03-31T00:00:00Z")
      expect((await timeline(api, [id])).at(-1)).toBe("2025-02-28T00:00 subscription.cancelled cancelled")
      expect(await charges(api, id)).toHaveLength(1)
      expect(await get(id)).toMatchObject({ paused_at: null, resumes_at: null })
    }
  })

  it("takes effect immediately if that end has passed, also by PATCH", async () => {
    for (const ask of [
      (id: string) => api.post(`/subscriptions/${id}/cancel`, { at_period_end: true, reason: "customer_request" }),
      (id: string) => api.patch(`/subscriptions/${id}`, { cancel_at_period_end: true }),
    ]) {
      const { clock, id } = await subscribe(api, "2025-01-31T00:00:00Z", "pm_test_success", PAUSABLE)
      data(await pause(id))
      await advance(api, clock, "2025-03-01T00:00:00Z")
      expect(data(await ask(id))).toMatchObject({ status: "cancelled", cancelled_at: "2025-03-01T00:00:00.000Z" })
      expect((await timeline(api, [id])).slice(-2)).toEqual([
        "2025-01-31T00:00 subscription.paused paused",
        "2025-03-01T00:00 subscription.cancelled cancelled",
      ])
    }
  })
})

describe("a pause by escalation", () => {
  const RULES = { retry_logic: { max_attempts: 1, retry_intervals_days: [2], escalation_on_failure: "pause_service" } }

  it("is forgiven by resuming: the debt is written off, and a new period starts without credit (E9)", async () => {
    const { clock, id } = await subscribe(api, "2025-01-31T00:00:00Z", "pm_test_success_then_do_not_honor", RULES)
    await advance(api, clock, "2025-03-10T00:00:00Z")
    expect(await get(id)).toMatchObject({ status: "paused", paused_at: "2025-03-02T00:00:00.000Z" })
    data(await api.patch(`/subscriptions/${id}`, { metadata: { note: "called" } }))
    // A working method, not tried on the old debt: only resuming does that.
    await database.run(
      (sql) => sql`
        INSERT INTO payment_method (account_id, livemode, id, customer_id, type, created_at)
        SELECT account_id, livemode, 'pm_test_visa', customer_id, 'card', created_at FROM subscription WHERE id = ${id}`,
    )
    await database.run((sql) => sql`UPDATE subscription SET payment_method_id = 'pm_test_visa' WHERE id = ${id}`)
    expect(data(await resume(id))).toMatchObject({
      status: "active",
      paused_at: null,
      escalation: null,
      retry: null,
      current_period_start: "2025-03-10T00:00:00.000Z",
      current_period_end: "2025-04-10T00:00:00.000Z",
    })
    expect((await timeline(api, [id])).slice(5)).toEqual([
      "2025-03-02T00:00 charge.failed failed",
      "2025-03-02T00:00 subscription.escalated paused",
      "2025-03-02T00:00 subscription.paused paused",
      "2025-03-10T00:00 subscription.updated paused",
      "2025-03-10T00:00 subscription.resumed active",
      "2025-03-10T00:00 charge.succeeded succeeded",
    ])
    expect((await charges(api, id)).at(-1)).toBe("2025-03-10T00:00 500000 succeeded #1")
    expect(await entries(id, "written_off")).toEqual([
      // A day was served before the pause.
      { ledger_account: "deferred_revenue", amount_kobo: 467_742 },
      { ledger_account: "bad_debt", amount_kobo: 32_258 },
      { ledger_account: "receivable", amount_kobo: -500_000 },
    ])
  })

  it("ends with the payment of the debt: the period starts then, and the anchor moves there (D7, E8)", async () => {
    const { clock, id } = await subscribe(api, "2025-01-31T00:00:00Z", "pm_test_success_then_do_not_honor", RULES)
    await advance(api, clock, "2025-03-10T06:00:00Z")
    const { latest_charge } = await get(id)
    const attempt = data(await api.post(`/charges/${latest_charge}/retry`, { payment_method: "pm_test_success" }), 201)
    expect(attempt).toMatchObject({ status: "succeeded", attempt_number: 3 })
    expect(await get(id)).toMatchObject({
      status: "active",
      payment_method: "pm_test_success",
      current_period_start: "2025-03-10T06:00:00.000Z",
      current_period_end: "2025-04-10T06:00:00.000Z",
      retry: null,
      escalation: null,
    })
    await advance(api, clock, "2025-05-11T00:00:00Z")
    expect((await timeline(api, [id])).slice(8)).toEqual([
      "2025-03-10T06:00 charge.succeeded succeeded",
      "2025-03-10T06:00 subscription.recovered active",
      "2025-03-10T06:00 subscription.resumed active",
      "2025-04-10T06:00 charge.succeeded succeeded",
      "2025-04-10T06:00 subscription.renewed active",
      "2025-05-10T06:00 charge.succeeded succeeded",
      "2025-05-10T06:00 subscription.renewed active",
    ])
  })

  it("continues until the cancellation for non-payment (E7)", async () => {
    const { clock, id } = await subscribe(api, "2025-01-31T00:00:00Z", "pm_test_success_then_do_not_honor", RULES)
    await advance(api, clock, "2025-05-01T00:00:00Z")
    expect((await timeline(api, [id])).slice(-2)).toEqual([
      "2025-03-02T00:00 subscription.paused paused",
      "2025-03-30T00:00 subscription.cancelled cancelled",
    ])
  })
})
