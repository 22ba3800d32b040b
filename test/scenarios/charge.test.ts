import { Effect } from "effect"
import { describe, expect, it } from "vitest"
import type { ChargeRow } from "../../src/billing/charge/charge.ts"
import { settle } from "../../src/billing/payments/settle.ts"
import { useInstance } from "../support/instance.ts"
import { useServices } from "../support/services.ts"
import {
  advance,
  createClock,
  createCustomer,
  createPlan,
  data,
  refusal,
  subscribe,
  timeline,
} from "../support/story.ts"
import { useWhole } from "../support/whole.ts"

const { api, database, live, stranger } = useInstance()
useWhole(database)
const services = useServices(database)

const charge = (customer: string, body: object = {}, headers: Readonly<Record<string, string>> = {}) =>
  api.post("/charges", { customer, amount: 250_000, currency: "NGN", ...body }, headers)
const retry = (id: string, body: object = {}, headers: Readonly<Record<string, string>> = {}) =>
  api.post(`/charges/${id}/retry`, body, headers)
const customerWith = async (method: string, at = "2025-01-10T00:00:00Z") => {
  const clock = await createClock(api, at)
  const customer = await createCustomer(api, { test_clock: clock })
  data(await api.patch(`/customers/${customer}`, { default_payment_method: method }))
  return { clock, customer }
}
const books = (id: string) =>
  database.run(
    (sql) => sql<{ event: string; ledger_account: string; amount_kobo: number }>`
      SELECT e.event, l.ledger_account, l.amount_kobo FROM ledger_entry e
      JOIN ledger_line l ON (l.account_id, l.livemode, l.entry_id) = (e.account_id, e.livemode, e.id)
      WHERE e.charge_id = ${id} ORDER BY l.line_no`,
  )

describe("a one-off charge", () => {
  it("charges the default payment method once, and has a receipt, an event and an entry", async () => {
    const { customer } = await customerWith("pm_test_verve")
    const made = data(await charge(customer, { description: "Registration", metadata: { till: "3" } }), 201)
    expect(made).toMatchObject({
      object: "charge",
      amount: 250_000,
      currency: "NGN",
      status: "succeeded",
      customer,
      subscription: null,
      attempt_number: 1,
      will_retry: false,
      next_retry_at: null,
      failure_code: null,
      payment_method: { id: "pm_test_verve", brand: "verve" },
      processor: "simulator",
      description: "Registration",
      lines: [{ type: "one_off", description: "Registration", quantity: 1, unit_amount: 250_000, amount: 250_000 }],
      paid_at: "2025-01-10T00:00:00.000Z",
      created_at: "2025-01-10T00:00:00.000Z",
      metadata: { till: "3" },
    })
    expect(await timeline(api, [made.id])).toEqual(["2025-01-10T00:00 charge.succeeded succeeded"])
    expect(await books(made.id)).toEqual([
      { event: "paid", ledger_account: "clearing", amount_kobo: 250_000 },
      { event: "paid", ledger_account: "one_off_revenue", amount_kobo: -250_000 },
    ])
    expect(data(await api.get(`/charges/${made.id}?expand[]=customer`)).customer.id).toBe(customer)
  })

  it("that is declined returns 201, is not retried automatically and moves no money (F6)", async () => {
    const { clock, customer } = await customerWith("pm_test_insufficient_funds")
    const made = data(await charge(customer), 201)
    expect(made).toMatchObject({
      status: "failed",
      failure_code: "insufficient_funds",
      will_retry: false,
      paid_at: null,
    })
    await advance(api, clock, "2025-03-01T00:00:00Z")
    expect(await api.all(`/charges?customer=${customer}`)).toHaveLength(1)
    expect(await books(made.id)).toEqual([])
    expect(await timeline(api, [made.id])).toEqual(["2025-01-10T00:00 charge.failed failed"])
  })

  it.each([
    ["pm_test_pending_then_success", "2025-01-10T01:00", "succeeded"],
    ["pm_test_bank_account_insufficient_funds", "2025-01-10T01:00", "failed"],
    ["pm_test_timeout_then_success", "2025-01-10T00:00:10", "succeeded"],
    ["pm_test_timeout_then_failed", "2025-01-10T00:00:10", "failed"],
    ["pm_test_timeout_not_found", "2025-01-10T01:00", "failed"],
    ["pm_test_ussd_timeout", "2025-01-10T00:30", "failed"],
  ])("by %s is pending until the rail answers", async (method, at, status) => {
    const { clock, customer } = await customerWith(method)
    const made = data(await charge(customer), 201)
    expect(made.status).toBe("pending")
    expect(refusal(await retry(made.id))).toEqual([422, "charge_not_retryable", null])
    await advance(api, clock, "2025-01-11T00:00:00Z")
    expect(await timeline(api, [made.id])).toEqual([`${at} charge.${status} ${status}`])
    expect(data(await api.get(`/charges/${made.id}`)).status).toBe(status)
  })

  it("is refused with the correction to make", async () => {
    const bare = await createCustomer(api)
    expect(refusal(await charge(bare))).toEqual([422, "payment_method_required", null])
    expect(refusal(await charge(bare, { payment_method: "pm_test_typo" }))).toEqual([
      400,
      "parameter_invalid",
      "payment_method",
    ])
    expect(refusal(await charge("cus_none"))).toEqual([400, "resource_missing", "customer"])
    expect(refusal(await stranger.post("/charges", { customer: bare, amount: 100, currency: "NGN" }))).toEqual([
      400,
      "resource_missing",
      "customer",
    ])
    for (const [body, code, param] of [
      [{ amount: 99 }, "parameter_invalid", "amount"],
      [{ amount: 100.5 }, "parameter_invalid", "amount"],
      [{ amount: "100" }, "parameter_invalid", "amount"],
      [{ amount: 100_000_000_000 }, "parameter_invalid", "amount"],
      [{ currency: "USD" }, "parameter_invalid", "currency"],
      [{ description: "x".repeat(201) }, "parameter_invalid", "description"],
      [{ colour: "red" }, "parameter_unknown", "colour"],
    ] as const) {
      expect(refusal(await charge(bare, body))).toEqual([400, code, param])
    }
    expect(refusal(await api.post("/charges", { customer: bare }))).toEqual([400, "parameter_missing", "amount"])
  })

  it("at the same time as five others, with a method that works once: one is paid", async () => {
    const { customer } = await customerWith("pm_test_success_then_insufficient_funds")
    const answers = await Promise.all(Array.from({ length: 6 }, () => charge(customer)))
    expect(answers.map((answer) => data(answer, 201).status).sort()).toEqual([
      ...Array.from({ length: 5 }, () => "failed"),
      "succeeded",
    ])
  })

  it("is created once, however often the request is repeated", async () => {
    const { customer } = await customerWith("pm_test_success")
    const key = { "idempotency-key": `once-${customer}` }
    const answers = await Promise.all(Array.from({ length: 8 }, () => charge(customer, {}, key)))
    const made = answers.filter(({ status }) => status === 201)
    for (const { status, body } of answers.filter(({ status }) => status !== 201))
      expect([status, body.error.code]).toEqual([409, "idempotency_request_in_progress"])
    expect(new Set(made.map(({ body }) => body.data.id)).size).toBe(1)
    expect(await api.all(`/charges?customer=${customer}`)).toHaveLength(1)
  })
})

describe("retrying a one-off charge (decision E16)", () => {
  it("makes a new attempt, with the named payment method or the current default", async () => {
    const { customer } = await customerWith("pm_test_insufficient_funds")
    const first = data(await charge(customer, { description: "Fine", metadata: { a: "b" } }), 201)
    const second = data(await retry(first.id), 201)
    expect(second).toMatchObject({
      status: "failed",
      attempt_number: 2,
      amount: 250_000,
      description: "Fine",
      metadata: { a: "b" },
      lines: first.lines,
    })
    expect(second.id).not.toBe(first.id)
    data(await api.patch(`/customers/${customer}`, { default_payment_method: "pm_test_succeeds_on_attempt_3" }))
    expect(data(await retry(second.id), 201)).toMatchObject({ status: "succeeded", attempt_number: 3 })
  })

  it("keeps the named method, until another is named", async () => {
    const { customer } = await customerWith("pm_test_success")
    const first = data(await charge(customer, { payment_method: "pm_test_do_not_honor" }), 201)
    const second = data(await retry(first.id), 201)
    expect(second).toMatchObject({ status: "failed", payment_method: { id: "pm_test_do_not_honor" } })
    const third = data(await retry(second.id, { payment_method: "pm_test_visa" }), 201)
    expect(third).toMatchObject({ status: "succeeded", payment_method: { id: "pm_test_visa" } })
    expect(refusal(await retry(third.id))).toEqual([422, "charge_not_retryable", null])
    expect(refusal(await retry(first.id))).toEqual([422, "charge_not_retryable", null])
    // The request's objects are checked before the charge (A6).
    for (const [method, code] of [
      ["pm_none", "resource_missing"],
      ["pm_test_typo", "parameter_invalid"],
    ] as const)
      expect(refusal(await retry(third.id, { payment_method: method }))).toEqual([400, code, "payment_method"])
    // A method named in a refused request is not attached either.
    expect(refusal(await retry(third.id, { payment_method: "pm_test_verve" }))[1]).toBe("charge_not_retryable")
    const methods: ReadonlyArray<{ readonly id: string }> = await api.all(`/customers/${customer}/payment-methods`)
    expect(methods.map(({ id }) => id)).not.toContain("pm_test_verve")
  })

  it("by concurrent requests makes one attempt", async () => {
    const { customer } = await customerWith("pm_test_succeeds_on_attempt_2")
    const first = data(await charge(customer), 201)
    const answers = await Promise.all(Array.from({ length: 10 }, () => retry(first.id)))
    expect(answers.map(({ status }) => status).sort()).toEqual([201, ...Array.from({ length: 9 }, () => 422)])
    expect(await api.all(`/charges?customer=${customer}&status=succeeded`)).toHaveLength(1)
  })
})

describe("a late answer from the rail (decision F2)", () => {
  const say = (id: string, answer: Parameters<typeof settle>[0][number]["answer"]) =>
    services(
      Effect.gen(function* () {
        const [row] = yield* Effect.promise(() =>
          database.run((sql) => sql<ChargeRow>`SELECT * FROM charge WHERE id = ${id}`),
        )
        const at = Date.UTC(2025, 1, 1)
        yield* settle([{ charge: row!, answer, at }], () => at)
      }),
    )

  it("that contradicts the first is stored for reconciliation, and changes nothing", async () => {
    const { customer } = await customerWith("pm_test_success")
    const paid = data(await charge(customer), 201)
    const declined = data(await charge(customer, { payment_method: "pm_test_do_not_honor" }), 201)
    await say(paid.id, { type: "rail.succeeded" })
    await say(paid.id, { type: "rail.failed", code: "suspected_fraud", message: null })
    await say(paid.id, { type: "rail.failed", code: "suspected_fraud", message: null })
    await say(declined.id, { type: "rail.succeeded" })
    expect(data(await api.get(`/charges/${paid.id}`))).toEqual(paid)
    expect(data(await api.get(`/charges/${declined.id}`))).toEqual(declined)
    const exceptions = await database.run(
      (sql) => sql<{ charge: string }>`
        SELECT charge, settled_as, rail_says, failure_code, amount_kobo FROM finance.reconciliation_exceptions
        WHERE customer = ${customer} ORDER BY charge`,
    )
    expect(exceptions).toEqual([
      {
        charge: paid.id,
        settled_as: "succeeded",
        rail_says: "failed",
        failure_code: "suspected_fraud",
        amount_kobo: 250_000,
      },
      { charge: declined.id, settled_as: "failed", rail_says: "succeeded", failure_code: null, amount_kobo: 250_000 },
    ])
    expect(await timeline(api, [paid.id, declined.id])).toHaveLength(2)
  })
})

describe("a customer's payment methods (decision C4)", () => {
  it("are attached by naming them, listed newest first, and removed", async () => {
    const customer = await createCustomer(api)
    for (const default_payment_method of ["pm_test_success", "pm_test_bank_account", "pm_test_ussd"]) {
      data(await api.patch(`/customers/${customer}`, { default_payment_method }))
    }
    const path = `/customers/${customer}/payment-methods`
    const listed = await api.get(path)
    expect(listed.body.data.map(({ id }: { id: string }) => id)).toEqual([
      "pm_test_ussd",
      "pm_test_bank_account",
      "pm_test_success",
    ])
    expect(listed.body.data[1]).toMatchObject({
      object: "payment_method",
      livemode: false,
      customer,
      type: "bank_account",
      bank_name: "Test Bank",
      brand: null,
    })
    const page = await api.get(`${path}?limit=1&starting_after=pm_test_ussd`)
    expect(page.body.data.map(({ id }: { id: string }) => id)).toEqual(["pm_test_bank_account"])
    expect(page.body.meta).toEqual({ has_more: true, next_cursor: "pm_test_bank_account", limit: 1 })
    expect(refusal(await api.get(`${path}?starting_after=pm_test_visa`))).toEqual([
      400,
      "parameter_invalid",
      "starting_after",
    ])

    expect(data(await api.delete(`${path}/pm_test_ussd`))).toEqual({
      id: "pm_test_ussd",
      object: "payment_method",
      livemode: false,
      deleted: true,
    })
    expect(data(await api.get(`/customers/${customer}`)).default_payment_method).toBeNull()
    expect(refusal(await api.delete(`${path}/pm_test_ussd`))).toEqual([404, "resource_missing", null])
    expect(refusal(await stranger.get(path))).toEqual([404, "resource_missing", null])
    expect(refusal(await stranger.delete(`${path}/pm_test_success`))).toEqual([404, "resource_missing", null])
  })

  it("that are removed leave subscriptions with the customer's default, without an event for ended ones", async () => {
    const own = await subscribe(api, "2025-01-10T00:00:00Z", "pm_test_success")
    const over = data(
      await api.post("/subscriptions", { customer: own.customer, plan: own.plan, payment_method: "pm_test_success" }),
      201,
    )
    data(await api.post(`/subscriptions/${over.id}/cancel`))
    data(await api.delete(`/customers/${own.customer}/payment-methods/pm_test_success`))
    expect((await timeline(api, [own.id])).at(-1)).toBe("2025-01-10T00:00 subscription.updated active")
    const [updated] = (await api.get("/events?type=subscription.updated&limit=1")).body.data
    expect(updated.data.previous_attributes).toEqual({ payment_method: "pm_test_success" })
    expect((await timeline(api, [over.id])).at(-1)).toBe("2025-01-10T00:00 subscription.cancelled cancelled")
    // With none left the renewal fails for that reason (E22).
    await advance(api, own.clock, "2025-02-10T00:00:00Z")
    const { latest_charge } = data(await api.get(`/subscriptions/${own.id}`))
    expect(data(await api.get(`/charges/${latest_charge}`))).toMatchObject({
      status: "failed",
      failure_code: "payment_method_inactive",
      payment_method: null,
    })
  })

  it("of the sandbox are listed with their behaviour, in the sandbox only", async () => {
    const { data: methods, meta } = (await api.get("/payment-method-test-ids")).body
    expect(meta.has_more).toBe(false)
    expect(methods.find(({ id }: { id: string }) => id === "pm_test_ussd")).toEqual({
      id: "pm_test_ussd",
      object: "test_payment_method",
      livemode: false,
      type: "ussd",
      brand: null,
      last4: null,
      bank_name: "Test Bank",
      exp_month: null,
      exp_year: null,
      behaviour: "Pending, succeeds 10 minutes later.",
    })
    const plan = await createPlan(api)
    expect(plan).toMatch(/^plan_/)
    for (const { id } of methods.slice(0, 20)) {
      const customer = await createCustomer(api)
      data(await api.patch(`/customers/${customer}`, { default_payment_method: id }))
    }
    expect(refusal(await live.get("/payment-method-test-ids"))).toEqual([404, "route_missing", null])
  })
})
