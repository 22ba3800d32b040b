/** Tests checkout sessions by the API (decisions G1 to G6, G9): requests, responses and events. */
import { describe, expect, it } from "vitest"
import { createAccount } from "../../src/merchants/account/accounts.ts"
import { createKey } from "../../src/security/key/apiKeys.ts"
import type { Scopes } from "../../src/security/key/scopes.ts"
import { hashToken } from "../../src/security/secret/linkTokens.ts"
import { createApi } from "../support/api.ts"
import { ADA, checkout, createSession, declined, open, pay, START, submit, URLS } from "../support/checkout.ts"
import { dump } from "../support/dump.ts"
import { useInstance } from "../support/instance.ts"
import {
  advance,
  charges,
  createClock,
  createCustomer,
  createPlan,
  data,
  eventually,
  refusal,
  timeline,
} from "../support/story.ts"
import { useWhole } from "../support/whole.ts"

const { api, live, stranger, database, server, accountId } = useInstance()
useWhole(database)

const subscriptionOf = async (id: string) => data(await api.get(`/subscriptions/${id}`))
const sessionOf = async (id: string) => data(await api.get(`/checkout-sessions/${id}`))
const expire = (id: string) => api.post(`/checkout-sessions/${id}/expire`)

const keyed = async (type: "publishable" | "restricted", may: { scopes?: Scopes } = {}) => {
  const { key } = await database.run(() => createKey({ account_id: accountId(), livemode: false }, type, may))
  return createApi(server().origin, key)
}

describe("a session", () => {
  it("of a customer includes the subscription that waits for it", async () => {
    const { clock, customer, plan, id, url, subscription } = await checkout(api, {
      session: { quantity: 2, expires_in_minutes: 30, metadata: { order: "1" } },
    })
    expect(url).toMatch(new RegExp(`^${server().origin}/checkout/00[A-Za-z0-9_-]{51}$`))
    expect(await sessionOf(id)).toEqual({
      id: expect.stringMatching(/^cs_/),
      object: "checkout_session",
      livemode: false,
      created_at: "2026-01-31T09:00:00.000Z",
      mode: "subscription",
      status: "open",
      url,
      customer,
      plan,
      quantity: 2,
      subscription,
      ...URLS,
      expires_at: "2026-01-31T09:30:00.000Z",
      metadata: { order: "1" },
    })
    expect(await subscriptionOf(subscription)).toMatchObject({
      status: "incomplete",
      customer,
      plan,
      quantity: 2,
      payment_method: null,
      latest_charge: null,
      next_charge_at: null,
    })
    expect(await timeline(api, [id, subscription])).toEqual(["2026-01-31T09:00 subscription.created incomplete"])
    // Nothing is charged before the buyer pays, and nothing is due.
    await advance(api, clock, "2026-01-31T09:29:59Z")
    expect(await charges(api, subscription)).toEqual([])
  })

  it("without a customer creates none before the buyer submits the page", async () => {
    const plan = await createPlan(api)
    const before = Date.now()
    const session = await createSession(api, { plan })
    expect(session).toMatchObject({ customer: null, subscription: null, quantity: 1, plan, metadata: {} })
    expect(Date.parse(session.expires_at) - Date.parse(session.created_at)).toBe(24 * 3_600_000)
    expect(Date.parse(session.created_at)).toBeGreaterThanOrEqual(before)
    expect(data(await pay(session.url, "pm_test_success", ADA)).status).toBe("completed")
    const done = await sessionOf(session.id)
    expect(await subscriptionOf(done.subscription)).toMatchObject({ status: "active", plan })
    expect(data(await api.get(`/customers/${done.customer}`))).toMatchObject({
      name: "Ada Obi",
      email: "ada@example.com",
      phone: "+2348031234567",
      test_clock: null,
      default_payment_method: { id: "pm_test_success" },
    })
  })

  it("for saving a payment method has no plan", async () => {
    const customer = await createCustomer(api)
    for (const whose of [{}, { customer }]) {
      expect(await createSession(api, { mode: "setup", ...whose })).toMatchObject({
        mode: "setup",
        customer: "customer" in whose ? customer : null,
        plan: null,
        quantity: null,
        subscription: null,
      })
    }
  })

  it.each(["http://localhost:3000/a", "http://127.0.0.1/a", "http://[::1]:8080/a"])(
    "redirects to %s in the sandbox only",
    async (success_url) => {
      const fields = { mode: "setup", ...URLS, success_url }
      expect(data(await api.post("/checkout-sessions", fields), 201).success_url).toBe(success_url)
      expect(refusal(await live.post("/checkout-sessions", fields))).toEqual([400, "parameter_invalid", "success_url"])
    },
  )
})

describe("creation of a session is refused", () => {
  const LONG = `https://shop.example/${"a".repeat(2048)}`
  const BAD_URLS: ReadonlyArray<string> = [
    "http://shop.example/a",
    "http://localhost.shop.example/a",
    "https://ada@shop.example/a",
    "https://ada:pw@shop.example/a",
    "https://shop.example/\u0007",
    "https://shop.example/\r\nset-cookie: a=b",
    " https://shop.example/a",
    "https://shop.example/a b",
    "javascript:alert(1)",
    "data:text/html,hello",
    "ftp://shop.example/a",
    "//shop.example/a",
    "shop.example/a",
    "https://",
    "",
    LONG,
  ]
  const inSetup = (fields: object) => ({ mode: "setup", ...URLS, ...fields })
  const CASES: ReadonlyArray<readonly [string, object, ReadonlyArray<unknown>]> = [
    ["no mode", { ...URLS }, [400, "parameter_missing", "mode"]],
    ["an unknown mode", { ...URLS, mode: "payment" }, [400, "parameter_invalid", "mode"]],
    ["no plan", { ...URLS, mode: "subscription" }, [400, "parameter_missing", "plan"]],
    ["no success_url", { mode: "setup", cancel_url: URLS.cancel_url }, [400, "parameter_missing", "success_url"]],
    ["no cancel_url", { mode: "setup", success_url: URLS.success_url }, [400, "parameter_missing", "cancel_url"]],
    ["a quantity in setup (G5)", inSetup({ quantity: 1 }), [400, "parameter_invalid", "quantity"]],
    ["too short a life", inSetup({ expires_in_minutes: 29 }), [400, "parameter_invalid", "expires_in_minutes"]],
    ["too long a life", inSetup({ expires_in_minutes: 1441 }), [400, "parameter_invalid", "expires_in_minutes"]],
    ["half a minute", inSetup({ expires_in_minutes: 30.5 }), [400, "parameter_invalid", "expires_in_minutes"]],
    ["minutes in words", inSetup({ expires_in_minutes: "60" }), [400, "parameter_invalid", "expires_in_minutes"]],
    ["an unknown parameter", inSetup({ sucess_url: "a" }), [400, "parameter_unknown", "sucess_url"]],
    [
      "two bad addresses, the first of which it names (A5)",
      { mode: "setup", cancel_url: "http://shop.example/b", success_url: "http://shop.example/a" },
      [400, "parameter_invalid", "cancel_url"],
    ],
    [
      "a bad address before a quantity in setup",
      { mode: "setup", ...URLS, success_url: "http://a.example/", quantity: 1 },
      [400, "parameter_invalid", "success_url"],
    ],
    ["an unknown customer", inSetup({ customer: "cus_none" }), [400, "resource_missing", "customer"]],
    ...BAD_URLS.flatMap((url) =>
      ["success_url", "cancel_url"].map(
        (name) => [`${name} ${url.slice(0, 40)}`, inSetup({ [name]: url }), [400, "parameter_invalid", name]] as const,
      ),
    ),
  ]

  it.each(CASES)("with %s", async (_, body, expected) => {
    expect(refusal(await api.post("/checkout-sessions", body))).toEqual(expected)
  })

  it("accepts addresses and lifetimes at their limits", async () => {
    const success_url = `https://shop.example/${"a".repeat(2048 - "https://shop.example/".length)}`
    for (const expires_in_minutes of [30, 1440]) {
      const { created_at, expires_at } = await createSession(api, { mode: "setup", success_url, expires_in_minutes })
      expect(Date.parse(expires_at) - Date.parse(created_at)).toBe(expires_in_minutes * 60_000)
    }
  })

  it("for unknown plans and customers, archived plans, and too large amounts", async () => {
    const create = (fields: object) => api.post("/checkout-sessions", { mode: "subscription", ...URLS, ...fields })
    const plan = await createPlan(api)
    expect(refusal(await create({ plan: "pln_none" }))).toEqual([400, "resource_missing", "plan"])
    expect(refusal(await create({ mode: "setup", plan }))).toEqual([400, "parameter_invalid", "plan"])
    const [theirs, liveOnes] = await Promise.all(
      [stranger, live].map(async (other) => ({ plan: await createPlan(other), customer: await createCustomer(other) })),
    )
    for (const other of [theirs!, liveOnes!]) {
      expect(refusal(await create({ plan: other.plan }))).toEqual([400, "resource_missing", "plan"])
      expect(refusal(await create({ plan, customer: other.customer }))).toEqual([400, "resource_missing", "customer"])
    }
    const dear = await createPlan(api, { amount: 50_000_000_000 })
    expect(refusal(await create({ plan: dear, quantity: 2 }))).toEqual([400, "parameter_invalid", "quantity"])
    for (const quantity of [0, 1.5, -1])
      expect(refusal(await create({ plan, quantity }))).toEqual([400, "parameter_invalid", "quantity"])
    data(await api.post(`/plans/${plan}/archive`))
    expect(refusal(await create({ plan }))).toEqual([422, "plan_archived", null])
    data(await api.post(`/plans/${plan}/unarchive`))
    data(await create({ plan }), 201)
  })
})

describe("sessions are found", () => {
  it("one by one, in lists with filters and cursors, and with expanded objects", async () => {
    const { id, customer, plan, subscription, url } = await checkout(api)
    const [second, third] = [
      await createSession(api, { customer, mode: "setup" }),
      await createSession(api, { customer, mode: "setup" }),
    ]
    data(await expire(second.id))
    const list = async (query: string) => {
      const { body } = await api.get(`/checkout-sessions?${query}`)
      return [body.data.map((one: { id: string }) => one.id), body.meta.has_more, body.meta.next_cursor]
    }
    expect(await list(`customer=${customer}`)).toEqual([[third.id, second.id, id], false, null])
    expect(await list(`customer=${customer}&status=open`)).toEqual([[third.id, id], false, null])
    expect(await list(`customer=${customer}&status=expired`)).toEqual([[second.id], false, null])
    expect(await list(`customer=${customer}&status=completed`)).toEqual([[], false, null])
    expect(await list(`customer=${customer}&limit=2`)).toEqual([[third.id, second.id], true, second.id])
    expect(await list(`customer=${customer}&limit=2&starting_after=${second.id}`)).toEqual([[id], false, null])
    expect(await list(`customer=${customer}&limit=1&ending_before=${id}`)).toEqual([[second.id], true, second.id])
    expect(refusal(await api.get("/checkout-sessions?status=paid"))).toEqual([400, "parameter_invalid", "status"])
    expect(refusal(await api.get(`/checkout-sessions?starting_after=${customer}`))).toEqual([
      400,
      "parameter_invalid",
      "starting_after",
    ])
    const expanded = data(
      await api.get(`/checkout-sessions/${id}?expand[]=customer&expand[]=plan&expand[]=subscription`),
    )
    expect([expanded.customer.id, expanded.plan.id, expanded.subscription.id, expanded.url]).toEqual([
      customer,
      plan,
      subscription,
      url,
    ])
    expect(refusal(await api.get(`/checkout-sessions/${id}?expand[]=charge`))[1]).toBe("parameter_invalid")
  })

  it("only by their own account and environment, and only by keys with the scope", async () => {
    const { id } = await checkout(api)
    for (const other of [stranger, live]) {
      expect(refusal(await other.get(`/checkout-sessions/${id}`))).toEqual([404, "resource_missing", null])
      expect(refusal(await other.post(`/checkout-sessions/${id}/expire`))).toEqual([404, "resource_missing", null])
      expect((await other.all("/checkout-sessions")).filter((one) => one.id === id)).toEqual([])
    }
    const reading = await keyed("restricted", { scopes: { checkout_sessions: "read" } })
    expect(data(await reading.get(`/checkout-sessions/${id}`)).id).toBe(id)
    for (const refused of [
      await reading.post(`/checkout-sessions/${id}/expire`),
      await reading.post("/checkout-sessions", { mode: "setup", ...URLS }),
      await reading.get(`/checkout-sessions/${id}?expand[]=plan`),
    ])
      expect(refusal(refused)).toEqual([403, "insufficient_scope", null])
    const both = await keyed("restricted", { scopes: { checkout_sessions: "write", plans: "read" } })
    expect(data(await both.get(`/checkout-sessions/${id}?expand[]=plan`)).plan.object).toBe("plan")
    expect(refusal(await both.get(`/checkout-sessions/${id}?expand[]=subscription`))[1]).toBe("insufficient_scope")
    const publishable = await keyed("publishable")
    expect(refusal(await publishable.get(`/checkout-sessions/${id}`))).toEqual([403, "secret_key_required", null])
    expect(data(await both.post(`/checkout-sessions/${id}/expire`)).status).toBe("expired")
    expect(refusal(await api.get("/checkout-sessions/cs_none"))).toEqual([404, "resource_missing", null])
  })
})

describe("a repeated request", () => {
  it("gets the same session with the same address, and one subscription", async () => {
    const [customer, plan] = [await createCustomer(api), await createPlan(api)]
    const body = { mode: "subscription", customer, plan, ...URLS }
    const key = { "idempotency-key": "one checkout" }
    const answers = await Promise.all(
      Array.from({ length: 4 }, () =>
        eventually(async () => {
          const answer = await api.post("/checkout-sessions", body, key)
          return answer.status === 409 ? undefined : answer
        }),
      ),
    )
    const [first] = answers
    for (const answer of answers) expect(answer.body).toEqual(first!.body)
    expect(data(first!, 201).url).toContain("/checkout/")
    expect(answers.filter(({ headers }) => headers.get("idempotent-replayed") === "true")).toHaveLength(3)
    expect(await api.all(`/checkout-sessions?customer=${customer}`)).toHaveLength(1)
    expect(await api.all(`/subscriptions?customer=${customer}`)).toHaveLength(1)
    const other = await api.post("/checkout-sessions", { ...body, quantity: 2 }, key)
    expect(refusal(other)[1]).toBe("idempotency_key_reused")
  })
})

describe("metering (decision K1)", () => {
  it("counts creation and expiry in live, and no buyer's action", async () => {
    const made = await database.run(() => createAccount({ businessName: "Metered", liveAccess: "approved" }))
    const merchant = createApi(server().origin, made.keys.sk_live!, "live")
    const used = async () => data(await merchant.get("/usage")).write_requests.used
    const plan = await createPlan(merchant)
    const fields = { mode: "subscription", plan, ...URLS }
    const first = await merchant.post("/checkout-sessions", fields)
    expect(first.headers.get("x-service-billable")).toBe("true")
    const { url } = data(first, 201)
    expect(await used()).toBe(2)
    expect(declined(await pay(url, "pm_test_do_not_honor", ADA))).toEqual([402, "card_declined", "do_not_honor"])
    expect(data(await pay(url, "pm_test_success", ADA)).status).toBe("completed")
    expect((await open(url)).status).toBe(200)
    expect(await used()).toBe(2)
    const second = data(await merchant.post("/checkout-sessions", fields), 201)
    const expired = await merchant.post(`/checkout-sessions/${second.id}/expire`)
    expect([expired.status, expired.headers.get("x-service-billable")]).toEqual([200, "true"])
    expect(await used()).toBe(4)
    const again = await merchant.post(`/checkout-sessions/${second.id}/expire`)
    expect([again.status, again.headers.get("x-service-billable")]).toEqual([422, "false"])
    const free = await api.post("/checkout-sessions", { mode: "setup", ...URLS })
    expect([free.status, free.headers.get("x-service-billable")]).toEqual([201, "false"])
  })
})

describe("expiry", () => {
  it("by request cancels the subscription that waits, and emits the exact events", async () => {
    const { id, subscription, url } = await checkout(api)
    const answer = data(await expire(id))
    expect(answer).toEqual({ ...(await sessionOf(id)), status: "expired", url })
    expect(await subscriptionOf(subscription)).toMatchObject({
      status: "cancelled",
      cancellation_reason: "checkout_expired",
      cancelled_at: "2026-01-31T09:00:00.000Z",
    })
    expect(await timeline(api, [id, subscription])).toEqual([
      "2026-01-31T09:00 subscription.created incomplete",
      "2026-01-31T09:00 subscription.cancelled cancelled",
      "2026-01-31T09:00 checkout_session.expired expired",
    ])
    const [event] = (await api.all("/events?type=checkout_session.expired")).filter((one) => one.data.object.id === id)
    expect(event.data).toEqual({ object: { ...answer, url: null }, previous_attributes: { status: "open" } })
    expect(refusal(await expire(id))).toEqual([422, "checkout_session_not_open", null])
    expect(refusal(await pay(url, "pm_test_success"))).toEqual([422, "checkout_session_not_open", null])
    expect(await charges(api, subscription)).toEqual([])
  })

  it("of a completed session is refused, and says what the session led to", async () => {
    const { id, url } = await checkout(api)
    data(await pay(url, "pm_test_success"))
    const refused = await expire(id)
    expect(refusal(refused)).toEqual([422, "checkout_session_not_open", null])
    expect(refused.body.error.message).toBe("The checkout session was completed at 2026-01-31T09:00:00.000Z.")
  })

  it("by time happens at expires_at, not before, and not to completed sessions", async () => {
    const [first, early, late] = await Promise.all([
      checkout(api, { session: { expires_in_minutes: 45 } }),
      checkout(api, { session: { expires_in_minutes: 45 } }),
      checkout(api, { session: { expires_in_minutes: 45 } }),
    ])
    await Promise.all([
      advance(api, first.clock, "2026-01-31T09:45:00Z"),
      advance(api, early.clock, "2026-01-31T09:44:59.999Z"),
      advance(api, late.clock, "2026-02-02T00:00:00Z"),
    ])
    for (const { id, subscription } of [first, late])
      expect(await timeline(api, [id, subscription])).toEqual([
        "2026-01-31T09:00 subscription.created incomplete",
        "2026-01-31T09:45 subscription.cancelled cancelled",
        "2026-01-31T09:45 checkout_session.expired expired",
      ])
    expect((await sessionOf(early.id)).status).toBe("open")
    expect(data(await pay(early.url, "pm_test_success")).status).toBe("completed")
    await advance(api, early.clock, "2026-02-01T09:00:00Z")
    expect((await sessionOf(early.id)).status).toBe("completed")
    expect((await subscriptionOf(early.subscription)).status).toBe("active")
    expect(refusal(await pay(first.url, "pm_test_success"))[1]).toBe("checkout_session_not_open")
  })

  it("comes after a rail's answer at the same instant, and after timers of subscriptions", async () => {
    const plan = { billing_cycle: "daily" }
    const { clock, customer, id, url, subscription } = await checkout(api, {
      session: { expires_in_minutes: 60 },
      plan,
    })
    // Renewed a day later, at the instant at which the second session expires.
    const daily = await createPlan(api, { billing_cycle: "daily" })
    const renewing = data(
      await api.post("/subscriptions", { customer, plan: daily, payment_method: "pm_test_success" }),
      201,
    ).id
    const other = await createSession(api, { customer, plan: await createPlan(api), expires_in_minutes: 1440 })
    expect(data(await pay(url, "pm_test_bank_account")).status).toBe("pending")
    await advance(api, clock, "2026-02-01T09:00:00Z")
    expect((await sessionOf(id)).status).toBe("completed")
    expect(await timeline(api, [id, subscription, renewing, other.id, other.subscription])).toEqual([
      "2026-01-31T09:00 subscription.created incomplete",
      "2026-01-31T09:00 subscription.created active",
      "2026-01-31T09:00 charge.succeeded succeeded",
      "2026-01-31T09:00 subscription.created incomplete",
      "2026-01-31T10:00 charge.succeeded succeeded",
      "2026-01-31T10:00 subscription.updated active",
      "2026-01-31T10:00 checkout_session.completed completed",
      "2026-02-01T09:00 charge.succeeded succeeded",
      "2026-02-01T09:00 subscription.renewed active",
      // The bank pays the renewal too, and the renewal waits for the bank again.
      "2026-02-01T09:00 subscription.cancelled cancelled",
      "2026-02-01T09:00 checkout_session.expired expired",
    ])
  })
})

describe("the terms of a session", () => {
  it("are those at its creation, and later changes of the plan do not affect them", async () => {
    const plan = await createPlan(api, { amount: 400_000, trial_days: 7 })
    const clock = await createClock(api, START)
    const customer = await createCustomer(api, { test_clock: clock })
    const sessions = [
      await createSession(api, { plan, customer, quantity: 3 }),
      await createSession(api, { plan, quantity: 3 }),
    ]
    const paying = await createPlan(api, { amount: 400_000 })
    const atOnce = await createSession(api, { plan: paying, quantity: 3 })
    for (const one of [plan, paying]) {
      data(await api.patch(`/plans/${one}`, { amount: 900_000, trial_days: one === plan ? 0 : 30 }))
      data(await api.post(`/plans/${one}/archive`))
    }
    for (const { id, url } of sessions) {
      expect(data(await pay(url, "pm_test_success", ADA)).status).toBe("completed")
      const { subscription } = await sessionOf(id)
      expect(await subscriptionOf(subscription)).toMatchObject({ status: "trialing", quantity: 3 })
      expect(await charges(api, subscription)).toEqual([])
    }
    await advance(api, clock, "2026-02-08T09:00:00Z")
    const { subscription } = await sessionOf(sessions[0]!.id)
    expect(await charges(api, subscription)).toEqual(["2026-02-07T09:00 1200000 succeeded #1"])
    expect(data(await pay(atOnce.url, "pm_test_success", { ...ADA, amount: 1_200_000 })).status).toBe("completed")
    const [charge] = await api.all(`/charges?subscription=${(await sessionOf(atOnce.id)).subscription}`)
    expect([charge.amount, charge.status]).toEqual([1_200_000, "succeeded"])
  })
})

describe("a merchant who changes the subscription that waits", () => {
  it("cancels it together with the session", async () => {
    const { id, url, subscription } = await checkout(api)
    data(await api.post(`/subscriptions/${subscription}/cancel`, { reason: "customer_request" }))
    expect(await timeline(api, [id, subscription])).toEqual([
      "2026-01-31T09:00 subscription.created incomplete",
      "2026-01-31T09:00 subscription.cancelled cancelled",
      "2026-01-31T09:00 checkout_session.expired expired",
    ])
    expect((await subscriptionOf(subscription)).cancellation_reason).toBe("customer_request")
    expect(refusal(await pay(url, "pm_test_success"))).toEqual([422, "checkout_session_not_open", null])
  })

  it("changes its quantity: a buyer who saw another amount must confirm again", async () => {
    const { url, subscription } = await checkout(api, { session: { quantity: 2 } })
    data(await api.patch(`/subscriptions/${subscription}`, { quantity: 3 }))
    expect(refusal(await pay(url, "pm_test_success", { amount: 1_000_000 }))).toEqual([422, "amount_changed", "amount"])
    expect(await charges(api, subscription)).toEqual([])
    expect(data(await pay(url, "pm_test_success", { amount: 1_500_000 })).status).toBe("completed")
    expect(await charges(api, subscription)).toEqual(["2026-01-31T09:00 1500000 succeeded #1"])
    expect((await subscriptionOf(subscription)).quantity).toBe(3)
  })

  it("can schedule its cancellation at the end of its first period", async () => {
    const { clock, id, url, subscription } = await checkout(api)
    data(await api.patch(`/subscriptions/${subscription}`, { cancel_at_period_end: true }))
    expect((await sessionOf(id)).status).toBe("open")
    expect(data(await pay(url, "pm_test_success")).status).toBe("completed")
    await advance(api, clock, "2026-03-05T00:00:00Z")
    expect(await timeline(api, [id, subscription])).toEqual([
      "2026-01-31T09:00 subscription.created incomplete",
      "2026-01-31T09:00 subscription.updated incomplete",
      "2026-01-31T09:00 charge.succeeded succeeded",
      "2026-01-31T09:00 subscription.updated active",
      "2026-01-31T09:00 checkout_session.completed completed",
      "2026-02-28T09:00 subscription.cancelled cancelled",
    ])
  })

  it("cannot pause or resume it, nor retry a charge that was declined on the page", async () => {
    const { url, subscription } = await checkout(api)
    expect(declined(await pay(url, "pm_test_do_not_honor"))).toEqual([402, "card_declined", "do_not_honor"])
    for (const verb of ["pause", "resume"])
      expect(refusal(await api.post(`/subscriptions/${subscription}/${verb}`))).toEqual([
        422,
        "subscription_state_invalid",
        null,
      ])
    const { latest_charge } = await subscriptionOf(subscription)
    expect(refusal(await api.post(`/charges/${latest_charge}/retry`, { payment_method: "pm_test_visa" }))).toEqual([
      422,
      "charge_not_retryable",
      null,
    ])
    expect(await charges(api, subscription)).toEqual(["2026-01-31T09:00 500000 failed #1"])
  })
})

describe("a session's token", () => {
  it("is in no event, webhook or row: only its hash is stored", async () => {
    const { id, url, subscription } = await checkout(api)
    const token = url.split("/").at(-1)!
    data(await api.post("/webhook-endpoints", { url: "https://shop.example/hooks", enabled_events: ["*"] }), 201)
    const kept = await api.post(
      "/checkout-sessions",
      { mode: "setup", ...URLS },
      { "idempotency-key": "a session that is kept" },
    )
    const other = data(kept, 201).url.split("/").at(-1)
    const triggered = data(
      await api.post("/test/events/trigger", { type: "checkout_session.completed", object: id }),
      201,
    )
    expect([triggered.data.object.id, triggered.data.object.url]).toEqual([id, null])
    data(await pay(url, "pm_test_success"))
    const rows = await dump(database)
    for (const secret of [token, other]) {
      const spellings = [secret, Buffer.from(secret).toString("hex"), Buffer.from(secret).toString("base64")]
      for (const spelling of spellings)
        expect(rows.filter((row) => row.includes(spelling)).map((row) => row.split(" ")[0])).toEqual([])
      const hash = hashToken(secret)
      expect(rows.filter((row) => row.includes(hash)).map((row) => row.split(" ")[0])).toEqual([
        "public.checkout_session",
      ])
    }
    // The search covers all tables.
    expect(rows.filter((row) => row.includes(subscription)).length).toBeGreaterThan(5)
  })
})

describe("a buyer's input", () => {
  it("of cards and codes is in no row and no log line", async () => {
    const card = { card_number: "5060 6666 6666 6666 666", card_expiry: "11/39", card_cvc: "9471" }
    const { url, subscription } = await checkout(api)
    expect(declined(await submit(url, { ...card, otp: "80417735" }))).toEqual([
      402,
      "card_declined",
      "authentication_failed",
    ])
    expect(data(await submit(url, { ...card, card_number: "4242424242424242" })).status).toBe("completed")
    const rows = await dump(database)
    const logText = server().output()
    // Four digits alone are part of many hashes, and may equal a number in a column.
    for (const typed of [
      /5060 6666 6666/,
      /50606666/,
      /4242424242424242/,
      /11\/39/,
      /(?<![\w.,(])9471(?!\w)/,
      /80417735/,
    ]) {
      expect(rows.filter((row) => typed.test(row)).map((row) => row.split(" ")[0])).toEqual([])
      expect(logText).not.toMatch(typed)
    }
    expect(logText).not.toContain(url.split("/").at(-1))
    expect(rows.filter((row) => row.includes(subscription)).length).toBeGreaterThan(5)
  })
})

describe("a session's customer", () => {
  it("is deleted with its test clock", async () => {
    const { clock, id, url, subscription } = await checkout(api)
    data(await pay(url, "pm_test_success"))
    const { id: second } = await checkout(api)
    data(await api.delete(`/test/clocks/${clock}`))
    expect(refusal(await api.get(`/checkout-sessions/${id}`))).toEqual([404, "resource_missing", null])
    expect(refusal(await api.get(`/subscriptions/${subscription}`))[0]).toBe(404)
    expect((await open(url)).status).toBe(404)
    expect((await sessionOf(second)).status).toBe("open")
  })

  it("is deleted when the sandbox is reset", async () => {
    const made = await database.run(() => createAccount({ businessName: "Reset", liveAccess: "approved" }))
    const [sandbox, real] = [
      createApi(server().origin, made.keys.sk_test),
      createApi(server().origin, made.keys.sk_live!, "live"),
    ]
    const [{ url, id }, kept] = [await checkout(sandbox), await createSession(real, { plan: await createPlan(real) })]
    data(await pay(url, "pm_test_success"))
    const left = await createSession(sandbox, { mode: "setup" })
    expect((await sandbox.post("/test/reset", { confirm: "RESET" })).status).toBe(202)
    await eventually(async () =>
      (await sandbox.post("/customers", { name: "New" })).status === 201 ? true : undefined,
    )
    expect(await sandbox.all("/checkout-sessions")).toEqual([])
    expect((await open(url)).status).toBe(404)
    expect(refusal(await submit(left.url, { payment_method: "pm_test_success", ...ADA }))).toEqual([
      404,
      "resource_missing",
      null,
    ])
    expect(refusal(await sandbox.get(`/checkout-sessions/${id}`))[0]).toBe(404)
    expect(data(await real.get(`/checkout-sessions/${kept.id}`)).status).toBe("open")
  })
})
