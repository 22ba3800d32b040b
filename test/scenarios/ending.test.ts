/** Tests subscriptions' end: last units (decision E34), reason (E13), credit of a failed resumption (E24). */
import { describe, expect, it } from "vitest"
import { useInstance } from "../support/instance.ts"
import {
  advance,
  charges,
  createClock,
  createCustomer,
  createPlan,
  data,
  refusal,
  subscribe,
  timeline,
} from "../support/story.ts"
import { useWhole } from "../support/whole.ts"

const { api, database } = useInstance()
useWhole(database)

const get = async (id: string) => data(await api.get(`/subscriptions/${id}`))
const report = (id: string, quantity: number) => api.post(`/subscriptions/${id}/unit-records`, { quantity })
const cancelLater = (id: string, body: object = {}) =>
  api.post(`/subscriptions/${id}/cancel`, { at_period_end: true, ...body })
const linesOf = async (id: string) => data(await api.get(`/charges/${(await get(id)).latest_charge}`))
/** The written-off amounts of a subscription, entry by entry. */
const writtenOff = (id: string) =>
  database.run(
    (sql) => sql`
      SELECT -l.amount_kobo AS kobo FROM ledger_entry e JOIN ledger_line l ON (l.account_id, l.livemode, l.entry_id) = (e.account_id, e.livemode, e.id)
      WHERE e.subscription_id = ${id} AND e.event = 'written_off' AND l.ledger_account = 'receivable' ORDER BY e.effective_on, e.bill_no`,
  )
/** Its debt by the books. */
const owed = (id: string) =>
  database.run(
    (sql) => sql`
      SELECT sum(l.amount_kobo)::integer AS kobo FROM ledger_entry e JOIN ledger_line l ON (l.account_id, l.livemode, l.entry_id) = (e.account_id, e.livemode, e.id)
      WHERE e.subscription_id = ${id} AND l.ledger_account = 'receivable'`,
  )
const START = "2025-01-01T00:00:00Z"
const END = "2025-02-01T00:00:00Z"

describe("the units of the last period", () => {
  const METERED = { amount: 100_000, overage_per_unit: 100 }

  it("are charged alone at its end, once, and the subscription is cancelled when that is paid", async () => {
    const { clock, id } = await subscribe(api, "2025-01-01T00:00:00Z", "pm_test_success", METERED)
    data(await report(id, 1_000), 201)
    data(await cancelLater(id))
    await advance(api, clock, "2025-03-05T00:00:00Z")
    expect(await get(id)).toMatchObject({
      status: "cancelled",
      cancellation_reason: "merchant_request",
      next_charge_at: null,
    })
    expect(await linesOf(id)).toMatchObject({
      amount: 100_000,
      status: "succeeded",
      attempt_number: 1,
      lines: [{ type: "overage", quantity: 1_000, unit_amount: 100, amount: 100_000 }],
    })
    expect(await timeline(api, [id])).toEqual([
      "2025-01-01T00:00 subscription.created active",
      "2025-01-01T00:00 charge.succeeded succeeded",
      "2025-01-01T00:00 subscription.updated active",
      "2025-02-01T00:00 charge.succeeded succeeded",
      "2025-02-01T00:00 subscription.cancelled cancelled",
    ])
  })

  it("are written off with the cancellation if the charge is declined", async () => {
    const { clock, id } = await subscribe(
      api,
      "2025-01-01T00:00:00Z",
      "pm_test_success_then_insufficient_funds",
      METERED,
    )
    data(await report(id, 1_000), 201)
    data(await cancelLater(id))
    await advance(api, clock, "2025-03-05T00:00:00Z")
    expect(await get(id)).toMatchObject({ status: "cancelled", cancellation_reason: "merchant_request", retry: null })
    expect((await timeline(api, [id])).slice(-2)).toEqual([
      "2025-02-01T00:00 charge.failed failed",
      "2025-02-01T00:00 subscription.cancelled cancelled",
    ])
    const lines = await database.run(
      (sql) => sql<{ ledger_account: string; kobo: number }>`
        SELECT l.ledger_account, sum(l.amount_kobo)::int AS kobo FROM ledger_line l JOIN ledger_entry e ON (e.account_id, e.livemode, e.id) = (l.account_id, l.livemode, l.entry_id)
        WHERE e.subscription_id = ${id} AND e.event IN ('owed', 'written_off') GROUP BY 1 HAVING sum(l.amount_kobo) <> 0 ORDER BY 1`,
    )
    expect(lines).toEqual([
      { ledger_account: "bad_debt", kobo: 100_000 },
      { ledger_account: "usage_revenue", kobo: -100_000 },
    ])
  })

  it("wait for a slow rail, and all other actions are refused meanwhile", async () => {
    const { clock, id } = await subscribe(api, "2025-01-01T00:00:00Z", "pm_test_bank_account", METERED)
    await advance(api, clock, "2025-01-01T02:00:00Z")
    data(await report(id, 1_000), 201)
    data(await cancelLater(id))
    await advance(api, clock, END)
    expect(await get(id)).toMatchObject({ status: "active", cancel_at_period_end: true })
    expect((await report(id, 1)).status).toBe(422)
    expect((await api.post(`/subscriptions/${id}/pause`, {})).status).toBe(422)
    await advance(api, clock, "2025-02-01T02:00:00Z")
    expect(await get(id)).toMatchObject({ status: "cancelled" })
    expect(await linesOf(id)).toMatchObject({ status: "succeeded", amount: 100_000 })
  })

  it("are not charged under 100 kobo, of a trial, by deliveries, or if it is cancelled immediately", async () => {
    const small = await subscribe(api, "2025-01-01T00:00:00Z", "pm_test_success", { ...METERED, overage_per_unit: 9 })
    data(await report(small.id, 11), 201)
    data(await cancelLater(small.id))
    const trial = await subscribe(api, "2025-01-01T00:00:00Z", "pm_test_success", { ...METERED, trial_days: 31 })
    data(await report(trial.id, 1_000), 201)
    data(await cancelLater(trial.id))
    const delivered = await subscribe(api, "2025-01-01T00:00:00Z", "pm_test_success", {
      ...METERED,
      billing_cycle: "per_delivery",
    })
    data(await cancelLater(delivered.id))
    const now = await subscribe(api, "2025-01-01T00:00:00Z", "pm_test_success", METERED)
    data(await report(now.id, 1_000), 201)
    data(await api.post(`/subscriptions/${now.id}/cancel`, {}))
    for (const { clock, id } of [small, trial, delivered, now]) {
      await advance(api, clock, "2025-03-05T00:00:00Z")
      expect(await get(id), id).toMatchObject({ status: "cancelled" })
      const made = await api.all(`/charges?subscription=${id}`)
      expect(
        made.map(({ amount }) => amount),
        id,
      ).toEqual(id === trial.id ? [] : [100_000])
    }
  })

  it("of a paused subscription with a scheduled cancellation are charged immediately", async () => {
    const { clock, id } = await subscribe(api, START, "pm_test_success", { ...METERED, pause_enabled: true })
    data(await report(id, 1_000), 201)
    data(await api.post(`/subscriptions/${id}/pause`, {}))
    await advance(api, clock, "2025-02-10T00:00:00Z")
    expect(data(await cancelLater(id))).toMatchObject({ status: "cancelled" })
    expect((await timeline(api, [id])).slice(-2)).toEqual([
      "2025-02-10T00:00 charge.succeeded succeeded",
      "2025-02-10T00:00 subscription.cancelled cancelled",
    ])
  })

  it("are charged to the payment method that the same request sets", async () => {
    const { clock, id } = await subscribe(api, START, "pm_test_success", { ...METERED, pause_enabled: true })
    data(await report(id, 1_000), 201)
    data(await api.post(`/subscriptions/${id}/pause`, {}))
    await advance(api, clock, "2025-02-10T00:00:00Z")
    const body = { payment_method: "pm_test_bank_account", cancel_at_period_end: true }
    expect(data(await api.patch(`/subscriptions/${id}`, body))).toMatchObject({
      payment_method: "pm_test_bank_account",
    })
    expect(await linesOf(id)).toMatchObject({ amount: 100_000, payment_method: { id: "pm_test_bank_account" } })
  })

  it("are charged to no payment method if the same request removes the only one", async () => {
    const { clock, id } = await subscribe(api, START, "pm_test_success", { ...METERED, pause_enabled: true })
    data(await report(id, 1_000), 201)
    data(await api.post(`/subscriptions/${id}/pause`, {}))
    await advance(api, clock, "2025-02-10T00:00:00Z")
    data(await api.patch(`/subscriptions/${id}`, { payment_method: null, cancel_at_period_end: true }))
    expect(await linesOf(id)).toMatchObject({
      amount: 100_000,
      status: "failed",
      failure_code: "payment_method_inactive",
      payment_method: null,
    })
  })

  it("leave a paused subscription paused, with no change to its revenue, until the rail answers", async () => {
    const { clock, id } = await subscribe(api, START, "pm_test_bank_account", { ...METERED, pause_enabled: true })
    await advance(api, clock, "2025-01-01T02:00:00Z")
    data(await report(id, 1_000), 201)
    data(await api.post(`/subscriptions/${id}/pause`, {}))
    data(await cancelLater(id))
    await advance(api, clock, END)
    expect(await get(id)).toMatchObject({ status: "paused", paused_at: "2025-01-01T02:00:00.000Z" })
    await advance(api, clock, "2025-02-01T02:00:00Z")
    const ends = await api.all("/events?type=subscription.cancelled")
    const { data: eventData } = ends.find(({ data }) => data.object.id === id)
    expect(eventData.previous_attributes).toMatchObject({ status: "paused" })
    const moved = await database.run(
      (sql) => sql`SELECT kind FROM mrr_movement WHERE subscription_id = ${id} ORDER BY version`,
    )
    expect(moved).toEqual([{ kind: "new" }, { kind: "churn" }])
  })

  const LATE = {
    ...METERED,
    retry_logic: {
      max_attempts: 1,
      retry_intervals_days: [20],
      escalation_on_failure: "restrict_access",
      cancel_after_days_unpaid: null,
    },
  }

  it("of an overdue subscription are charged once, at the end of the billed period, whose bill is written off", async () => {
    const { clock, id } = await subscribe(api, START, "pm_test_success_then_insufficient_funds", LATE)
    await advance(api, clock, "2025-02-02T00:00:00Z")
    data(await report(id, 700), 201)
    data(await cancelLater(id))
    await advance(api, clock, "2025-04-01T00:00:00Z")
    expect(await get(id)).toMatchObject({ status: "cancelled", cancellation_reason: "merchant_request" })
    expect(await charges(api, id)).toEqual([
      "2025-01-01T00:00 100000 succeeded #1",
      "2025-02-01T00:00 100000 failed #1",
      "2025-02-21T00:00 100000 failed #2",
      "2025-03-01T00:00 70000 failed #1",
    ])
    expect((await timeline(api, [id])).slice(-2)).toEqual([
      "2025-03-01T00:00 charge.failed failed",
      "2025-03-01T00:00 subscription.cancelled cancelled",
    ])
    expect(await writtenOff(id)).toEqual([{ kobo: 100_000 }, { kobo: 70_000 }])
  })

  it("of an overdue subscription are owed, and paid, if an attempt in progress at the end fails", async () => {
    const { clock, id } = await subscribe(api, START, "pm_test_success_then_insufficient_funds", LATE)
    await advance(api, clock, "2025-02-02T00:00:00Z")
    data(await report(id, 700), 201)
    data(await cancelLater(id))
    await advance(api, clock, "2025-02-28T23:30:00Z")
    const { latest_charge } = await get(id)
    data(await api.post(`/charges/${latest_charge}/retry`, { payment_method: "pm_test_pending_then_failed" }), 201)
    data(await api.patch(`/subscriptions/${id}`, { payment_method: "pm_test_bank_account" }))
    await advance(api, clock, "2025-03-01T00:30:00Z")
    expect(await get(id)).toMatchObject({ status: "past_due", cancel_at_period_end: true })
    expect(await owed(id)).toEqual([{ kobo: 70_000 }])
    await advance(api, clock, "2025-03-01T02:00:00Z")
    expect((await timeline(api, [id])).slice(-3)).toEqual([
      "2025-03-01T00:30 charge.failed failed",
      "2025-03-01T01:30 charge.succeeded succeeded",
      "2025-03-01T01:30 subscription.cancelled cancelled",
    ])
    expect(await owed(id)).toEqual([{ kobo: 0 }])
  })

  it("are tried also without a payment method, and written off", async () => {
    const { clock, customer, id } = await subscribe(api, START, "pm_test_success", METERED)
    data(await report(id, 1_000), 201)
    data(await cancelLater(id))
    data(await api.delete(`/customers/${customer}/payment-methods/pm_test_success`))
    await advance(api, clock, "2025-02-02T00:00:00Z")
    expect(await get(id)).toMatchObject({ status: "cancelled" })
    expect(await linesOf(id)).toMatchObject({
      status: "failed",
      failure_code: "payment_method_inactive",
      will_retry: false,
    })
    expect(await writtenOff(id)).toEqual([{ kobo: 100_000 }])
  })

  it("in progress allow other changes, refuse to be undone, and are owed back if it is cancelled now", async () => {
    const { clock, id } = await subscribe(api, START, "pm_test_bank_account", METERED)
    await advance(api, clock, "2025-01-01T02:00:00Z")
    data(await report(id, 1_000), 201)
    data(await cancelLater(id))
    await advance(api, clock, END)
    const path = `/subscriptions/${id}`
    expect(data(await api.patch(path, { metadata: { branch: "Ikeja" } })).metadata).toEqual({ branch: "Ikeja" })
    expect(refusal(await api.patch(path, { cancel_at_period_end: false }))).toEqual([
      422,
      "charge_in_progress",
      "cancel_at_period_end",
    ])
    expect(data(await api.post(`${path}/cancel`, { reason: "other" }))).toMatchObject({
      status: "cancelled",
      cancellation_reason: "other",
    })
    await advance(api, clock, "2025-02-01T02:00:00Z")
    expect(await linesOf(id)).toMatchObject({ status: "succeeded", refund_due: true })
  })

  it("of a period that a pause interrupted are charged at its original end", async () => {
    const { clock, id } = await subscribe(api, "2025-01-01T00:00:00Z", "pm_test_success", {
      ...METERED,
      pause_enabled: true,
    })
    data(await report(id, 1_000), 201)
    data(await api.post(`/subscriptions/${id}/pause`, {}))
    data(await cancelLater(id))
    await advance(api, clock, "2025-02-02T00:00:00Z")
    expect(await get(id)).toMatchObject({ status: "cancelled" })
    expect(await linesOf(id)).toMatchObject({ amount: 100_000, status: "succeeded" })
  })
})

describe("the reason of a cancellation", () => {
  const reasonOf = async (steps: (id: string) => Promise<unknown>) => {
    const { clock, id } = await subscribe(api, "2025-01-01T00:00:00Z", "pm_test_success")
    await steps(id)
    await advance(api, clock, "2025-02-02T00:00:00Z")
    return (await get(id)).cancellation_reason
  }

  it("is the newest one given", async () => {
    const byPatch = (id: string) => api.patch(`/subscriptions/${id}`, { cancel_at_period_end: true })
    expect(
      await reasonOf(async (id) => {
        data(await byPatch(id))
        data(await cancelLater(id, { reason: "customer_request" }))
      }),
    ).toBe("customer_request")
    expect(
      await reasonOf(async (id) => {
        data(await cancelLater(id, { reason: "other" }))
        data(await cancelLater(id))
        data(await byPatch(id))
      }),
    ).toBe("other")
    expect(
      await reasonOf(async (id) => {
        data(await cancelLater(id, { reason: "other" }))
        data(await cancelLater(id, { reason: "customer_request" }))
        data(await api.post(`/subscriptions/${id}/cancel`, {}))
      }),
    ).toBe("customer_request")
    expect(await reasonOf(async (id) => void data(await cancelLater(id)))).toBe("merchant_request")
  })
})

describe("the credit of an interrupted period", () => {
  it("is in the next bill of a resumption whose bill was written off, until one is paid", async () => {
    const plan = { amount: 310_000, pause_enabled: true, retry_logic: { max_attempts: 0 } }
    const { clock, id, customer } = await subscribe(api, "2025-03-01T00:00:00Z", "pm_test_success", plan)
    await advance(api, clock, "2025-03-02T00:00:00Z")
    data(await api.post(`/subscriptions/${id}/pause`, {}))
    const pays = (method: string) => api.patch(`/subscriptions/${id}`, { payment_method: method })
    data(await pays("pm_test_insufficient_funds"))
    const amounts: Array<number> = []
    for (let n = 0; n < 2; n++) {
      data(await api.post(`/subscriptions/${id}/resume`, {}))
      expect(await get(id)).toMatchObject({ status: "paused" })
      amounts.push((await linesOf(id)).amount)
    }
    await advance(api, clock, "2025-03-09T00:00:00Z")
    expect(customer).toBeDefined()
    data(await api.patch(`/customers/${customer}`, { default_payment_method: "pm_test_success" }))
    expect((await linesOf(id)).status).toBe("succeeded")
    amounts.push((await linesOf(id)).amount)
    expect(amounts).toEqual([10_000, 10_000, 10_000])
    expect(await get(id)).toMatchObject({ status: "active" })
    await advance(api, clock, "2025-05-20T00:00:00Z")
    const made = await api.all(`/charges?subscription=${id}`)
    expect(made.filter(({ status }) => status === "succeeded").map(({ amount }) => amount)).toEqual([
      310_000, 310_000, 10_000, 310_000,
    ])
  })

  it("is whole again if a part of the written-off period was served, also in the books", async () => {
    const plan = {
      amount: 310_000,
      pause_enabled: true,
      retry_logic: { max_attempts: 1, retry_intervals_days: [3], escalation_on_failure: "pause_service" },
    }
    const { clock, id, plan: planId } = await subscribe(api, "2025-03-01T00:00:00Z", "pm_test_success", plan)
    const pays = (method: string) => api.patch(`/subscriptions/${id}`, { payment_method: method })
    await advance(api, clock, "2025-03-02T00:00:00Z")
    data(await api.post(`/subscriptions/${id}/pause`, {}))
    data(await pays("pm_test_insufficient_funds"))
    data(await api.post(`/subscriptions/${id}/resume`))
    await advance(api, clock, "2025-03-06T00:00:00Z")
    expect(await get(id)).toMatchObject({ status: "paused", escalation: { action: "pause" } })
    data(await api.post(`/subscriptions/${id}/resume`))
    data(await pays("pm_test_success"))
    expect(await get(id)).toMatchObject({ status: "active", current_period_start: "2025-03-06T00:00:00.000Z" })
    expect(await linesOf(id)).toMatchObject({
      amount: 10_000,
      lines: [
        { type: "plan", amount: 310_000 },
        { type: "proration", amount: -300_000 },
      ],
    })
    data(await cancelLater(id))
    await advance(api, clock, "2025-04-10T00:00:00Z")
    const left = await database.run(
      (sql) => sql`
        SELECT l.ledger_account, sum(l.amount_kobo)::integer AS kobo
        FROM ledger_entry e JOIN ledger_line l ON (l.account_id, l.livemode, l.entry_id) = (e.account_id, e.livemode, e.id)
        WHERE e.plan_id = ${planId} AND l.ledger_account IN ('clearing', 'deferred_revenue', 'receivable') GROUP BY 1 ORDER BY 1`,
    )
    expect(left).toEqual([
      { ledger_account: "clearing", kobo: 320_000 },
      { ledger_account: "deferred_revenue", kobo: 0 },
      { ledger_account: "receivable", kobo: 0 },
    ])
  })

  it("may pay for the whole next bill", async () => {
    const plan = { amount: 100_000, overage_per_unit: 100, pause_enabled: true, retry_logic: { max_attempts: 0 } }
    const { id } = await subscribe(api, START, "pm_test_success", plan)
    data(await report(id, 50), 201)
    data(await api.post(`/subscriptions/${id}/pause`, {}))
    data(await api.patch(`/subscriptions/${id}`, { payment_method: "pm_test_insufficient_funds" }))
    // All of the period is left: the units alone are charged, and then written off.
    data(await api.post(`/subscriptions/${id}/resume`))
    expect(await linesOf(id)).toMatchObject({ amount: 5_000, status: "failed" })
    expect(data(await api.post(`/subscriptions/${id}/resume`))).toMatchObject({ status: "active", retry: null })
    expect(await charges(api, id)).toHaveLength(2)
  })
})

describe("a first payment at start_at", () => {
  it("has reminders like a renewal (decision H10)", async () => {
    const clock = await createClock(api, "2025-01-01T00:00:00Z")
    const customer = await createCustomer(api, { test_clock: clock, email: "ada@example.com", name: "Ada" })
    const plan = await createPlan(api, {
      reminders: { enabled: true, pre_due_days: [3, 1], post_due_days: [], channels: ["email"] },
    })
    const { id } = data(
      await api.post("/subscriptions", {
        customer,
        plan,
        payment_method: "pm_test_success",
        start_at: "2025-01-20T00:00:00Z",
      }),
      201,
    )
    await advance(api, clock, "2025-01-21T00:00:00Z")
    const nudges = await api.all(`/nudges?subscription=${id}`)
    expect(nudges.map(({ template, created_at }) => `${template} ${created_at}`).toReversed()).toEqual([
      "payment_due 2025-01-17T00:00:00.000Z",
      "payment_due 2025-01-19T00:00:00.000Z",
    ])
    expect(await get(id)).toMatchObject({ status: "active" })
  })

  it("has reminders also if the subscription ends after it", async () => {
    const clock = await createClock(api, START)
    const customer = await createCustomer(api, { test_clock: clock, email: "ada@example.com" })
    const reminders = { enabled: true, pre_due_days: [3], post_due_days: [], channels: ["email"] }
    const plan = await createPlan(api, { reminders })
    const body = { customer, plan, payment_method: "pm_test_success", start_at: END }
    const { id } = data(await api.post("/subscriptions", body), 201)
    data(await cancelLater(id))
    await advance(api, clock, "2025-02-02T00:00:00Z")
    const nudges = await api.all(`/nudges?subscription=${id}`)
    expect(nudges.map(({ template, created_at }) => [template, created_at])).toEqual([
      ["payment_due", "2025-01-29T00:00:00.000Z"],
    ])
  })
})
