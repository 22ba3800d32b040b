/** Tests a payment link's page (decisions F5, E8, E16): the amount due, paying, saving a method if nothing is due. */
import { describe, expect, it } from "vitest"
import {
  comeBack,
  declined,
  heading,
  hidden,
  linkOf,
  markup,
  moneyOf,
  nudge,
  open,
  overdue,
  pay,
  submit,
  submitForm,
} from "../support/checkout.ts"
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

const { api, database, server } = useInstance()
useWhole(database)

const get = async (id: string) => data(await api.get(`/subscriptions/${id}`))
const customerOf = async (id: string) => data(await api.get(`/customers/${id}`))
const CLOSED = [422, "payment_link_closed", null]
const PAID = { status: "paid", amount: 500_000 }

/** What has happened to a subscription since. */
const since = async (id: string) => {
  const before = (await timeline(api, [id])).length
  return async () => (await timeline(api, [id])).slice(before)
}

/** The automatic steps that a page announces, with their dates. */
const consequencesIn = (page: string) =>
  [...page.matchAll(/<li><strong>([^<]*)<\/strong><br>([^<]*)<\/li>/g)].map(([, at, what]) => [at, what])

describe("the amount due", () => {
  it("is shown with the next automatic steps, in order", async () => {
    const { link } = await overdue(api, "insufficient_funds", {
      plan: {
        name: "Gym Plus",
        retry_logic: {
          max_attempts: 2,
          retry_intervals_days: [3, 5],
          escalation_on_failure: "pause_service",
          cancel_after_days_unpaid: 20,
        },
      },
    })
    const shown = await open(link)
    expect([shown.status, heading(shown)]).toEqual([200, "₦5,000.00 to pay"])
    const page = markup(shown)
    for (const text of ["Fit Lagos", "For Ada Obi", "Gym Plus", "not paid since 1 February 2025"])
      expect(page).toContain(text)
    // Days and hours in Lagos: one hour ahead of UTC.
    expect(consequencesIn(page)).toEqual([
      ["4 February 2025, 01:00", "We try your saved payment method again"],
      ["9 February 2025, 01:00", "Gym Plus is paused"],
      ["21 February 2025, 01:00", "Gym Plus is cancelled"],
    ])
    expect(hidden(shown, "amount")).toBe("500000")
    expect(page).not.toContain('name="email"')
    const policy = shown.headers.get("content-security-policy")
    expect(policy).toContain("form-action 'self';")
    expect(policy).toContain("frame-ancestors 'none'")
    expect(policy).not.toContain("unsafe")
    expect(shown.headers.get("cache-control")).toBe("no-store")
    expect(Buffer.byteLength(shown.text)).toBeLessThan(30_000)
    expect((await open(link, "HEAD")).text).toBe("")
  })

  it("is shown without steps that a cancellation at period end prevents (E12)", async () => {
    const retry_logic = { max_attempts: 1, retry_intervals_days: [9], cancel_after_days_unpaid: 30 }
    const plan = { name: "Gym", billing_cycle: "weekly", retry_logic }
    const { id, link } = await overdue(api, "insufficient_funds", { plan, at: "2025-01-09T12:00:00Z" })
    expect((await get(id)).next_charge_at).toBe("2025-01-17T00:00:00.000Z")
    data(await api.post(`/subscriptions/${id}/cancel`, { at_period_end: true }))
    expect((await get(id)).next_charge_at).toBeNull()
    expect(consequencesIn(markup(await open(link)))).toEqual([["15 January 2025, 01:00", "Gym is cancelled"]])
  })

  it("is shown with a retry at the instant of the unpaid deadline, and without a later one", async () => {
    for (const [days, listed] of [
      [3, ["4 February 2025, 01:00", "5 February 2025, 01:00"]],
      [4, ["5 February 2025, 01:00", "5 February 2025, 01:00"]],
      [5, ["5 February 2025, 01:00"]],
    ] as const) {
      const retry_logic = { max_attempts: 1, retry_intervals_days: [days], escalation_on_failure: "none" }
      const plan = { retry_logic: { ...retry_logic, cancel_after_days_unpaid: 4 } }
      const { id, link } = await overdue(api, "insufficient_funds", { plan })
      expect(consequencesIn(markup(await open(link))).map(([at]) => at)).toEqual(listed)
      expect((await get(id)).next_charge_at === null).toBe(days === 5)
    }
  })

  it("is shown without retries and their results if no payment method is left (E22)", async () => {
    const { clock, id, customer, link } = await overdue(api)
    const [method] = data(await api.get(`/customers/${customer}/payment-methods`))
    expect((await api.delete(`/customers/${customer}/payment-methods/${method.id}`)).status).toBe(200)
    expect(consequencesIn(markup(await open(link))).map(([, what]) => what)).toEqual(["Gym is cancelled"])
    await advance(api, clock, "2025-02-20T00:00:00Z")
    expect((await charges(api, id)).at(-1)).toBe("2025-02-02T00:00 500000 failed #2")
    expect(await get(id)).toMatchObject({ status: "past_due", escalation: null, retry: { next_retry_at: null } })
  })

  it("is paid: the subscription recovers, with the method that paid", async () => {
    const { id, customer, link } = await overdue(api)
    const happened = await since(id)
    expect(data(await pay(link, "pm_test_visa", { amount: 500_000 }))).toEqual(PAID)
    expect(await happened()).toEqual([
      "2025-02-01T12:00 charge.succeeded succeeded",
      "2025-02-01T12:00 subscription.recovered active",
    ])
    expect(await get(id)).toMatchObject({
      status: "active",
      payment_method: "pm_test_visa",
      retry: null,
      escalation: null,
      current_period_start: "2025-02-01T00:00:00.000Z",
      current_period_end: "2025-03-01T00:00:00.000Z",
    })
    expect((await customerOf(customer)).default_payment_method).toBe(null)
    expect((await charges(api, id)).slice(1)).toEqual([
      "2025-02-01T00:00 500000 failed #1",
      "2025-02-01T12:00 500000 succeeded #2",
    ])
    expect(await moneyOf(database, [id])).toMatchObject({ paid: 2, failed: 1, taken: 2, sent: 1, owed: 0 })

    const again = await pay(link, "pm_test_visa")
    expect(refusal(again)).toEqual(CLOSED)
    expect(again.body.error.message).toMatch(
      /^₦5,000\.00 was paid at 2025-02-01T12:00:00\.000Z with the card ending 1111 \(chg_\w+\) by this link\./,
    )
    expect(refusal(await submit(link, {}))).toEqual(CLOSED)
    expect(data(await comeBack(link))).toEqual({ status: "paid", redirect_url: null })
    for (const shown of [await open(link), await open(`${link}/return`)]) {
      expect([shown.status, heading(shown)]).toEqual([200, "Thank you: this is paid"])
      expect(markup(shown)).toContain("You paid Fit Lagos ₦5,000.00 on 1 February 2025 with Visa •••• 1111.")
    }
    const sent = await submitForm(link, { payment_method: "pm_test_visa" })
    expect([sent.status, heading(sent)]).toEqual([422, "Thank you: this is paid"])
  })

  it("is paid by a browser, which is redirected to a page that can be reloaded", async () => {
    const { id, link } = await overdue(api)
    const refused = await submitForm(link, {
      card_number: "4084 0800 0000 0005",
      card_expiry: "12/34",
      card_cvc: "123",
    })
    expect(refused.status).toBe(402)
    expect(markup(refused)).toContain("Your bank declined the payment. Nothing was charged")
    const path = new URL(link).pathname
    const sent = await submitForm(link, {
      card_number: "4242 4242 4242 4242",
      card_expiry: "12/34",
      card_cvc: "123",
      amount: hidden(refused, "amount"),
    })
    expect([sent.status, sent.headers.get("location")]).toEqual([303, `${path}/return`])
    const reloaded = await open(`${link}/complete`)
    expect([reloaded.status, reloaded.headers.get("location")]).toEqual([303, path])
    expect((await charges(api, id)).slice(1)).toEqual([
      "2025-02-01T00:00 500000 failed #1",
      "2025-02-01T12:00 500000 failed #2",
      "2025-02-01T12:00 500000 succeeded #3",
    ])
  })

  it("is not paid by a declined card: nothing changes, and the schedule continues", async () => {
    const { clock, id, link } = await overdue(api)
    const happened = await since(id)
    expect(declined(await pay(link, "pm_test_expired_card"))).toEqual([402, "card_declined", "expired_card"])
    expect(await happened()).toEqual(["2025-02-01T12:00 charge.failed failed"])
    expect(await get(id)).toMatchObject({
      status: "past_due",
      payment_method: "pm_test_success_then_insufficient_funds",
      retry: { attempt: 0, max_attempts: 3, next_retry_at: "2025-02-02T00:00:00.000Z" },
    })
    expect(data(await comeBack(link))).toEqual({ status: "open", redirect_url: null })
    expect(markup(await open(`${link}/return`))).toContain("The card has expired. Nothing was charged")
    await advance(api, clock, "2025-02-02T00:00:00Z")
    expect((await charges(api, id)).at(-1)).toBe("2025-02-02T00:00 500000 failed #3")
    expect(data(await pay(link, "pm_test_visa"))).toEqual(PAID)
  })

  it("is paid by the link of its nudge after a failure that is not retried automatically", async () => {
    const { id, customer, clock } = await overdue(api, "expired_card")
    const link = await linkOf(api, customer, "update_payment_method")
    expect(await get(id)).toMatchObject({ status: "past_due", retry: { next_retry_at: null } })
    await advance(api, clock, "2025-02-10T12:00:00Z")
    expect(markup(await open(link))).not.toContain("We try your saved payment method again")
    expect(data(await pay(link, "pm_test_visa"))).toEqual(PAID)
    expect((await timeline(api, [id])).slice(-2)).toEqual([
      "2025-02-10T12:00 charge.succeeded succeeded",
      "2025-02-10T12:00 subscription.recovered active",
    ])
    expect(await get(id)).toMatchObject({
      payment_method: "pm_test_visa",
      current_period_start: "2025-02-01T00:00:00.000Z",
    })
  })

  it("resumes what escalation paused", async () => {
    const { id, link } = await overdue(api, "do_not_honor", {
      plan: { retry_logic: { max_attempts: 0, escalation_on_failure: "pause_service" } },
    })
    expect(await get(id)).toMatchObject({ status: "paused", escalation: { action: "pause" } })
    const happened = await since(id)
    expect(data(await pay(link, "pm_test_visa"))).toEqual(PAID)
    expect(await happened()).toEqual([
      "2025-02-01T12:00 charge.succeeded succeeded",
      "2025-02-01T12:00 subscription.recovered active",
      "2025-02-01T12:00 subscription.resumed active",
    ])
    // The time without service is free (D7).
    expect(await get(id)).toMatchObject({ current_period_start: "2025-02-01T12:00:00.000Z", escalation: null })
  })

  it("asks for a one-time code before anything is charged", async () => {
    const { id, link } = await overdue(api)
    expect(declined(await pay(link, "pm_test_requires_otp"))).toEqual([402, "card_declined", "authentication_required"])
    expect(await charges(api, id)).toHaveLength(2)
    expect(declined(await pay(link, "pm_test_requires_otp", { otp: "1" }))).toEqual([
      402,
      "card_declined",
      "authentication_failed",
    ])
    const asked = await submitForm(link, { payment_method: "pm_test_requires_otp" })
    expect([asked.status, hidden(asked, "payment_method")]).toEqual([402, "pm_test_requires_otp"])
    expect(data(await pay(link, "pm_test_requires_otp", { otp: "123456" }))).toEqual(PAID)
    expect((await charges(api, id)).slice(2)).toEqual([
      "2025-02-01T12:00 500000 failed #2",
      "2025-02-01T12:00 500000 succeeded #3",
    ])
  })

  it("is refused if the buyer saw another amount, or names an unknown object", async () => {
    const { id, link } = await overdue(api)
    for (const [fields, expected] of [
      [{ payment_method: "pm_test_visa", amount: 400_000 }, [422, "amount_changed", "amount"]],
      [{ payment_method: "pm_test_gold" }, [400, "parameter_invalid", "payment_method"]],
      [{ payment_method: "pm_none" }, [400, "resource_missing", "payment_method"]],
      [{}, [400, "parameter_missing", "payment_method"]],
      [{ payment_method: "pm_test_visa", plan: "x" }, [400, "parameter_unknown", "plan"]],
      [
        { card_number: "4111111111111111", card_expiry: "12/34", card_cvc: "123" },
        [400, "parameter_invalid", "card_number"],
      ],
    ] as const)
      expect(refusal(await submit(link, fields))).toEqual(expected)
    expect(refusal(await submit(link, { payment_method: "pm_test_visa" }, { "sec-fetch-site": "cross-site" }))).toEqual(
      [403, "origin_not_allowed", null],
    )
    const shown = await submitForm(link, { payment_method: "pm_test_visa", amount: "400000" })
    expect(shown.status).toBe(422)
    expect(markup(shown)).toContain("What is due now is ₦5,000.00.")
    expect(await charges(api, id)).toHaveLength(2)
  })

  it("settles by the clock when the bank is slow, and others wait for it", async () => {
    const [paying, failing] = [await overdue(api), await overdue(api)]
    for (const [{ link }, method, last4] of [
      [paying, "pm_test_bank_account", "6789"],
      [failing, "pm_test_bank_account_insufficient_funds", "6751"],
    ] as const) {
      expect(data(await pay(link, method))).toEqual({ status: "pending", amount: 500_000 })
      expect(data(await comeBack(link))).toEqual({ status: "pending", redirect_url: null })
      const shown = await open(link)
      expect([shown.status, heading(shown)]).toEqual([200, "Waiting for your payment"])
      expect(markup(shown)).toContain(`₦5,000.00 from Test Bank •••• ${last4}`)
    }
    const others = await nudge(api, paying.customer, paying.id)
    const refused = await Promise.all([pay(others, "pm_test_visa"), pay(failing.link, "pm_test_visa")])
    for (const answer of refused) expect(refusal(answer)).toEqual([422, "charge_in_progress", null])
    const [first, second] = [await since(paying.id), await since(failing.id)]
    for (const { clock } of [paying, failing]) await advance(api, clock, "2025-02-01T13:00:00Z")
    expect(await first()).toEqual([
      "2025-02-01T13:00 charge.succeeded succeeded",
      "2025-02-01T13:00 subscription.recovered active",
    ])
    expect(await second()).toEqual(["2025-02-01T13:00 charge.failed failed"])
    expect((await get(paying.id)).payment_method).toBe("pm_test_bank_account")
    expect(refusal(await pay(others, "pm_test_visa", { amount: 500_000 }))).toEqual(CLOSED)
    expect(data(await pay(failing.link, "pm_test_visa"))).toEqual(PAID)
    for (const { id } of [paying, failing])
      expect(await moneyOf(database, [id])).toMatchObject({ paid: 2, pending: 0, taken: 2, sent: 1, owed: 0 })
  })

  it("is separate from other overdue bills, and each try of all of them counts once", async () => {
    const clock = await createClock(api, "2025-01-01T00:00:00Z")
    const customer = await createCustomer(api, { test_clock: clock, phone: "+2348031234567" })
    const plan = await createPlan(api, { trial_days: 1 })
    const body = { customer, plan, payment_method: "pm_test_insufficient_funds" }
    for (let n = 0; n < 10; n++)
      await Promise.all(Array.from({ length: 10 }, async () => data(await api.post("/subscriptions", body), 201)))
    const { id } = data(await api.post("/subscriptions", body), 201)
    await advance(api, clock, "2025-01-02T00:00:00Z")
    const all = await nudge(api, customer)
    for (let n = 0; n < 2; n++) expect((await pay(all, "pm_test_do_not_honor")).status).toBe(402)
    expect(data(await pay(await nudge(api, customer, id), "pm_test_visa")).status).toBe("paid")
    expect((await get(id)).status).toBe("active")
  })

  it("may be tried at most 50 times by one link", async () => {
    const { id, link, customer } = await overdue(api)
    for (let n = 0; n < 50; n++) expect((await pay(link, "pm_test_do_not_honor")).status).toBe(402)
    expect(refusal(await pay(link, "pm_test_visa"))).toEqual([429, "too_many_attempts", null])
    expect(await charges(api, id)).toHaveLength(52)
    expect(data(await pay(await nudge(api, customer, id), "pm_test_visa"))).toEqual(PAID)
  })
})

describe("a link that takes no payment", () => {
  it("has its bill paid in another way: nothing is charged, and the page names that payment", async () => {
    const { id, link } = await overdue(api)
    const stale = hidden(await open(link), "amount")
    const { latest_charge } = await get(id)
    const paid = data(await api.post(`/charges/${latest_charge}/retry`, { payment_method: "pm_test_verve" }), 201)
    const refused = await pay(link, "pm_test_visa", { amount: Number(stale) })
    expect(refusal(refused)).toEqual(CLOSED)
    expect(refused.body.error.message).toBe(
      `Nothing is owed any more: ₦5,000.00 was paid at 2025-02-01T12:00:00.000Z with the card ending 5060 (${paid.id}).`,
    )
    const shown = await submitForm(link, { payment_method: "pm_test_visa", amount: stale })
    expect([shown.status, heading(shown)]).toEqual([422, "Nothing to pay"])
    expect(markup(shown)).toContain("You paid ₦5,000.00 on 1 February 2025 with Verve •••• 5060.")
    expect(await charges(api, id)).toHaveLength(3)
    expect((await get(id)).payment_method).toBe("pm_test_verve")
    expect(data(await comeBack(link))).toEqual({ status: "open", redirect_url: null })
  })

  it("was used, until something is due again", async () => {
    const plan = { billing_cycle: "weekly" }
    const { clock, id, link } = await overdue(api, "insufficient_funds", { plan, at: "2025-01-08T12:00:00Z" })
    expect(data(await pay(link, "pm_test_success_then_do_not_honor"))).toEqual(PAID)
    expect(refusal(await pay(link, "pm_test_visa"))).toEqual(CLOSED)
    expect(heading(await open(link))).toBe("Thank you: this is paid")
    await advance(api, clock, "2025-01-15T12:00:00Z")
    expect((await get(id)).status).toBe("past_due")
    expect(heading(await open(link))).not.toBe("Thank you: this is paid")
    expect(data(await pay(link, "pm_test_visa"))).toEqual(PAID)
    expect(refusal(await pay(link, "pm_test_visa"))).toEqual(CLOSED)
    expect(await moneyOf(database, [id])).toMatchObject({ paid: 3, taken: 3, sent: 1, owed: 0 })
  })

  it("expires after exactly 30 days", async () => {
    const plan = { retry_logic: { max_attempts: 0, escalation_on_failure: "none", cancel_after_days_unpaid: null } }
    const { clock, id, link } = await overdue(api, "do_not_honor", { plan })
    await advance(api, clock, "2025-03-03T11:59:59.999Z")
    expect((await open(link)).status).toBe(200)
    await advance(api, clock, "2025-03-03T12:00:00Z")
    for (const shown of [await open(link), await open(`${link}/return`)])
      expect([shown.status, heading(shown)]).toEqual([410, "This link has expired"])
    const refused = await pay(link, "pm_test_visa")
    expect(refusal(refused)).toEqual(CLOSED)
    expect(refused.body.error.message).toContain("The link expired at 2025-03-03T12:00:00.000Z")
    expect(data(await comeBack(link))).toEqual({ status: "closed", redirect_url: null })
    expect((await get(id)).status).toBe("past_due")
    expect(await charges(api, id)).toHaveLength(2)
  })

  it("belongs to a cancelled subscription", async () => {
    const { id, link } = await overdue(api)
    data(await api.post(`/subscriptions/${id}/cancel`))
    const shown = await open(link)
    expect([shown.status, heading(shown)]).toEqual([410, "This subscription is cancelled"])
    expect(refusal(await pay(link, "pm_test_visa"))).toEqual(CLOSED)
    const sent = await submitForm(link, { payment_method: "pm_test_visa" })
    expect([sent.status, heading(sent)]).toEqual([422, "This subscription is cancelled"])
    expect(data(await comeBack(link)).status).toBe("closed")
    expect(await charges(api, id)).toHaveLength(2)
  })

  it("has an unknown address", async () => {
    const url = `${server().origin}/pay/${"a".repeat(43)}`
    const shown = await open(url)
    expect([shown.status, heading(shown)]).toEqual([404, "This link leads nowhere"])
    expect(refusal(await pay(url, "pm_test_visa"))).toEqual([404, "resource_missing", null])
    expect(refusal(await comeBack(url))).toEqual([404, "resource_missing", null])
  })
})

describe("a link with nothing due", () => {
  const paidUp = async (own: boolean) => {
    const made = await subscribe(api, "2025-01-01T00:00:00Z", "pm_test_success")
    data(
      await api.patch(`/customers/${made.customer}`, {
        phone: "+2348031234567",
        default_payment_method: "pm_test_verve",
      }),
    )
    if (!own) data(await api.patch(`/subscriptions/${made.id}`, { payment_method: null }))
    return { ...made, link: await nudge(api, made.customer, made.id) }
  }

  it("saves a method as the subscription's own, if it has its own", async () => {
    const { id, customer, link } = await paidUp(true)
    const shown = await open(link)
    expect([shown.status, heading(shown), hidden(shown, "amount")]).toEqual([200, "Nothing to pay", "0"])
    const happened = await since(id)
    expect(data(await pay(link, "pm_test_mastercard"))).toEqual({ status: "saved", amount: 0 })
    expect(await happened()).toEqual(["2025-01-01T00:00 subscription.updated active"])
    const [event] = await api.all("/events?type=subscription.updated")
    expect(event.data.previous_attributes).toEqual({ payment_method: "pm_test_success" })
    expect((await get(id)).payment_method).toBe("pm_test_mastercard")
    expect((await customerOf(customer)).default_payment_method.id).toBe("pm_test_verve")
    // It was not used for a payment, so it stays open.
    expect(data(await pay(link, "pm_test_visa"))).toEqual({ status: "saved", amount: 0 })
    expect((await get(id)).payment_method).toBe("pm_test_visa")
    expect(await charges(api, id)).toHaveLength(1)
  })

  it("saves a method as the default, if the subscription uses the default", async () => {
    const { clock, id, customer, link } = await paidUp(false)
    const happened = await since(id)
    const sent = await submitForm(link, { payment_method: "pm_test_mastercard", amount: "0" })
    expect([sent.status, sent.headers.get("location")]).toEqual([303, `${new URL(link).pathname}?saved`])
    expect(markup(await open(`${link}?saved`))).toContain("Your payment method is saved.")
    expect(await happened()).toEqual([])
    expect((await get(id)).payment_method).toBe(null)
    expect((await customerOf(customer)).default_payment_method.id).toBe("pm_test_mastercard")
    await advance(api, clock, "2025-02-01T00:00:00Z")
    const [charge] = await api.all(`/charges?subscription=${id}`)
    expect([charge.status, charge.payment_method.brand]).toEqual(["succeeded", "mastercard"])
  })

  it("announces other debts, and shows if the saved method was declined for them", async () => {
    const { clock, customer, link } = await paidUp(false)
    const plan = await createPlan(api, { name: "Pool", amount: 300_000, billing_cycle: "daily" })
    const body = { customer, plan, payment_method: "pm_test_success_then_do_not_honor" }
    data(await api.post("/subscriptions", body), 201)
    await advance(api, clock, "2025-01-02T12:00:00Z")
    const notice = "₦3,000.00 that you owe for Pool is charged to this payment method now as well."
    expect(markup(await open(link))).toContain(notice)
    const sent = await submitForm(link, { payment_method: "pm_test_do_not_honor", amount: "0" })
    expect(sent.status).toBe(303)
    const savedPage = markup(await open(`${link}?saved`))
    expect(savedPage).toContain(
      "Your payment method is saved. It is used from now on. ₦3,000.00 that you owe is not paid with it.",
    )
    // While an attempt for it is in progress, it is not announced again.
    data(await pay(await nudge(api, customer), "pm_test_bank_account", { amount: 300_000 }))
    expect(markup(await open(link))).not.toContain("that you owe for Pool")
    await advance(api, clock, "2025-01-02T14:00:00Z")
  })

  it("shows the purpose of saving a method", async () => {
    for (const [own, says] of [
      [true, "Later payments for Gym are charged to this payment method"],
      [false, "Later payments to Fit Lagos are charged to this payment method"],
    ] as const) {
      const { link } = await paidUp(own)
      expect(markup(await open(link))).toContain(says)
    }
  })

  it("saves a method that asks for a code only after the right code", async () => {
    const { id, link } = await paidUp(true)
    for (const [fields, code] of [
      [{}, "authentication_required"],
      [{ otp: "1" }, "authentication_failed"],
    ] as const)
      expect(declined(await pay(link, "pm_test_requires_otp", fields))).toEqual([402, "card_declined", code])
    expect((await get(id)).payment_method).toBe("pm_test_success")
    expect(data(await pay(link, "pm_test_requires_otp", { otp: "123456" })).status).toBe("saved")
    expect((await get(id)).payment_method).toBe("pm_test_requires_otp")
  })

  it("does not charge a bill that fell due meanwhile to a buyer who only saves a method", async () => {
    const { clock, customer, id } = await paidUp(true)
    data(await api.patch(`/subscriptions/${id}`, { payment_method: "pm_test_do_not_honor" }))
    await advance(api, clock, "2025-01-20T00:00:00Z")
    const link = await nudge(api, customer, id)
    const amount = Number(hidden(await open(link), "amount"))
    await advance(api, clock, "2025-02-01T00:00:00Z")
    expect(refusal(await pay(link, "pm_test_visa", { amount }))).toEqual([422, "amount_changed", "amount"])
    expect(await charges(api, id)).toHaveLength(2)
    expect(data(await pay(link, "pm_test_visa", { amount: 500_000 }))).toEqual(PAID)
  })
})

describe("a link about no subscription", () => {
  /** Two subscriptions of one customer. 100 and 5,000 naira are due, after one and two attempts. */
  const twoOwed = async () => {
    const clock = await createClock(api, "2025-01-01T00:00:00Z")
    const customer = await createCustomer(api, { test_clock: clock, phone: "+2348031234567" })
    const subscribeTo = async (plan: Readonly<Record<string, unknown>>, code: string) => {
      const body = { customer, plan: await createPlan(api, plan), payment_method: `pm_test_success_then_${code}` }
      return data(await api.post("/subscriptions", body), 201).id as string
    }
    const first = await subscribeTo({ name: "Pool", amount: 10_000 }, "do_not_honor")
    const second = await subscribeTo({ name: "Gym" }, "limit_exceeded")
    await advance(api, clock, "2025-02-01T12:00:00Z")
    const { latest_charge } = await get(first)
    expect((await api.post(`/charges/${latest_charge}/retry`)).status).toBe(201)
    return { clock, customer, first, second, link: await nudge(api, customer) }
  }

  it("pays everything that the customer owes", async () => {
    const { first, second, link } = await twoOwed()
    const shown = await open(link)
    expect(heading(shown)).toBe("₦5,100.00 to pay")
    for (const text of ["Pool", "₦100.00", "Gym", "₦5,000.00"]) expect(markup(shown)).toContain(text)
    expect(data(await pay(link, "pm_test_visa", { amount: 510_000 }))).toEqual({ status: "paid", amount: 510_000 })
    for (const id of [first, second]) {
      expect((await timeline(api, [id])).slice(-2)).toEqual([
        "2025-02-01T12:00 charge.succeeded succeeded",
        "2025-02-01T12:00 subscription.recovered active",
      ])
      expect((await get(id)).payment_method).toBe("pm_test_visa")
      expect(await moneyOf(database, [id])).toMatchObject({ paid: 2, owed: 0, sent: 1 })
    }
    expect(refusal(await pay(link, "pm_test_visa"))).toEqual(CLOSED)
    expect(data(await comeBack(link)).status).toBe("paid")
  })

  it("shows what was paid if one of them is declined, and stays open for that one", async () => {
    const { first, second, link } = await twoOwed()
    // The third attempt for one, the second for the other.
    const half = await pay(link, "pm_test_succeeds_on_attempt_3", { amount: 510_000 })
    expect(declined(half)).toEqual([402, "card_declined", "insufficient_funds"])
    expect(half.body.error.message).toContain("₦100.00 was paid. ₦5,000.00 was not charged")
    expect([(await get(first)).status, (await get(second)).status]).toEqual(["active", "past_due"])
    const shown = await open(link)
    expect([heading(shown), hidden(shown, "amount")]).toEqual(["₦5,000.00 to pay", "500000"])
    expect(refusal(await pay(link, "pm_test_visa", { amount: 510_000 }))).toEqual([422, "amount_changed", "amount"])
    expect(data(await pay(link, "pm_test_visa"))).toEqual(PAID)
    expect(await charges(api, first)).toEqual([
      "2025-01-01T00:00 10000 succeeded #1",
      "2025-02-01T00:00 10000 failed #1",
      "2025-02-01T12:00 10000 failed #2",
      "2025-02-01T12:00 10000 succeeded #3",
    ])
    expect((await charges(api, second)).slice(1)).toEqual([
      "2025-02-01T00:00 500000 failed #1",
      "2025-02-01T12:00 500000 failed #2",
      "2025-02-01T12:00 500000 succeeded #3",
    ])
  })

  it("saves a method as the default if nothing is due", async () => {
    const { id, customer } = await subscribe(api, "2025-01-01T00:00:00Z", "pm_test_success")
    data(await api.patch(`/customers/${customer}`, { phone: "+2348031234567" }))
    const link = await nudge(api, customer)
    expect(data(await pay(link, "pm_test_visa"))).toEqual({ status: "saved", amount: 0 })
    expect((await customerOf(customer)).default_payment_method.id).toBe("pm_test_visa")
    expect((await get(id)).payment_method).toBe("pm_test_success")
  })
})
