import { describe, expect, it } from "vitest"
import { RETRYABLE } from "../../src/rails/rail/PaymentRail.ts"
import { useInstance } from "../support/instance.ts"
import { advance, charges, createClock, createCustomer, data, refusal, subscribe, timeline } from "../support/story.ts"
import { useWhole } from "../support/whole.ts"

const { api, database } = useInstance()
useWhole(database)

const get = async (id: string) => data(await api.get(`/subscriptions/${id}`))
const retry = (charge: string, body: object = {}) => api.post(`/charges/${charge}/retry`, body)

describe("failure codes (decision F4)", () => {
  const codes = Object.entries(RETRYABLE)

  it.each([true, false])("retryable: %s", async (retryable) => {
    const clock = await createClock(api, "2025-01-01T00:00:00Z")
    const plan = { name: "Daily", amount: 10_000, currency: "NGN", billing_cycle: "daily" }
    const { id } = data(await api.post("/plans", plan), 201)
    const subscriptions = new Map<string, string>()
    for (const [code] of codes.filter(([, yes]) => yes === retryable)) {
      const customer = await createCustomer(api, { test_clock: clock })
      const body = { customer, plan: id, payment_method: `pm_test_success_then_${code}` }
      subscriptions.set(code, data(await api.post("/subscriptions", body), 201).id)
    }
    await advance(api, clock, "2025-01-02T12:00:00Z")
    expect(subscriptions.size).toBeGreaterThan(5)
    for (const [code, subscription] of subscriptions) {
      const { latest_charge, retry, escalation, next_charge_at } = await get(subscription)
      const next = retryable ? "2025-01-03T00:00:00.000Z" : null
      expect({ retry, escalation, next_charge_at }, code).toEqual({
        retry: { attempt: 0, max_attempts: 3, next_retry_at: next },
        escalation: null,
        next_charge_at: next,
      })
      expect(data(await api.get(`/charges/${latest_charge}`)), code).toMatchObject({
        status: "failed",
        failure_code: code,
        will_retry: retryable,
        next_retry_at: next,
      })
    }
  })
})

describe("the schedule (decision E3)", () => {
  it("repeats its last interval, and counts each retry", async () => {
    const { clock, id } = await subscribe(api, "2025-01-01T00:00:00Z", "pm_test_success_then_limit_exceeded", {
      retry_logic: {
        max_attempts: 5,
        retry_intervals_days: [1, 2],
        escalation_on_failure: "none",
        cancel_after_days_unpaid: null,
      },
    })
    await advance(api, clock, "2025-06-01T00:00:00Z")
    expect((await charges(api, id)).slice(1)).toEqual([
      "2025-02-01T00:00 500000 failed #1",
      "2025-02-02T00:00 500000 failed #2",
      "2025-02-04T00:00 500000 failed #3",
      "2025-02-06T00:00 500000 failed #4",
      "2025-02-08T00:00 500000 failed #5",
      "2025-02-10T00:00 500000 failed #6",
    ])
    expect(await get(id)).toMatchObject({
      status: "past_due",
      retry: { attempt: 5, max_attempts: 5, next_retry_at: null },
      escalation: { action: "none", triggered_at: "2025-02-10T00:00:00.000Z" },
    })
  })

  it.each([{ enabled: false }, { max_attempts: 0 }])("escalates immediately with %o", async (rules) => {
    const { clock, id } = await subscribe(api, "2025-01-01T00:00:00Z", "pm_test_success_then_do_not_honor", {
      retry_logic: { ...rules, escalation_on_failure: "hold_delivery" },
    })
    await advance(api, clock, "2025-02-01T00:00:00Z")
    expect((await timeline(api, [id])).slice(2)).toEqual([
      "2025-02-01T00:00 charge.failed failed",
      "2025-02-01T00:00 subscription.past_due past_due",
      "2025-02-01T00:00 subscription.escalated past_due",
    ])
    expect((await get(id)).retry).toEqual({ attempt: 0, max_attempts: 0, next_retry_at: null })
  })

  it("keeps the plan's rules of the first failure (C3)", async () => {
    const { clock, id, plan } = await subscribe(api, "2025-01-01T00:00:00Z", "pm_test_success_then_do_not_honor")
    await advance(api, clock, "2025-02-01T12:00:00Z")
    data(await api.patch(`/plans/${plan}`, { retry_logic: { max_attempts: 0, cancel_after_days_unpaid: 2 } }))
    await advance(api, clock, "2025-02-28T00:00:00Z")
    expect((await get(id)).retry).toMatchObject({ attempt: 3, max_attempts: 3 })
    await advance(api, clock, "2025-03-03T00:00:00Z")
    expect((await get(id)).cancelled_at).toBe("2025-03-03T00:00:00.000Z")
  })

  it("lets a payment at the last instant save the subscription (E19)", async () => {
    // The second retry and the cancellation fall on the same instant, 4 days after the first failure.
    const rules = { max_attempts: 2, retry_intervals_days: [1, 3], cancel_after_days_unpaid: 4 }
    const saved = await subscribe(api, "2025-01-01T00:00:00Z", "pm_test_success", { retry_logic: rules })
    data(await api.patch(`/subscriptions/${saved.id}`, { payment_method: "pm_test_succeeds_on_attempt_3" }))
    await advance(api, saved.clock, "2025-02-05T00:00:00Z")
    expect((await timeline(api, [saved.id])).slice(-2)).toEqual([
      "2025-02-05T00:00 charge.succeeded succeeded",
      "2025-02-05T00:00 subscription.recovered active",
    ])
    const lost = await subscribe(api, "2025-01-01T00:00:00Z", "pm_test_success_then_do_not_honor", {
      retry_logic: rules,
    })
    await advance(api, lost.clock, "2025-02-05T00:00:00Z")
    // The failure's effects come first, as at any other instant.
    expect((await timeline(api, [lost.id])).slice(-4)).toEqual([
      "2025-02-05T00:00 charge.failed failed",
      "2025-02-05T00:00 subscription.escalated paused",
      "2025-02-05T00:00 subscription.paused paused",
      "2025-02-05T00:00 subscription.cancelled cancelled",
    ])
    expect(data(await api.get(`/subscriptions/${lost.id}`))).toMatchObject({ cancellation_reason: "nonpayment" })
  })

  it("schedules a retry also at exactly the instant of the unpaid deadline (E19)", async () => {
    const rules = { max_attempts: 3, retry_intervals_days: [2], cancel_after_days_unpaid: 2 }
    const { clock, id } = await subscribe(api, "2025-01-01T00:00:00Z", "pm_test_success_then_do_not_honor", {
      retry_logic: rules,
    })
    await advance(api, clock, "2025-03-01T00:00:00Z")
    expect((await timeline(api, [id])).slice(-6)).toEqual([
      "2025-02-01T00:00 charge.failed failed",
      "2025-02-01T00:00 subscription.past_due past_due",
      "2025-02-01T00:00 charge.retry_scheduled failed",
      "2025-02-03T00:00 charge.failed failed",
      "2025-02-03T00:00 charge.retry_scheduled failed",
      "2025-02-03T00:00 subscription.cancelled cancelled",
    ])
    expect((await charges(api, id)).length).toBe(3)
  })

  it("bills the failed bill's amounts, though quantity and units changed meanwhile (E18)", async () => {
    const { clock, id } = await subscribe(api, "2025-01-01T00:00:00Z", "pm_test_success", { overage_per_unit: 100 })
    data(await api.patch(`/subscriptions/${id}`, { payment_method: "pm_test_succeeds_on_attempt_2" }))
    data(await api.post(`/subscriptions/${id}/unit-records`, { quantity: 5 }), 201)
    await advance(api, clock, "2025-02-01T06:00:00Z")
    data(await api.patch(`/subscriptions/${id}`, { quantity: 2 }))
    data(await api.post(`/subscriptions/${id}/unit-records`, { quantity: 3 }), 201)
    await advance(api, clock, "2025-03-02T12:00:00Z")
    expect((await charges(api, id)).slice(1)).toEqual([
      "2025-02-01T00:00 500500 failed #1",
      "2025-02-02T00:00 500500 succeeded #2",
      "2025-03-01T00:00 1000300 failed #1",
      "2025-03-02T00:00 1000300 succeeded #2",
    ])
  })
})

describe("late recovery (decision D7)", () => {
  it("after many missed periods charges one, without a burst, and moves the anchor", async () => {
    const { clock, id } = await subscribe(api, "2025-01-31T00:00:00Z", "pm_test_success_then_expired_card", {
      retry_logic: { cancel_after_days_unpaid: null },
    })
    await advance(api, clock, "2025-07-05T10:00:00Z")
    data(await api.patch(`/subscriptions/${id}`, { payment_method: "pm_test_success" }))
    expect(await get(id)).toMatchObject({
      status: "active",
      current_period_start: "2025-07-05T10:00:00.000Z",
      current_period_end: "2025-08-05T10:00:00.000Z",
    })
    await advance(api, clock, "2025-08-06T00:00:00Z")
    expect(await timeline(api, [id])).toEqual([
      "2025-01-31T00:00 subscription.created active",
      "2025-01-31T00:00 charge.succeeded succeeded",
      "2025-02-28T00:00 charge.failed failed",
      "2025-02-28T00:00 subscription.past_due past_due",
      "2025-07-05T10:00 subscription.updated past_due",
      "2025-07-05T10:00 charge.succeeded succeeded",
      "2025-07-05T10:00 subscription.recovered active",
      "2025-08-05T10:00 charge.succeeded succeeded",
      "2025-08-05T10:00 subscription.renewed active",
    ])
  })
})

describe("a new payment method (decision E6)", () => {
  const overdue = async (code: string, at = "2025-02-01T12:00:00Z", plan: object = {}) => {
    const made = await subscribe(api, "2025-01-01T00:00:00Z", `pm_test_success_then_${code}`, plan)
    await advance(api, made.clock, at)
    expect((await get(made.id)).status).toBe("past_due")
    return made
  }

  it("on the customer is tried immediately, and becomes the subscription's if it had its own (E16)", async () => {
    const { customer, id } = await overdue("expired_card")
    data(await api.patch(`/customers/${customer}`, { default_payment_method: "pm_test_mastercard" }))
    expect(await get(id)).toMatchObject({ status: "active", payment_method: "pm_test_mastercard" })
    // Setting the same method again has no effect.
    data(await api.patch(`/customers/${customer}`, { default_payment_method: "pm_test_mastercard" }))
    expect((await timeline(api, [id])).slice(4)).toEqual([
      "2025-02-01T12:00 charge.succeeded succeeded",
      "2025-02-01T12:00 subscription.recovered active",
    ])
  })

  it("on the customer pays for a subscription without its own, which stays without one", async () => {
    const clock = await createClock(api, "2025-01-01T00:00:00Z")
    const customer = await createCustomer(api, { test_clock: clock })
    data(
      await api.patch(`/customers/${customer}`, { default_payment_method: "pm_test_success_then_insufficient_funds" }),
    )
    const plan = { name: "Gym", amount: 500_000, currency: "NGN", billing_cycle: "monthly" }
    const { id: planId } = data(await api.post("/plans", plan), 201)
    const { id } = data(await api.post("/subscriptions", { customer, plan: planId }), 201)
    await advance(api, clock, "2025-02-01T12:00:00Z")
    data(await api.patch(`/customers/${customer}`, { default_payment_method: "pm_test_success" }))
    expect(await get(id)).toMatchObject({
      status: "active",
      payment_method: null,
      current_period_start: "2025-02-01T00:00:00.000Z",
    })
  })

  it("that fails too uses up no retry: the next comes its interval after (E25)", async () => {
    const { clock, id } = await overdue("expired_card")
    data(await api.patch(`/subscriptions/${id}`, { payment_method: "pm_test_do_not_honor" }))
    expect(await get(id)).toMatchObject({
      status: "past_due",
      retry: { attempt: 0, max_attempts: 3, next_retry_at: "2025-02-02T12:00:00.000Z" },
    })
    await advance(api, clock, "2025-02-03T00:00:00Z")
    expect((await timeline(api, [id])).slice(4)).toEqual([
      "2025-02-01T12:00 subscription.updated past_due",
      "2025-02-01T12:00 charge.failed failed",
      "2025-02-01T12:00 charge.retry_scheduled failed",
      "2025-02-02T12:00 charge.failed failed",
      "2025-02-02T12:00 charge.retry_scheduled failed",
    ])
    expect((await charges(api, id)).slice(1)).toEqual([
      "2025-02-01T00:00 500000 failed #1",
      "2025-02-01T12:00 500000 failed #2",
      "2025-02-02T12:00 500000 failed #3",
    ])
  })

  it("that fails does not move the retry: day by day with two in turn, escalation comes on its day (E25)", async () => {
    const { clock, id } = await overdue("insufficient_funds", "2025-02-01T00:00:00Z")
    for (let day = 1; day <= 11; day++) {
      await advance(api, clock, `2025-02-${String(day).padStart(2, "0")}T12:00:00Z`)
      const payment_method = day % 2 === 0 ? "pm_test_insufficient_funds" : "pm_test_do_not_honor"
      data(await api.patch(`/subscriptions/${id}`, { payment_method }))
    }
    expect((await get(id)).retry).toEqual({
      attempt: 2,
      max_attempts: 3,
      next_retry_at: "2025-02-12T00:00:00.000Z",
    })
    await advance(api, clock, "2025-02-28T00:00:00Z")
    const story = (await timeline(api, [id])).filter((line) => !line.includes("subscription.updated"))
    const tried = (day: string) => [
      `2025-02-${day}T12:00 charge.failed failed`,
      `2025-02-${day}T12:00 charge.retry_scheduled failed`,
    ]
    const again = (day: string) => [
      `2025-02-${day}T00:00 charge.failed failed`,
      `2025-02-${day}T00:00 charge.retry_scheduled failed`,
    ]
    expect(story.slice(5)).toEqual([
      ...tried("01"),
      ...again("02"),
      ...["02", "03", "04"].flatMap(tried),
      ...again("05"),
      ...["05", "06", "07", "08", "09", "10", "11"].flatMap(tried),
      "2025-02-12T00:00 charge.failed failed",
      "2025-02-12T00:00 subscription.escalated paused",
      "2025-02-12T00:00 subscription.paused paused",
    ])
    // With the newest method.
    const codes = (await api.all(`/charges?subscription=${id}&status=failed`)).map(({ failure_code }) => failure_code)
    expect([codes.at(0), codes.at(1)]).toEqual(["do_not_honor", "do_not_honor"])
  })

  it("that must not be retried cancels the retry; the next one restores it at its due time", async () => {
    const { clock, id } = await overdue("insufficient_funds")
    const set = async (payment_method: string) =>
      data(await api.patch(`/subscriptions/${id}`, { payment_method })).retry
    const left = (next_retry_at: string | null, attempt = 0) => ({ attempt, max_attempts: 3, next_retry_at })
    expect(await set("pm_test_stolen_card")).toEqual(left(null))
    expect(await set("pm_test_do_not_honor")).toEqual(left("2025-02-02T00:00:00.000Z"))
    expect(await set("pm_test_stolen_card")).toEqual(left(null))
    // Its time is over: the following one is next.
    await advance(api, clock, "2025-02-03T00:00:00Z")
    expect(await set("pm_test_do_not_honor")).toEqual(left("2025-02-06T00:00:00.000Z", 1))
  })

  it("that must not be retried ends the schedule", async () => {
    const { clock, id } = await overdue("insufficient_funds")
    data(await api.patch(`/subscriptions/${id}`, { payment_method: "pm_test_stolen_card" }))
    expect((await get(id)).retry).toEqual({ attempt: 0, max_attempts: 3, next_retry_at: null })
    await advance(api, clock, "2025-02-20T00:00:00Z")
    expect((await charges(api, id)).slice(1)).toHaveLength(2)
    expect((await get(id)).escalation).toBeNull()
  })

  it("that comes during an attempt is tried when that fails", async () => {
    const { clock, id } = await overdue("do_not_honor")
    data(await api.patch(`/subscriptions/${id}`, { payment_method: "pm_test_pending_then_failed" }))
    expect((await charges(api, id)).at(-1)).toBe("2025-02-01T12:00 500000 pending #2")
    data(await api.patch(`/subscriptions/${id}`, { payment_method: "pm_test_success" }))
    await advance(api, clock, "2025-02-01T13:00:00Z")
    expect((await charges(api, id)).slice(2)).toEqual([
      "2025-02-01T12:00 500000 failed #2",
      "2025-02-01T13:00 500000 succeeded #3",
    ])
    expect(await get(id)).toMatchObject({ status: "active", payment_method: "pm_test_success", retry: null })
  })

  it("that comes during a first attempt is tried when that fails, after its retry was scheduled", async () => {
    const { clock, id } = await subscribe(api, "2025-01-01T00:00:00Z", "pm_test_success")
    data(await api.patch(`/subscriptions/${id}`, { payment_method: "pm_test_bank_account_insufficient_funds" }))
    await advance(api, clock, "2025-02-01T00:30:00Z")
    data(await api.patch(`/subscriptions/${id}`, { payment_method: "pm_test_visa" }))
    await advance(api, clock, "2025-02-01T12:00:00Z")
    expect((await timeline(api, [id])).slice(4)).toEqual([
      "2025-02-01T01:00 charge.failed failed",
      "2025-02-01T01:00 subscription.past_due past_due",
      "2025-02-01T01:00 charge.retry_scheduled failed",
      "2025-02-01T01:00 charge.succeeded succeeded",
      "2025-02-01T01:00 subscription.recovered active",
    ])
    expect((await get(id)).current_period_start).toBe("2025-02-01T00:00:00.000Z")
  })

  it("that comes before the unpaid deadline is tried, even if the attempt it waits for fails after it (E21)", async () => {
    for (const [method, saved] of [
      ["pm_test_success", true],
      ["pm_test_do_not_honor", false],
    ] as const) {
      const { clock, id } = await subscribe(api, "2025-01-01T00:00:00Z", "pm_test_success_then_do_not_honor", {
        retry_logic: { max_attempts: 0, escalation_on_failure: "restrict_access", cancel_after_days_unpaid: 1 },
      })
      await advance(api, clock, "2025-02-01T23:50:00Z")
      const { latest_charge } = await get(id)
      data(await retry(latest_charge, { payment_method: "pm_test_bank_account_insufficient_funds" }), 201)
      data(await api.patch(`/subscriptions/${id}`, { payment_method: method }))
      await advance(api, clock, "2025-02-03T00:00:00Z")
      expect((await timeline(api, [id])).slice(-3), method).toEqual(
        saved
          ? [
              "2025-02-02T00:50 charge.failed failed",
              "2025-02-02T00:50 charge.succeeded succeeded",
              "2025-02-02T00:50 subscription.recovered active",
            ]
          : [
              "2025-02-02T00:50 charge.failed failed",
              "2025-02-02T00:50 charge.failed failed",
              "2025-02-02T00:50 subscription.cancelled cancelled",
            ],
      )
    }
  })

  it("that is removed before its turn is not tried", async () => {
    const { clock, customer, id } = await overdue("insufficient_funds")
    data(await api.patch(`/subscriptions/${id}`, { payment_method: "pm_test_pending_then_failed" }))
    data(await api.patch(`/customers/${customer}`, { default_payment_method: "pm_test_visa" }))
    data(await api.delete(`/customers/${customer}/payment-methods/pm_test_visa`))
    await advance(api, clock, "2025-02-01T14:00:00Z")
    expect((await charges(api, id)).slice(1)).toEqual([
      "2025-02-01T00:00 500000 failed #1",
      "2025-02-01T12:00 500000 failed #2",
    ])
    expect((await get(id)).retry).toMatchObject({ attempt: 0, next_retry_at: "2025-02-02T00:00:00.000Z" })
  })

  it("as a new default that fails replaces the dead one in the schedule, until it is removed", async () => {
    const { clock, customer, id } = await overdue("expired_card")
    data(await api.patch(`/customers/${customer}`, { default_payment_method: "pm_test_do_not_honor" }))
    await advance(api, clock, "2025-02-03T00:00:00Z")
    const codes = async () =>
      (await api.all(`/charges?subscription=${id}&status=failed`)).map(({ failure_code }) => failure_code).reverse()
    expect(await codes()).toEqual(["expired_card", "do_not_honor", "do_not_honor"])
    data(await api.delete(`/customers/${customer}/payment-methods/pm_test_do_not_honor`))
    await advance(api, clock, "2025-02-20T00:00:00Z")
    expect((await codes()).at(-1)).toBe("expired_card")
  })

  describe("the fallback method after a subscription's own is removed (E28)", () => {
    /** Overdue with its own method. Its customer's default is another one. */
    const withDefault = async (own: string, left: string | null, at = "2025-02-01T12:00:00Z") => {
      const made = await subscribe(api, "2025-01-01T00:00:00Z", "pm_test_success")
      data(await api.patch(`/customers/${made.customer}`, { default_payment_method: left }))
      data(await api.patch(`/subscriptions/${made.id}`, { payment_method: own }))
      await advance(api, made.clock, at)
      const remove = async (method = own) => {
        const before = (await timeline(api, [made.id])).length
        const gone = data(await api.delete(`/customers/${made.customer}/payment-methods/${method}`))
        expect(gone).toEqual({ id: method, object: "payment_method", livemode: false, deleted: true })
        return (await timeline(api, [made.id])).slice(before)
      }
      return { ...made, remove }
    }

    it.each(["pm_test_expired_card", "pm_test_insufficient_funds"])("is tried immediately: %s", async (own) => {
      const { id, remove } = await withDefault(own, "pm_test_visa")
      expect(await remove()).toEqual([
        "2025-02-01T12:00 subscription.updated past_due",
        "2025-02-01T12:00 charge.succeeded succeeded",
        "2025-02-01T12:00 subscription.recovered active",
      ])
      expect(await get(id)).toMatchObject({ status: "active", payment_method: null, retry: null })
      const [charge] = await api.all(`/charges?subscription=${id}`)
      expect(charge.payment_method.id).toBe("pm_test_visa")
    })

    it("is tried immediately while escalation pauses it", async () => {
      const { remove } = await withDefault("pm_test_insufficient_funds", "pm_test_visa", "2025-02-20T12:00:00Z")
      expect(await remove()).toEqual([
        "2025-02-20T12:00 subscription.updated paused",
        "2025-02-20T12:00 charge.succeeded succeeded",
        "2025-02-20T12:00 subscription.recovered active",
        "2025-02-20T12:00 subscription.resumed active",
      ])
    })

    it("that fails too does not change the schedule, which continues with it", async () => {
      const { clock, id, remove } = await withDefault("pm_test_insufficient_funds", "pm_test_do_not_honor")
      expect(await remove()).toEqual([
        "2025-02-01T12:00 subscription.updated past_due",
        "2025-02-01T12:00 charge.failed failed",
        "2025-02-01T12:00 charge.retry_scheduled failed",
      ])
      await advance(api, clock, "2025-02-02T00:00:00Z")
      expect((await charges(api, id)).at(-1)).toBe("2025-02-02T00:00 500000 failed #3")
      expect((await get(id)).retry).toMatchObject({ attempt: 1, next_retry_at: "2025-02-05T00:00:00.000Z" })
    })

    it("is tried when the attempt in progress fails", async () => {
      const { clock, id, remove } = await withDefault(
        "pm_test_bank_account_insufficient_funds",
        "pm_test_visa",
        "2025-02-01T00:30:00Z",
      )
      expect(await remove()).toEqual(["2025-02-01T00:30 subscription.updated active"])
      await advance(api, clock, "2025-02-01T12:00:00Z")
      expect((await charges(api, id)).slice(1)).toEqual([
        "2025-02-01T00:00 500000 failed #1",
        "2025-02-01T01:00 500000 succeeded #2",
      ])
    })

    it.each([
      ["there is no other", "pm_test_expired_card", null, "pm_test_expired_card"],
      ["it is the removed one", "pm_test_expired_card", "pm_test_expired_card", "pm_test_expired_card"],
    ])("is not tried if %s", async (_, own, left, removed) => {
      const { remove } = await withDefault(own, left)
      expect(await remove(removed)).toEqual(["2025-02-01T12:00 subscription.updated past_due"])
    })

    it("is not tried if nothing is due", async () => {
      const { id, remove } = await withDefault("pm_test_verve", "pm_test_visa", "2025-01-15T00:00:00Z")
      expect(await remove()).toEqual(["2025-01-15T00:00 subscription.updated active"])
      expect(await charges(api, id)).toHaveLength(1)
    })
  })

  it("that does not change tries nothing, on the customer or on the subscription", async () => {
    const { customer, id } = await overdue("insufficient_funds")
    const own = (await get(id)).payment_method
    data(await api.patch(`/customers/${customer}`, { default_payment_method: "pm_test_do_not_honor" }))
    const before = await timeline(api, [id])
    data(await api.patch(`/customers/${customer}`, { default_payment_method: "pm_test_do_not_honor" }))
    data(await api.patch(`/subscriptions/${id}`, { payment_method: own }))
    expect(await timeline(api, [id])).toEqual(before)
  })

  it("returns to the customer's default with null", async () => {
    const { customer, id } = await overdue("lost_card")
    const before = data(await api.get(`/customers/${customer}`))
    expect(before.default_payment_method).toBeNull()
    expect(data(await api.patch(`/subscriptions/${id}`, { payment_method: null })).status).toBe("past_due")
    data(await api.patch(`/customers/${customer}`, { default_payment_method: "pm_test_success" }))
    expect(await get(id)).toMatchObject({ status: "active", payment_method: null })
  })
})

describe("a manual retry (decision E16)", () => {
  const overdue = async (method = "pm_test_success_then_do_not_honor") => {
    const made = await subscribe(api, "2025-01-01T00:00:00Z", method)
    await advance(api, made.clock, "2025-02-01T12:00:00Z")
    return { ...made, charge: (await get(made.id)).latest_charge as string }
  }

  it("that fails does not move the automatic retries", async () => {
    const { clock, id, charge } = await overdue()
    const before = await get(id)
    const attempt = data(await retry(charge), 201)
    expect(attempt).toMatchObject({
      status: "failed",
      attempt_number: 2,
      will_retry: true,
      next_retry_at: "2025-02-02T00:00:00.000Z",
    })
    expect(await get(id)).toEqual({ ...before, latest_charge: attempt.id })
    data(await retry(attempt.id, { payment_method: "pm_test_expired_card" }), 201)
    expect((await get(id)).retry).toEqual(before.retry)
    expect((await get(id)).payment_method).toBe("pm_test_success_then_do_not_honor")
    await advance(api, clock, "2025-02-12T00:00:00Z")
    expect((await timeline(api, [id])).slice(5)).toEqual([
      "2025-02-01T12:00 charge.failed failed",
      "2025-02-01T12:00 charge.failed failed",
      "2025-02-02T00:00 charge.failed failed",
      "2025-02-02T00:00 charge.retry_scheduled failed",
      "2025-02-05T00:00 charge.failed failed",
      "2025-02-05T00:00 charge.retry_scheduled failed",
      "2025-02-12T00:00 charge.failed failed",
      "2025-02-12T00:00 subscription.escalated paused",
      "2025-02-12T00:00 subscription.paused paused",
    ])
    expect((await charges(api, id)).at(-1)).toBe("2025-02-12T00:00 500000 failed #6")
  })

  it("that succeeds ends the schedule", async () => {
    const { clock, id, charge } = await overdue()
    expect(data(await retry(charge, { payment_method: "pm_test_visa" }), 201)).toMatchObject({
      status: "succeeded",
      will_retry: false,
      next_retry_at: null,
    })
    await advance(api, clock, "2025-03-01T00:00:00Z")
    expect(await get(id)).toMatchObject({ status: "active", payment_method: "pm_test_visa" })
    expect((await timeline(api, [id])).slice(5)).toEqual([
      "2025-02-01T12:00 charge.succeeded succeeded",
      "2025-02-01T12:00 subscription.recovered active",
      "2025-03-01T00:00 charge.succeeded succeeded",
      "2025-03-01T00:00 subscription.renewed active",
    ])
  })

  it("that is still pending when the automatic one falls due delays it", async () => {
    const { clock, id, charge } = await overdue()
    await advance(api, clock, "2025-02-01T23:30:00Z")
    const attempt = data(await retry(charge, { payment_method: "pm_test_pending_then_failed" }), 201)
    expect(attempt.status).toBe("pending")
    expect(refusal(await retry(charge))).toEqual([422, "charge_in_progress", null])
    expect(refusal(await retry(attempt.id))).toEqual([422, "charge_in_progress", null])
    await advance(api, clock, "2025-02-02T12:00:00Z")
    expect((await charges(api, id)).slice(1)).toEqual([
      "2025-02-01T00:00 500000 failed #1",
      "2025-02-01T23:30 500000 failed #2",
      "2025-02-02T00:30 500000 failed #3",
    ])
    expect((await get(id)).retry).toMatchObject({ attempt: 1 })
  })

  it("that delays the last automatic one until after the unpaid deadline does not use it up (E21)", async () => {
    const rules = { max_attempts: 1, retry_intervals_days: [1], cancel_after_days_unpaid: 1 }
    for (const [method, last] of [
      ["pm_test_succeeds_on_attempt_3", "2025-02-02T00:20 subscription.recovered active"],
      ["pm_test_do_not_honor", "2025-02-02T00:20 subscription.cancelled cancelled"],
    ] as const) {
      const { clock, id } = await subscribe(api, "2025-01-01T00:00:00Z", "pm_test_success", { retry_logic: rules })
      data(await api.patch(`/subscriptions/${id}`, { payment_method: method }))
      await advance(api, clock, "2025-02-01T23:50:00Z")
      data(await retry((await get(id)).latest_charge, { payment_method: "pm_test_ussd_timeout" }), 201)
      await advance(api, clock, "2025-02-03T00:00:00Z")
      expect((await charges(api, id)).slice(2)).toEqual([
        "2025-02-01T23:50 500000 failed #2",
        `2025-02-02T00:20 500000 ${method.endsWith("3") ? "succeeded" : "failed"} #3`,
      ])
      expect((await timeline(api, [id])).at(-1)).toBe(last)
    }
  })

  describe.each([
    ["in one jump", []],
    ["in steps", ["10:10", "10:20"]],
  ])("that delays the automatic one until it fails, %s", (_, steps) => {
    /** Overdue with `method`. An attempt is in progress 09:20 to 10:20, an automatic retry is due at 10:00. */
    const delayedRetry = async (plan: object, day: string, method: string) => {
      const story = await subscribe(api, "2027-12-24T10:00:00Z", "pm_test_success", plan)
      data(await api.patch(`/subscriptions/${story.id}`, { payment_method: method }))
      await advance(api, story.clock, `${day}T09:20:00Z`)
      const { latest_charge } = await get(story.id)
      const attempt = data(await retry(latest_charge, { payment_method: "pm_test_pending_then_failed" }), 201)
      expect(attempt.status).toBe("pending")
      for (const at of [...steps, "10:30"]) await advance(api, story.clock, `${day}T${at}:00Z`)
      return { ...story, shown: await get(story.id) }
    }

    it("buys the period from its own instant, if the billed one is over", async () => {
      const plan = { billing_cycle: "weekly", retry_logic: { retry_intervals_days: [7], max_attempts: 8 } }
      const { id, shown } = await delayedRetry(plan, "2028-01-07", "pm_test_succeeds_on_attempt_3")
      expect((await charges(api, id)).slice(1)).toEqual([
        "2027-12-31T10:00 500000 failed #1",
        "2028-01-07T09:20 500000 failed #2",
        "2028-01-07T10:20 500000 succeeded #3",
      ])
      expect(shown).toMatchObject({
        status: "active",
        current_period_start: "2028-01-07T10:20:00.000Z",
        current_period_end: "2028-01-14T10:20:00.000Z",
        next_charge_at: "2028-01-14T10:20:00.000Z",
      })
      expect((await timeline(api, [id])).slice(-3)).toEqual([
        "2028-01-07T10:20 charge.failed failed",
        "2028-01-07T10:20 charge.succeeded succeeded",
        "2028-01-07T10:20 subscription.recovered active",
      ])
    })

    it("counts the next one from its own instant", async () => {
      const plan = { retry_logic: { retry_intervals_days: [1, 3], max_attempts: 3 } }
      const { shown } = await delayedRetry(plan, "2028-01-25", "pm_test_insufficient_funds")
      expect(shown).toMatchObject({
        status: "past_due",
        retry: { attempt: 1, next_retry_at: "2028-01-28T10:20:00.000Z" },
      })
    })

    it("escalates at its own instant", async () => {
      const plan = { retry_logic: { retry_intervals_days: [1], max_attempts: 1 } }
      const { id, shown } = await delayedRetry(plan, "2028-01-25", "pm_test_insufficient_funds")
      expect(shown).toMatchObject({
        status: "paused",
        paused_at: "2028-01-25T10:20:00.000Z",
        escalation: { triggered_at: "2028-01-25T10:20:00.000Z" },
      })
      expect((await timeline(api, [id])).slice(-2)).toEqual([
        "2028-01-25T10:20 subscription.escalated paused",
        "2028-01-25T10:20 subscription.paused paused",
      ])
    })
  })

  it("is refused for any charge but the newest failed one of the overdue bill", async () => {
    const { clock, id, charge } = await overdue()
    const [, , first] = await api.all(`/charges?subscription=${id}`)
    expect(first).toBeUndefined()
    const paid = (await api.all(`/charges?subscription=${id}&status=succeeded`))[0].id
    const attempt = data(await retry(charge), 201)
    expect(refusal(await retry(charge))).toEqual([422, "charge_not_retryable", null])
    expect(refusal(await retry(paid))).toEqual([422, "charge_not_retryable", null])
    expect(refusal(await retry(attempt.id, { payment_method: "pm_test_nonsense" }))).toEqual([
      400,
      "parameter_invalid",
      "payment_method",
    ])
    expect(refusal(await retry("chg_nothing"))).toEqual([404, "resource_missing", null])
    data(await api.post(`/subscriptions/${id}/cancel`))
    expect(refusal(await retry(attempt.id))).toEqual([422, "charge_not_retryable", null])
    await advance(api, clock, "2025-03-01T00:00:00Z")
    const declined = await subscribe(api, "2025-01-01T00:00:00Z", "pm_test_do_not_honor")
    expect(refusal(await retry(declined.created.latest_charge))).toEqual([422, "charge_not_retryable", null])
  })

  it("leaves one entry for the debt and one for its payment in the books", async () => {
    const { id, charge } = await overdue()
    const failed = data(await retry(charge), 201)
    data(await retry(failed.id, { payment_method: "pm_test_success" }), 201)
    const entries = await database.run(
      (sql) => sql<{ event: string; n: number }>`
        SELECT event, count(*) AS n FROM ledger_entry WHERE subscription_id = ${id} GROUP BY event ORDER BY event`,
    )
    expect(entries).toEqual([
      { event: "overdue_paid", n: 1 },
      { event: "owed", n: 1 },
      { event: "paid", n: 1 },
    ])
  })
})

describe("events about overdue bills (decision I6)", () => {
  it("show the previous values, from one to the next, each at its own point", async () => {
    const { clock, id } = await subscribe(api, "2025-01-01T00:00:00Z", "pm_test_success_then_do_not_honor", {
      retry_logic: { max_attempts: 1, retry_intervals_days: [2], escalation_on_failure: "pause_service" },
    })
    await advance(api, clock, "2025-02-04T00:00:00Z")
    const { latest_charge } = await get(id)
    data(await api.post(`/charges/${latest_charge}/retry`, { payment_method: "pm_test_visa" }), 201)
    const events = (await api.all("/events"))
      .filter(({ type, data: { object } }) => type.startsWith("subscription.") && object.id === id)
      .toReversed()
    expect(events.map(({ type, data: { object } }) => `${type} ${object.status}`)).toEqual([
      "subscription.created active",
      "subscription.past_due past_due",
      "subscription.escalated paused",
      "subscription.paused paused",
      "subscription.recovered active",
      "subscription.resumed active",
    ])
    // The values of one event are the previous values of the next. Events of one change show the same.
    let shown = events[0].data.object
    let before = shown
    for (const { data: eventData } of events.slice(1)) {
      if (JSON.stringify(eventData.object) !== JSON.stringify(shown)) before = shown
      expect({ ...eventData.object, ...eventData.previous_attributes }).toEqual(before)
      shown = eventData.object
    }
  })

  it("report an immediate escalation after the failure that caused it", async () => {
    const { clock, id } = await subscribe(api, "2025-01-01T00:00:00Z", "pm_test_success_then_do_not_honor", {
      retry_logic: { max_attempts: 0 },
    })
    await advance(api, clock, "2025-02-01T00:00:00Z")
    expect((await timeline(api, [id])).slice(2)).toEqual([
      "2025-02-01T00:00 charge.failed failed",
      "2025-02-01T00:00 subscription.past_due past_due",
      "2025-02-01T00:00 subscription.escalated paused",
      "2025-02-01T00:00 subscription.paused paused",
    ])
  })
})

describe("cancelling an overdue subscription (decision E12)", () => {
  it("at period end, requested twice, is done once, whatever escalation did meanwhile", async () => {
    const { clock, id } = await subscribe(api, "2025-01-01T00:00:00Z", "pm_test_success_then_do_not_honor", {
      retry_logic: { max_attempts: 1, retry_intervals_days: [1] },
    })
    await advance(api, clock, "2025-02-01T12:00:00Z")
    const cancel = () => api.post(`/subscriptions/${id}/cancel`, { at_period_end: true })
    data(await cancel())
    await advance(api, clock, "2025-02-03T00:00:00Z")
    const events = (await timeline(api, [id])).length
    expect(data(await cancel())).toMatchObject({ status: "paused", cancel_at_period_end: true })
    expect(await timeline(api, [id])).toHaveLength(events)
    await advance(api, clock, "2025-03-02T00:00:00Z")
    expect((await timeline(api, [id])).at(-1)).toBe("2025-03-01T00:00 subscription.cancelled cancelled")
  })

  it("at period end waits for the end of the billed period while dunning continues; a recovery keeps the flag", async () => {
    const lasting = await subscribe(api, "2025-01-01T00:00:00Z", "pm_test_success_then_expired_card")
    await advance(api, lasting.clock, "2025-02-02T00:00:00Z")
    const cancel = { at_period_end: true, reason: "customer_request" }
    expect(data(await api.post(`/subscriptions/${lasting.id}/cancel`, cancel))).toMatchObject({
      status: "past_due",
      cancel_at_period_end: true,
    })
    await advance(api, lasting.clock, "2025-04-01T00:00:00Z")
    expect((await timeline(api, [lasting.id])).slice(4)).toEqual([
      "2025-02-02T00:00 subscription.updated past_due",
      "2025-03-01T00:00 subscription.cancelled cancelled",
    ])
    expect((await get(lasting.id)).cancellation_reason).toBe("customer_request")

    const recovering = await subscribe(api, "2025-01-01T00:00:00Z", "pm_test_success")
    data(await api.patch(`/subscriptions/${recovering.id}`, { payment_method: "pm_test_succeeds_on_attempt_2" }))
    await advance(api, recovering.clock, "2025-02-01T00:00:00Z")
    data(await api.post(`/subscriptions/${recovering.id}/cancel`, cancel))
    await advance(api, recovering.clock, "2025-04-01T00:00:00Z")
    expect((await timeline(api, [recovering.id])).slice(-3)).toEqual([
      "2025-02-02T00:00 charge.succeeded succeeded",
      "2025-02-02T00:00 subscription.recovered active",
      "2025-03-01T00:00 subscription.cancelled cancelled",
    ])
  })

  it.each([
    ["pm_test_bank_account", "active"],
    ["pm_test_bank_account_insufficient_funds", "cancelled"],
  ])("at a past period end waits for the attempt in progress: %s", async (method, status) => {
    const { clock, id } = await subscribe(api, "2025-01-01T00:00:00Z", "pm_test_success_then_do_not_honor", {
      retry_logic: { max_attempts: 0, escalation_on_failure: "none", cancel_after_days_unpaid: null },
    })
    await advance(api, clock, "2025-02-28T23:50:00Z")
    data(await retry((await get(id)).latest_charge, { payment_method: method }), 201)
    await advance(api, clock, "2025-03-01T00:10:00Z")
    expect(data(await api.post(`/subscriptions/${id}/cancel`, { at_period_end: true }))).toMatchObject({
      status: "past_due",
      cancel_at_period_end: true,
    })
    await advance(api, clock, "2025-03-02T00:00:00Z")
    expect(await get(id)).toMatchObject({ status, cancel_at_period_end: true })
    const { latest_charge } = await get(id)
    expect(data(await api.get(`/charges/${latest_charge}`)).refund_due).toBe(false)
  })

  it.each(["cancel", "update"])("at a past period end sets the flag, by %s", async (verb) => {
    const { clock, id } = await subscribe(api, "2025-01-01T00:00:00Z", "pm_test_success_then_do_not_honor", {
      retry_logic: { max_attempts: 0, escalation_on_failure: "none", cancel_after_days_unpaid: null },
    })
    await advance(api, clock, "2025-03-01T00:10:00Z")
    const answer =
      verb === "cancel"
        ? await api.post(`/subscriptions/${id}/cancel`, { at_period_end: true, reason: null })
        : await api.patch(`/subscriptions/${id}`, { cancel_at_period_end: true })
    expect(data(answer)).toMatchObject({
      status: "cancelled",
      cancel_at_period_end: true,
      cancellation_reason: "merchant_request",
    })
  })

  it("now writes the debt off, and refunds nothing", async () => {
    const { clock, id } = await subscribe(api, "2025-01-01T00:00:00Z", "pm_test_success_then_do_not_honor")
    await advance(api, clock, "2025-02-01T00:00:00Z")
    data(await api.post(`/subscriptions/${id}/cancel`))
    const balance = await database.run(
      (sql) => sql<{ ledger_account: string; kobo: number }>`
        SELECT l.ledger_account, sum(l.amount_kobo)::bigint AS kobo FROM ledger_entry e
        JOIN ledger_line l ON (l.account_id, l.livemode, l.entry_id) = (e.account_id, e.livemode, e.id)
        WHERE e.subscription_id = ${id} GROUP BY 1 ORDER BY 1`,
    )
    expect(balance).toEqual([
      { ledger_account: "clearing", kobo: 500_000 },
      { ledger_account: "deferred_revenue", kobo: -500_000 },
      { ledger_account: "receivable", kobo: 0 },
    ])
  })
})
