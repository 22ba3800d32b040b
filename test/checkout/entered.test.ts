/** Tests the charges after a payment method is entered on a page: they match its text (decisions E6, E25, G17). */
import { describe, expect, it } from "vitest"
import { createSession, hidden, markup, nudge, open, pay, type Shown, submit, submitForm } from "../support/checkout.ts"
import { useInstance } from "../support/instance.ts"
import { advance, charges, createClock, createCustomer, createPlan, data, refusal, timeline } from "../support/story.ts"
import { useWhole } from "../support/whole.ts"

const { api, database } = useInstance()
useWhole(database)

const FIRST = "2025-03-01T00:00:00Z"
const CARD = { card_number: "4242 4242 4242 4242", card_expiry: "12/34", card_cvc: "123" }
const NOTICE = "₦1,000.00 that you owe for Gym is charged to this payment method now as well."

const get = async (id: string) => data(await api.get(`/subscriptions/${id}`))
const button = (shown: Shown) => /<button class="button"[^>]*>([^<]*)</.exec(markup(shown))![1]

interface OverdueSetup {
  /** The customer's default method. undefined: only the subscription has a method. */
  readonly default?: string
  /** The subscription's own. */
  readonly own?: string
  readonly at?: string
  readonly plan?: object
}

/** A customer who has owed ₦1,000.00 for a gym since 1 April 2025. */
const makeOverdue = async ({ default: theirs, own, at = "2025-04-01T12:00:00Z", plan = {} }: OverdueSetup) => {
  const clock = await createClock(api, FIRST)
  const customer = await createCustomer(api, { test_clock: clock, phone: "+2348031234567" })
  if (theirs !== undefined) data(await api.patch(`/customers/${customer}`, { default_payment_method: theirs }))
  const gym = await createPlan(api, { amount: 100_000, ...plan })
  const body = { customer, plan: gym, ...(own === undefined ? {} : { payment_method: own }) }
  const { id } = data(await api.post("/subscriptions", body), 201)
  await advance(api, clock, at)
  const before = await charges(api, id)
  return {
    clock,
    customer,
    id,
    /** The attempts since then. */
    tried: async () => (await charges(api, id)).slice(before.length),
    method: async () => (await api.all(`/charges?subscription=${id}`))[0].payment_method.id,
    setup: () => createSession(api, { mode: "setup", customer }),
  }
}

/** The method that failed, and the stage that dunning has reached. */
const STATES: ReadonlyArray<readonly [string, OverdueSetup & { readonly method: string }]> = [
  [
    "the default again, after a failure of the own method that is not retryable",
    { default: "pm_test_success", own: "pm_test_success_then_expired_card", method: "pm_test_success" },
  ],
  [
    "the default again, while retries of the own method are left",
    { default: "pm_test_success", own: "pm_test_success_then_insufficient_funds", method: "pm_test_success" },
  ],
  [
    "the default again, while it is paused by escalation",
    {
      default: "pm_test_success",
      own: "pm_test_success_then_insufficient_funds",
      at: "2025-04-20T12:00:00Z",
      method: "pm_test_success",
    },
  ],
  [
    "the default again, which failed while retries are left",
    { default: "pm_test_success_then_insufficient_funds", method: "pm_test_success_then_insufficient_funds" },
  ],
  [
    "the subscription's own again",
    {
      default: "pm_test_success",
      own: "pm_test_success_then_expired_card",
      method: "pm_test_success_then_expired_card",
    },
  ],
  [
    "the subscription's own again, without a default",
    { own: "pm_test_success_then_insufficient_funds", method: "pm_test_success_then_insufficient_funds" },
  ],
  ["another one", { default: "pm_test_success", own: "pm_test_success_then_expired_card", method: "pm_test_visa" }],
]

describe.each(STATES)("%s", (_, { method, ...state }) => {
  const fails = method.includes("_then_")

  it("is charged as the setup page says", async () => {
    const { id, tried, method: paidWith, setup } = await makeOverdue(state)
    const { id: session, url } = await setup()
    const shown = await open(url)
    expect(markup(shown)).toContain(NOTICE)
    expect([button(shown), hidden(shown, "amount")]).toEqual(["Pay ₦1,000.00 and save payment method", "100000"])
    expect(data(await pay(url, method, { amount: 100_000 })).status).toBe("completed")
    expect(data(await api.get(`/checkout-sessions/${session}`)).status).toBe("completed")
    expect((await tried()).map((line) => line.split(" ").slice(1, 3).join(" "))).toEqual([
      fails ? "100000 failed" : "100000 succeeded",
    ])
    expect(await paidWith()).toBe(method)
    if (!fails) expect(await get(id)).toMatchObject({ status: "active", retry: null, escalation: null })
  })

  it("is charged in one sum, as the checkout page of another plan says", async () => {
    const { customer, tried } = await makeOverdue(state)
    // A later failure must fail the first payment too, so that plan starts with a trial.
    const plan = await createPlan(api, { name: "Pool", amount: 500_000, trial_days: fails ? 7 : 0 })
    const sum = fails ? 100_000 : 600_000
    const { url, subscription } = await createSession(api, { customer, plan })
    const shown = await open(url)
    expect(markup(shown)).toContain(NOTICE)
    expect([button(shown), hidden(shown, "amount")]).toEqual([
      fails ? "Pay ₦1,000.00 and start free trial" : "Pay ₦6,000.00",
      String(sum),
    ])
    expect(data(await pay(url, method, { amount: sum })).status).toBe("completed")
    expect((await tried()).map((line) => line.split(" ").slice(1, 3).join(" "))).toEqual([
      fails ? "100000 failed" : "100000 succeeded",
    ])
    expect(await charges(api, subscription)).toHaveLength(fails ? 0 : 1)
  })

  it("is charged as the link about another subscription says", async () => {
    const { customer, tried } = await makeOverdue(state)
    const plan = await createPlan(api, { name: "Pool", amount: 500_000 })
    const { id } = data(await api.post("/subscriptions", { customer, plan, payment_method: "pm_test_verve" }), 201)
    data(await api.patch(`/subscriptions/${id}`, { payment_method: null }))
    // It uses the default, and the saved method becomes the default.
    const link = await nudge(api, customer, id)
    expect(markup(await open(link))).toContain(NOTICE)
    expect(data(await pay(link, method))).toEqual({ status: "saved", amount: fails ? 0 : 100_000 })
    expect(await tried()).toHaveLength(1)
  })
})

it("the default's card, typed in a form, is charged (E6)", async () => {
  const { id, setup } = await makeOverdue({
    default: "pm_test_success",
    own: "pm_test_success_then_expired_card",
    at: "2025-04-05T00:00:00Z",
  })
  const { url } = await setup()
  expect((await submitForm(url, { ...CARD, amount: hidden(await open(url), "amount") })).status).toBe(303)
  expect((await timeline(api, [id])).slice(-2)).toEqual([
    "2025-04-05T00:00 charge.succeeded succeeded",
    "2025-04-05T00:00 subscription.recovered active",
  ])
  expect((await get(id)).payment_method).toBe("pm_test_success")
})

describe("the amount that a checkout page shows as paid today (G17)", () => {
  const STATE = { default: "pm_test_success", own: "pm_test_success_then_insufficient_funds" } as const

  it("is itemised and summed, and is charged", async () => {
    const { customer, tried } = await makeOverdue(STATE)
    const plan = await createPlan(api, { name: "Pool", amount: 500_000 })
    const { url, subscription } = await createSession(api, { customer, plan, quantity: 2 })
    const shown = markup(await open(url))
    expect(shown).toContain('<span class="amount">₦11,000.00</span> to pay today')
    const list = /<dl class="facts bills">(.*?)<\/dl>/s.exec(shown)![1]!
    expect(list.match(/<dt>[^<]*|<small>[^<]*|<dd>[^<]*/g)).toEqual([
      "<dt>Pool",
      "<dd>₦10,000.00",
      "<dt>Gym",
      "<small>not paid since 1 April 2025",
      "<dd>₦1,000.00",
      "<dt>To pay today",
      "<dd>₦11,000.00",
    ])
    expect(data(await pay(url, "pm_test_visa", { amount: 1_100_000 })).status).toBe("completed")
    expect(await charges(api, subscription)).toEqual(["2025-04-01T12:00 1000000 succeeded #1"])
    expect(await tried()).toEqual(["2025-04-01T12:00 100000 succeeded #2"])
  })

  it("is refused if it differs from the amount that the buyer saw", async () => {
    const { customer, tried, setup } = await makeOverdue(STATE)
    const plan = await createPlan(api, { name: "Pool", amount: 500_000 })
    const sale = await createSession(api, { customer, plan })
    const changed = await pay(sale.url, "pm_test_visa", { amount: 500_000 })
    expect(refusal(changed)).toEqual([422, "amount_changed", "amount"])
    expect(changed.body.error.message).toContain("₦6,000.00")
    const { url } = await setup()
    expect(refusal(await pay(url, "pm_test_visa", { amount: 0 }))).toEqual([422, "amount_changed", "amount"])
    expect(await tried()).toEqual([])
    expect(await charges(api, sale.subscription)).toEqual([])
  })

  it("is not charged if the purchase is declined", async () => {
    const { customer, tried } = await makeOverdue(STATE)
    const plan = await createPlan(api, { name: "Pool", amount: 500_000 })
    const { url } = await createSession(api, { customer, plan })
    expect(refusal(await pay(url, "pm_test_do_not_honor", { amount: 600_000 }))[1]).toBe("card_declined")
    expect(await tried()).toEqual([])
    expect(button(await open(url))).toBe("Pay ₦6,000.00")
  })

  it("is the overdue amount if a trial starts", async () => {
    const { customer, tried } = await makeOverdue(STATE)
    const plan = await createPlan(api, { name: "Pool", amount: 500_000, trial_days: 7 })
    const { url } = await createSession(api, { customer, plan })
    const shown = await open(url)
    expect([button(shown), hidden(shown, "amount")]).toEqual(["Pay ₦1,000.00 and start free trial", "100000"])
    expect(markup(shown)).toContain('<span class="amount">₦1,000.00</span> to pay today')
    expect(data(await pay(url, "pm_test_visa", { amount: 100_000 })).status).toBe("completed")
    expect(await tried()).toEqual(["2025-04-01T12:00 100000 succeeded #2"])
  })

  it("has no list if nothing is due", async () => {
    const customer = await createCustomer(api)
    const { url } = await createSession(api, { customer, plan: await createPlan(api) })
    const shown = markup(await open(url))
    expect(shown).toContain('<span class="amount">₦5,000.00</span> to pay today')
    expect(shown).not.toContain("facts bills")
    expect(markup(await open((await createSession(api, { customer, mode: "setup" })).url))).not.toContain(
      "to pay today",
    )
  })

  it("excludes a bill with an attempt in progress: the method waits for that (E25)", async () => {
    const { clock, id, tried, setup } = await makeOverdue(STATE)
    const { latest_charge } = await get(id)
    data(await api.post(`/charges/${latest_charge}/retry`, { payment_method: "pm_test_pending_then_failed" }), 201)
    const { url } = await setup()
    const shown = await open(url)
    expect([button(shown), hidden(shown, "amount")]).toEqual(["Save payment method", "0"])
    expect(data(await pay(url, "pm_test_success", { amount: 0 })).status).toBe("completed")
    await advance(api, clock, "2025-04-01T14:00:00Z")
    expect(await tried()).toEqual(["2025-04-01T12:00 100000 failed #2", "2025-04-01T13:00 100000 succeeded #3"])
  })
})

describe("a page with nothing due", () => {
  it("does not charge a default that is entered again", async () => {
    const { id, tried, setup } = await makeOverdue({ default: "pm_test_success", at: "2025-03-15T00:00:00Z" })
    const { url } = await setup()
    expect(markup(await open(url))).toContain("Nothing is charged now.")
    expect(data(await submit(url, { ...CARD, amount: 0 })).status).toBe("completed")
    expect(await tried()).toEqual([])
    expect((await get(id)).status).toBe("active")
  })

  it("does not charge the default, nor bills that fall due while its payment is in progress", async () => {
    const { clock, customer, id } = await makeOverdue({
      default: "pm_test_verve",
      own: "pm_test_success_then_expired_card",
      at: "2025-03-31T23:30:00Z",
    })
    const plan = await createPlan(api, { name: "Pool", amount: 500_000 })
    const { url, subscription } = await createSession(api, { customer, plan })
    expect(data(await pay(url, "pm_test_bank_account", { amount: 500_000 })).status).toBe("pending")
    await advance(api, clock, "2025-04-01T12:00:00Z")
    expect(await get(subscription)).toMatchObject({ status: "active" })
    expect(data(await api.get(`/customers/${customer}`)).default_payment_method.id).toBe("pm_test_verve")
    expect((await charges(api, id)).slice(1)).toEqual(["2025-04-01T00:00 100000 failed #1"])
  })
})
