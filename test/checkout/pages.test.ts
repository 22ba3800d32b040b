/** Tests the page of a checkout session, as browsers and programs use it (decisions G1 to G4, G8). */
import { describe, expect, it } from "vitest"
import { createAccount } from "../../src/merchants/account/accounts.ts"
import { createApi } from "../support/api.ts"
import {
  ADA,
  checkout,
  comeBack,
  createSession,
  declined,
  heading,
  hidden,
  markup,
  moneyOf,
  open,
  overdue,
  pay,
  type Shown,
  START,
  submit,
  submitForm,
} from "../support/checkout.ts"
import { useInstance } from "../support/instance.ts"
import { advance, charges, createClock, createCustomer, createPlan, data, refusal, timeline } from "../support/story.ts"
import { useWhole } from "../support/whole.ts"

const { api, live, database, server } = useInstance()
useWhole(database)

const CARD = { card_number: "4242 4242 4242 4242", card_expiry: "12/34", card_cvc: "123" } as const
const sessionOf = async (id: string) => data(await api.get(`/checkout-sessions/${id}`))
const subscriptionOf = async (id: string) => data(await api.get(`/subscriptions/${id}`))
const customerOf = async (id: string) => data(await api.get(`/customers/${id}`))
const methodsOf = async (customer: string) =>
  data(await api.get(`/customers/${customer}/payment-methods`)).map(({ id }: { id: string }) => id)
const done = (id: string) => ({ status: "completed", redirect_url: `https://shop.example/welcome?session_id=${id}` })
const NOT_OPEN = [422, "checkout_session_not_open", null]

describe("a payment that succeeds", () => {
  it("completes the session, makes the method the default, and emits the exact events", async () => {
    const { clock, customer, id, url, subscription } = await checkout(api)
    await advance(api, clock, "2026-01-31T10:30:00Z")
    const answer = await submit(url, CARD)
    expect(data(answer)).toEqual(done(id))
    expect(await timeline(api, [id, subscription])).toEqual([
      "2026-01-31T09:00 subscription.created incomplete",
      "2026-01-31T10:30 charge.succeeded succeeded",
      "2026-01-31T10:30 subscription.updated active",
      "2026-01-31T10:30 checkout_session.completed completed",
    ])
    // The time that the page was open is free.
    expect(await subscriptionOf(subscription)).toMatchObject({
      status: "active",
      payment_method: "pm_test_success",
      current_period_start: "2026-01-31T10:30:00.000Z",
      current_period_end: "2026-02-28T10:30:00.000Z",
      next_charge_at: "2026-02-28T10:30:00.000Z",
    })
    expect((await customerOf(customer)).default_payment_method.id).toBe("pm_test_success")
    expect(await charges(api, subscription)).toEqual(["2026-01-31T10:30 500000 succeeded #1"])
    const [event] = (await api.all("/events?type=checkout_session.completed")).filter(
      ({ data: { object } }) => object.id === id,
    )
    expect(event.data).toEqual({
      object: { ...(await sessionOf(id)), url: null },
      previous_attributes: { status: "open" },
    })
    const again = await submit(url, CARD)
    expect(refusal(again)).toEqual(NOT_OPEN)
    expect(again.body.error.message).toMatch(
      /^The checkout session was completed at 2026-01-31T10:30:00\.000Z\. ₦5,000\.00 was paid at 2026-01-31T10:30:00\.000Z with the card ending 4242 \(chg_\w+\)\.$/,
    )
    expect(data(await comeBack(url))).toEqual(done(id))
    await advance(api, clock, "2026-03-01T00:00:00Z")
    expect(await charges(api, subscription)).toEqual([
      "2026-01-31T10:30 500000 succeeded #1",
      "2026-02-28T10:30 500000 succeeded #1",
    ])
  })

  it.each([
    ["https://shop.example/w", "https://shop.example/w?session_id=ID"],
    ["https://shop.example", "https://shop.example?session_id=ID"],
    ["https://shop.example/w?", "https://shop.example/w?session_id=ID"],
    ["https://shop.example/w?a=b&c=%26", "https://shop.example/w?a=b&c=%26&session_id=ID"],
    ["https://shop.example/w?a=b&", "https://shop.example/w?a=b&session_id=ID"],
    ["https://shop.example/w#done", "https://shop.example/w?session_id=ID#done"],
    ["https://shop.example/w?a=b#done?x=y", "https://shop.example/w?a=b&session_id=ID#done?x=y"],
    ["https://shop.example/{CHECKOUT_SESSION_ID}/x?y={CHECKOUT_SESSION_ID}#z", "https://shop.example/ID/x?y=ID#z"],
    ["https://shop.example/añadir?ñ=é", "https://shop.example/a%C3%B1adir?%C3%B1=%C3%A9&session_id=ID"],
    ["http://localhost:3000/w", "http://localhost:3000/w?session_id=ID"],
  ])("leads from %s to %s", async (success_url, expected) => {
    const customer = await createCustomer(api)
    const [first, second] = [
      await createSession(api, { mode: "setup", customer, success_url }),
      await createSession(api, { mode: "setup", customer, success_url }),
    ]
    expect(data(await pay(first.url, "pm_test_visa")).redirect_url).toBe(expected.replaceAll("ID", first.id))
    const shown = await submitForm(second.url, { payment_method: "pm_test_visa" })
    expect([shown.status, shown.headers.get("location")]).toEqual([303, expected.replaceAll("ID", second.id)])
    const policy = (await open(first.url)).headers.get("content-security-policy")
    expect(policy).not.toContain("unsafe")
  })

  it("accepts JSON from a program, with any Accept header except a page's", async () => {
    const customer = await createCustomer(api)
    for (const accept of [
      "*/*",
      "application/json;q=0.9",
      "application/json, text/plain, */*",
      "Application/JSON",
      "text/html;q=0.1, application/json",
    ]) {
      const { id, url } = await createSession(api, { mode: "setup", customer })
      expect(data(await submit(url, { payment_method: "pm_test_visa" }, { accept }))).toEqual(done(id))
    }
    const { id, url } = await createSession(api, { mode: "setup", customer })
    const form = new URLSearchParams({ payment_method: "pm_test_visa" }).toString()
    const asked = await submit(url, form, { "content-type": "application/x-www-form-urlencoded; charset=utf-8" })
    expect(data(asked)).toEqual(done(id))
  })
})

describe("the page's statement about a payment method that is saved", () => {
  const says = async (customer: string) => {
    const { id, url } = await createSession(api, { mode: "setup", customer })
    const page = markup(await open(url))
    data(await pay(url, "pm_test_mastercard"))
    expect((await sessionOf(id)).status).toBe("completed")
    return [page, (await customerOf(customer)).default_payment_method.id] as const
  }

  it("holds: the first one is charged from then on, a further one is added beside it", async () => {
    const [first, becomes] = await says(await createCustomer(api))
    expect(first).toContain("Later payments to Fit Lagos are charged to this payment method")
    expect(becomes).toBe("pm_test_mastercard")
    const customer = await createCustomer(api)
    data(await api.patch(`/customers/${customer}`, { default_payment_method: "pm_test_visa" }))
    const [second, stays] = await says(customer)
    expect(second).toContain("It is kept beside the payment method that Fit Lagos charges now")
    expect(stays).toBe("pm_test_visa")
  })

  it("says that the subscription ends, if a cancellation was scheduled before", async () => {
    const { subscription, url } = await checkout(api)
    data(await api.patch(`/subscriptions/${subscription}`, { cancel_at_period_end: true }))
    const page = markup(await open(url))
    expect(page).toMatch(/It ends automatically on \d+ \w+ \d+, and nothing more is charged\./)
    expect(page).not.toContain("It renews automatically")
  })

  it("says that the last period's units are still charged if the subscription ends (E34)", async () => {
    const { subscription, url } = await checkout(api, { plan: { overage_per_unit: 100 } })
    data(await api.patch(`/subscriptions/${subscription}`, { cancel_at_period_end: true }))
    const page = markup(await open(url))
    expect(page).toMatch(/It ends automatically on \d+ \w+ \d+: only what you have used by then is still charged\./)
    expect(page).toContain("plus ₦1.00 for each unit used")
    data(await pay(url, "pm_test_visa"))
    expect(markup(await open(url))).toMatch(
      /Gym ends on \d+ \w+ \d+: only what you have used by then is still charged\./,
    )
  })
})

describe("a payment that is declined", () => {
  it("leaves the session open, and the buyer tries again", async () => {
    const { clock, id, url, subscription } = await checkout(api)
    const codes = ["do_not_honor", "expired_card", "insufficient_funds"]
    for (const code of codes) expect(declined(await pay(url, `pm_test_${code}`))).toEqual([402, "card_declined", code])
    expect(await sessionOf(id)).toMatchObject({ status: "open" })
    expect(await subscriptionOf(subscription)).toMatchObject({
      status: "incomplete",
      retry: null,
      payment_method: null,
    })
    await advance(api, clock, "2026-01-31T09:05:00Z")
    expect(data(await pay(url, "pm_test_success"))).toEqual(done(id))
    expect(await charges(api, subscription)).toEqual([
      "2026-01-31T09:00 500000 failed #1",
      "2026-01-31T09:00 500000 failed #2",
      "2026-01-31T09:00 500000 failed #3",
      "2026-01-31T09:05 500000 succeeded #4",
    ])
    expect(await timeline(api, [id, subscription])).toEqual([
      "2026-01-31T09:00 subscription.created incomplete",
      ...codes.map(() => "2026-01-31T09:00 charge.failed failed"),
      "2026-01-31T09:05 charge.succeeded succeeded",
      "2026-01-31T09:05 subscription.updated active",
      "2026-01-31T09:05 checkout_session.completed completed",
    ])
    for (const charge of (await api.all(`/charges?subscription=${subscription}`)).slice(1))
      expect([charge.will_retry, charge.next_retry_at]).toEqual([false, null])
    expect(await moneyOf(database, [subscription])).toMatchObject({
      paid: 1,
      failed: 3,
      taken: 1,
      owed: 0,
      cash: 500_000,
    })
  })

  it("is not retried automatically, and expires unpaid", async () => {
    const { clock, id, url, subscription } = await checkout(api)
    expect(declined(await pay(url, "pm_test_do_not_honor"))[0]).toBe(402)
    await advance(api, clock, "2026-02-20T00:00:00Z")
    expect(await timeline(api, [id, subscription], { nudges: true })).toEqual([
      "2026-01-31T09:00 subscription.created incomplete",
      "2026-01-31T09:00 charge.failed failed",
      "2026-02-01T09:00 subscription.cancelled cancelled",
      "2026-02-01T09:00 checkout_session.expired expired",
    ])
  })

  it("shows browsers the form again, with the reason and their input", async () => {
    const plan = await createPlan(api)
    const { url } = await createSession(api, { plan })
    const shown = await submitForm(url, { ...ADA, ...CARD, card_number: "4084-0800-00000051" })
    expect(shown.status).toBe(402)
    expect(markup(shown)).toContain("Your bank says that there is not enough money on the account. Nothing was charged")
    expect(markup(shown)).toContain('value="ada@example.com"')
    // Card numbers are not sent back.
    expect(markup(shown)).not.toContain("4084-0800")
  })

  it("may be tried at most 50 times", async () => {
    const { url, subscription } = await checkout(api)
    for (let n = 0; n < 50; n++) expect((await pay(url, "pm_test_do_not_honor")).status).toBe(402)
    const refused = await pay(url, "pm_test_success")
    expect(refusal(refused)).toEqual([429, "too_many_attempts", null])
    expect((await submitForm(url, { payment_method: "pm_test_success" })).status).toBe(429)
    expect(await charges(api, subscription)).toHaveLength(50)
    expect((await subscriptionOf(subscription)).status).toBe("incomplete")
  })
})

describe("test cards", () => {
  it.each([
    ["4242 4242 4242 4242", "completed"],
    ["4242-4242-4242-4242", "completed"],
    ["4084 0800 0000 0051", "insufficient_funds"],
    ["4084080000000054", "expired_card"],
    ["4084 0800 0000 0005", "do_not_honor"],
    ["5060 6666 6666 6666 666", "authentication_required"],
  ])("%s: %s", async (card_number, expected) => {
    const { url, customer } = await checkout(api)
    const { status, body } = await submit(url, { ...CARD, card_number })
    expect(status === 200 ? body.data.status : body.error.failure_code).toBe(expected)
    expect(status).toBe(expected === "completed" ? 200 : 402)
    // A method that asks for a code is attached after the right code.
    if (expected === "authentication_required") expect(await methodsOf(customer)).toEqual([])
  })

  const missing = (param: string) => [400, "parameter_missing", param]
  const invalid = (param: string) => [400, "parameter_invalid", param]
  it.each([
    ["nothing", {}, missing("payment_method")],
    ["no number", { card_expiry: "12/34", card_cvc: "123" }, missing("card_number")],
    ["no expiry", { card_number: CARD.card_number, card_cvc: "123" }, missing("card_expiry")],
    ["no code", { card_number: CARD.card_number, card_expiry: "12/34" }, missing("card_cvc")],
    ["a real number", { ...CARD, card_number: "4111 1111 1111 1111" }, invalid("card_number")],
    ["letters", { ...CARD, card_number: "4242 4242 4242 424x" }, invalid("card_number")],
    ["month 13", { ...CARD, card_expiry: "13/30" }, invalid("card_expiry")],
    ["month 0", { ...CARD, card_expiry: "00/30" }, invalid("card_expiry")],
    ["words", { ...CARD, card_expiry: "never" }, invalid("card_expiry")],
    ["last month", { ...CARD, card_expiry: "12/25" }, invalid("card_expiry")],
    ["two digits", { ...CARD, card_cvc: "12" }, invalid("card_cvc")],
    ["five digits", { ...CARD, card_cvc: "12345" }, invalid("card_cvc")],
    ["letters for a code", { ...CARD, card_cvc: "abc" }, invalid("card_cvc")],
    [
      "two faults: the first of the body",
      { card_cvc: "1", card_number: "1", card_expiry: "12/34" },
      invalid("card_cvc"),
    ],
    ["an unknown test method", { payment_method: "pm_test_gold" }, invalid("payment_method")],
    ["an unknown method", { payment_method: "pm_none" }, [400, "resource_missing", "payment_method"]],
    ["a very long method", { payment_method: "p".repeat(65) }, invalid("payment_method")],
    ["a number for a method", { payment_method: 1 }, invalid("payment_method")],
    ["an unknown parameter", { payment_method: "pm_test_visa", plan: "a" }, [400, "parameter_unknown", "plan"]],
    ["half a kobo", { payment_method: "pm_test_visa", amount: 0.5 }, invalid("amount")],
    ["an amount in words", { payment_method: "pm_test_visa", amount: "500000" }, invalid("amount")],
    ["another amount", { payment_method: "pm_test_visa", amount: 499_999 }, [422, "amount_changed", "amount"]],
    ["no amount", { payment_method: "pm_test_visa", amount: 0 }, [422, "amount_changed", "amount"]],
  ])("with %s are refused, and nothing is charged", async (_, fields, expected) => {
    const { id, url, subscription, customer } = await checkout(api)
    expect(refusal(await submit(url, fields))).toEqual(expected)
    expect(await charges(api, subscription)).toEqual([])
    expect(await methodsOf(customer)).toEqual([])
    expect((await sessionOf(id)).status).toBe("open")
  })
  it.each([100_000_000_000, 9_007_199_254_740_991, -1])("with the amount %s are also refused", async (amount) => {
    const { url, subscription } = await checkout(api)
    const answer = await pay(url, "pm_test_visa", { amount })
    expect(await charges(api, subscription)).toEqual([])
    expect(["parameter_invalid", "amount_changed"]).toContain(refusal(answer)[1])
  })

  it.each(["01/2026", "12/99"])("valid to the end of %s pay", async (card_expiry) => {
    const { id, url } = await checkout(api)
    expect(data(await submit(url, { ...CARD, card_expiry }))).toEqual(done(id))
  })

  it("of another customer cannot be used", async () => {
    const other = await createCustomer(api)
    await database.run(
      (sql) => sql`
        INSERT INTO payment_method (account_id, livemode, id, customer_id, type, created_at)
        SELECT account_id, livemode, 'pm_of_another', id, 'card', now() FROM customer WHERE id = ${other}`,
    )
    const theirs = await checkout(api)
    expect(refusal(await pay(theirs.url, "pm_of_another"))).toEqual([400, "resource_missing", "payment_method"])
    expect(await charges(api, theirs.subscription)).toEqual([])
  })
})

describe("one-time codes", () => {
  it("are asked for without a charge; a wrong one is declined, the right one pays", async () => {
    const { id, url, subscription } = await checkout(api)
    expect(declined(await pay(url, "pm_test_requires_otp"))).toEqual([402, "card_declined", "authentication_required"])
    expect(await charges(api, subscription)).toEqual([])
    expect(declined(await pay(url, "pm_test_requires_otp", { otp: "000000" }))).toEqual([
      402,
      "card_declined",
      "authentication_failed",
    ])
    expect(await charges(api, subscription)).toEqual(["2026-01-31T09:00 500000 failed #1"])
    expect(data(await pay(url, "pm_test_requires_otp", { otp: " 123456 " }))).toEqual(done(id))
    expect(await charges(api, subscription)).toEqual([
      "2026-01-31T09:00 500000 failed #1",
      "2026-01-31T09:00 500000 succeeded #2",
    ])
  })

  it.each(["setup", "trial"])("also protect a method that is only saved: %s", async (mode) => {
    const made =
      mode === "trial"
        ? await checkout(api, { plan: { trial_days: 7 } })
        : await createSession(api, { mode: "setup", customer: await createCustomer(api) })
    const { id, url, customer } = made
    for (const [otp, code] of [
      [undefined, "authentication_required"],
      ["111111", "authentication_failed"],
    ])
      expect(declined(await pay(url, "pm_test_requires_otp", otp === undefined ? {} : { otp }))).toEqual([
        402,
        "card_declined",
        code,
      ])
    expect(await methodsOf(customer)).toEqual([])
    expect(data(await pay(url, "pm_test_requires_otp", { otp: "123456" }))).toEqual(done(id))
    expect(await methodsOf(customer)).toEqual(["pm_test_requires_otp"])
  })

  it("are asked of browsers, and all other input is kept", async () => {
    const plan = await createPlan(api)
    const { id, url } = await createSession(api, { plan })
    const asked = await submitForm(url, { ...ADA, ...CARD, card_number: "5060 6666 6666 6666 666" })
    expect(asked.status).toBe(402)
    expect(markup(asked)).toContain("Your bank asks for a one-time code")
    expect(hidden(asked, "payment_method")).toBe("pm_test_requires_otp")
    const kept = Object.fromEntries(
      ["name", "email", "phone", "payment_method", "submission", "amount"].map((name) => [name, hidden(asked, name)]),
    )
    expect(kept).toMatchObject(ADA)
    const wrong = await submitForm(url, { ...kept, otp: "999999" })
    expect(wrong.status).toBe(402)
    expect(markup(wrong)).toContain("The one-time code was not right. Nothing was charged.")
    const right = await submitForm(url, { ...kept, submission: hidden(wrong, "submission"), otp: "123456" })
    expect([right.status, right.headers.get("location")]).toEqual([
      303,
      `https://shop.example/welcome?session_id=${id}`,
    ])
  })
})

describe("details of a new buyer", () => {
  let made: Promise<string> | undefined
  const plan = () => {
    made ??= createPlan(api)
    return made
  }

  it.each([
    ["no name", { name: undefined }, [400, "parameter_missing", "name"]],
    ["an empty name", { name: "  " }, [400, "parameter_missing", "name"]],
    ["a long name", { name: "a".repeat(121) }, [400, "parameter_invalid", "name"]],
    ["a name with control characters", { name: "Ada\u0007" }, [400, "parameter_invalid", "name"]],
    ["no e-mail address", { email: "ada" }, [400, "parameter_invalid", "email"]],
    ["a phone number in words", { phone: "call me" }, [400, "parameter_invalid", "phone"]],
    ["a phone number that cannot exist", { phone: "0803 123 456" }, [400, "parameter_invalid", "phone"]],
    ["a name that shows nothing", { name: "\u200b\u202e" }, [400, "parameter_missing", "name"]],
    ["a short phone number", { phone: "0803" }, [400, "parameter_invalid", "phone"]],
    ["a phone number of no country", { phone: "000 803 123 4567" }, [400, "parameter_invalid", "phone"]],
  ])("are refused with %s: no customer is made", async (_, over, expected) => {
    const { id, url } = await createSession(api, { plan: await plan() })
    expect(refusal(await pay(url, "pm_test_visa", { ...ADA, ...over }))).toEqual(expected)
    expect(await sessionOf(id)).toMatchObject({ status: "open", customer: null, subscription: null })
  })

  it.each([
    ["0803 123 4567", "+2348031234567"],
    ["08031234567", "+2348031234567"],
    ["+234 803 123 4567", "+2348031234567"],
    ["0803-123-4567", "+2348031234567"],
    ["+44 20 7946 0958", "+442079460958"],
    // In international format.
    ["00234 803 123 4567", "+2348031234567"],
    ["00442079460958", "+442079460958"],
    ["009 234 803 123 4567", "+2348031234567"],
    ["009 44 20 7946 0958", "+442079460958"],
    ["0092 21 3568 1234", "+922135681234"],
    ["", null],
  ])("store the phone number %s as %s", async (phone, expected) => {
    const { id, url } = await createSession(api, { mode: "setup" })
    expect(data(await pay(url, "pm_test_visa", { ...ADA, phone }))).toEqual(done(id))
    expect(await customerOf((await sessionOf(id)).customer)).toMatchObject({ name: "Ada Obi", phone: expected })
  })

  it("are corrected after a decline, on the same customer", async () => {
    const { id, url } = await createSession(api, { plan: await plan() })
    expect(declined(await pay(url, "pm_test_do_not_honor", { ...ADA, name: "Ada Obbi" }))[0]).toBe(402)
    const first = await sessionOf(id)
    expect((await customerOf(first.customer)).name).toBe("Ada Obbi")
    expect(data(await pay(url, "pm_test_visa", { ...ADA, email: "obi@example.com" }))).toEqual(done(id))
    const then = await sessionOf(id)
    expect([then.customer, then.subscription]).toEqual([first.customer, first.subscription])
    expect(await customerOf(then.customer)).toMatchObject({ name: "Ada Obi", email: "obi@example.com" })
    expect((await api.all(`/customers?email=obi@example.com`)).map((one) => one.id)).toEqual([then.customer])
  })

  it("are ignored if the session has a customer", async () => {
    const customer = await createCustomer(api, { name: "Bola", email: "bola@example.com" })
    const { id, url } = await createSession(api, { mode: "setup", customer })
    expect(data(await pay(url, "pm_test_visa", { name: "", email: "nonsense", phone: "none" }))).toEqual(done(id))
    expect(await customerOf(customer)).toMatchObject({ name: "Bola", email: "bola@example.com", phone: null })
  })

  it("are shown again to browsers, with each error at its field", async () => {
    const { url } = await createSession(api, { plan: await plan() })
    const shown = await submitForm(url, { name: `"><b>Ada`, email: "ada", phone: "1", ...CARD, card_cvc: "1" })
    expect(shown.status).toBe(400)
    for (const field of ["email", "phone", "card_cvc"]) expect(markup(shown)).toContain(`id="${field}-error"`)
    expect(markup(shown)).toContain("&quot;&gt;&lt;b&gt;Ada")
    expect(markup(shown)).not.toContain("<b>Ada")
  })
})

describe("a submission", () => {
  it("is refused with another content type, malformed, or from another site's page", async () => {
    const { url, subscription } = await checkout(api)
    const form = "payment_method=pm_test_visa"
    for (const [body, type, expected] of [
      [form, "text/plain", [400, "content_type_invalid", null]],
      [form, "multipart/form-data; boundary=a", [400, "content_type_invalid", null]],
      ["{", "application/json", [400, "json_invalid", null]],
      ["[]", "application/json", [400, "json_invalid", null]],
    ] as const)
      expect(refusal(await submit(url, body, { "content-type": type }))).toEqual(expected)
    for (const site of ["cross-site", "same-site"]) {
      const refused = await submit(url, { payment_method: "pm_test_visa" }, { "sec-fetch-site": site })
      expect(refusal(refused)).toEqual([403, "origin_not_allowed", null])
      const shown = await submitForm(url, { payment_method: "pm_test_visa" }, { "sec-fetch-site": site })
      expect([shown.status, heading(shown)]).toEqual([403, "This cannot be done"])
    }
    const { origin, host } = new URL(url)
    for (const named of ["https://evil.example", `https://evil.${host}`, `${origin}0`, "file://", "nonsense"])
      for (const site of [{}, { "sec-fetch-site": "same-origin" }]) {
        const refused = await submit(url, { payment_method: "pm_test_visa" }, { ...site, origin: named })
        expect(refusal(refused)).toEqual([403, "origin_not_allowed", null])
      }
    expect(await charges(api, subscription)).toEqual([])
    // Our pages send no referrer, so browsers send no origin.
    const hidden = await submitForm(url, { payment_method: "" }, { "sec-fetch-site": "same-origin", origin: "null" })
    expect(hidden.status).toBe(400)
    const own = await submitForm(url, { payment_method: "pm_test_visa" }, { "sec-fetch-site": "same-origin", origin })
    expect(own.status).toBe(303)
  })

  it("is one line of the pasted text, and is refused if the text is too long", async () => {
    const { id, url } = await createSession(api, { mode: "setup" })
    const fields = { ...ADA, payment_method: "pm_test_visa" }
    for (const over of [{ email: "ada\u0000@example.com" }, { name: "a".repeat(121) }, { name: "a".repeat(300_000) }])
      expect((await submitForm(url, { ...fields, ...over })).status).toBe(400)
    expect(await sessionOf(id)).toMatchObject({ status: "open", customer: null })
    expect((await submitForm(url, { ...fields, name: "Ada\tObi\u0000" })).status).toBe(303)
    const { customer } = await sessionOf(id)
    expect(data(await api.get(`/customers/${customer}`)).name).toBe("Ada Obi")
  })

  it("to an unknown address gets 404, as a page and as JSON", async () => {
    const url = `${server().origin}/checkout/${"a".repeat(43)}`
    for (const shown of [await open(url), await open(`${url}/return`), await submitForm(url, CARD)])
      expect([shown.status, heading(shown)]).toEqual([404, "This link leads nowhere"])
    expect(refusal(await submit(url, CARD))).toEqual([404, "resource_missing", null])
    expect(refusal(await comeBack(url))).toEqual([404, "resource_missing", null])
    expect((await open(`${server().origin}/checkout/%00'--`)).status).toBe(404)
  })

  it("is recognised when it is sent again, also after a decline", async () => {
    const { id, url, subscription } = await checkout(api)
    const shown = await open(url)
    const number = { submission: hidden(shown, "submission") }
    expect(hidden(await open(url), "submission")).not.toBe(number.submission)
    for (let n = 0; n < 2; n++)
      expect(declined(await pay(url, "pm_test_do_not_honor", number))).toEqual([402, "card_declined", "do_not_honor"])
    expect(await charges(api, subscription)).toHaveLength(1)
    const other = { submission: "other" }
    // Each form has its own result, whichever form was sent last.
    for (let n = 0; n < 2; n++) {
      expect(declined(await pay(url, "pm_test_lost_card", other))).toEqual([402, "card_declined", "lost_card"])
      expect(declined(await pay(url, "pm_test_do_not_honor", number))).toEqual([402, "card_declined", "do_not_honor"])
    }
    expect(await charges(api, subscription)).toHaveLength(2)
    for (let n = 0; n < 2; n++)
      expect(data(await pay(url, "pm_test_success", { submission: "second" }))).toEqual(done(id))
    expect(await charges(api, subscription)).toHaveLength(3)
    expect(refusal(await pay(url, "pm_test_do_not_honor", number))).toEqual(NOT_OPEN)
    expect(refusal(await pay(url, "pm_test_success", { submission: "third" }))).toEqual(NOT_OPEN)
    const form = await submitForm(url, { payment_method: "pm_test_success", submission: "third" })
    expect([form.status, heading(form)]).toEqual([422, "This is paid already"])
  })

  it("at an outdated amount shows the amount that is due now", async () => {
    const { url, subscription } = await checkout(api)
    const fields = { payment_method: "pm_test_visa", amount: hidden(await open(url), "amount") }
    data(await api.patch(`/subscriptions/${subscription}`, { quantity: 3 }))
    const shown = await submitForm(url, fields)
    expect([shown.status, hidden(shown, "amount")]).toEqual([422, "1500000"])
    expect(markup(shown)).toContain("What is due now is ₦15,000.00.")
    expect(await charges(api, subscription)).toEqual([])
    expect((await submitForm(url, { ...fields, amount: hidden(shown, "amount") })).status).toBe(303)
    expect(await charges(api, subscription)).toEqual(["2026-01-31T09:00 1500000 succeeded #1"])
  })

  it("can be reloaded without a second submission", async () => {
    const { url } = await checkout(api)
    const shown = await open(`${url}/complete`)
    expect([shown.status, shown.headers.get("location")]).toEqual([303, new URL(url).pathname])
  })
})

describe("a slow payment", () => {
  const PENDING = (url: string) => ({ status: "pending", redirect_url: `${url}/return` })

  it.each([
    ["pm_test_bank_account", "2026-01-31T10:00:00Z", "2026-01-31T10:00"],
    ["pm_test_ussd", "2026-01-31T09:10:00Z", "2026-01-31T09:10"],
    ["pm_test_pending_then_success", "2026-01-31T10:00:00Z", "2026-01-31T10:00"],
    ["pm_test_timeout_then_success", "2026-01-31T09:00:10Z", "2026-01-31T09:00:10"],
  ])("by %s completes the session when it settles", async (method, until, at) => {
    const { clock, id, url, subscription } = await checkout(api)
    expect(data(await pay(url, method))).toEqual(PENDING(url))
    expect(data(await comeBack(url))).toEqual({ status: "pending", redirect_url: null })
    for (const shown of [await open(url), await open(`${url}/return`)]) {
      expect([shown.status, heading(shown)]).toEqual([200, "Waiting for your payment"])
      expect(markup(shown)).toContain("₦5,000.00 from")
      expect(markup(shown)).not.toContain("<form")
    }
    expect(await sessionOf(id)).toMatchObject({ status: "open" })
    expect((await subscriptionOf(subscription)).status).toBe("incomplete")
    await advance(api, clock, until)
    expect(await timeline(api, [id, subscription])).toEqual([
      "2026-01-31T09:00 subscription.created incomplete",
      `${at} charge.succeeded succeeded`,
      `${at} subscription.updated active`,
      `${at} checkout_session.completed completed`,
    ])
    // However late it settles, the period starts when the payment was tried.
    expect(await subscriptionOf(subscription)).toMatchObject({
      status: "active",
      payment_method: method,
      current_period_start: "2026-01-31T09:00:00.000Z",
    })
    const shown = await open(`${url}/return`)
    expect([shown.status, shown.headers.get("location")]).toEqual([303, done(id).redirect_url])
  })

  it.each([
    ["pm_test_bank_account_insufficient_funds", "2026-01-31T10:00:00Z", "2026-01-31T10:00", "insufficient_funds"],
    ["pm_test_ussd_timeout", "2026-01-31T09:30:00Z", "2026-01-31T09:30", "customer_abandoned"],
    ["pm_test_pending_then_failed", "2026-01-31T10:00:00Z", "2026-01-31T10:00", "do_not_honor"],
    ["pm_test_timeout_then_failed", "2026-01-31T09:00:10Z", "2026-01-31T09:00:10", "do_not_honor"],
  ])("by %s may be retried when it fails", async (method, until, at, code) => {
    const { clock, id, url, subscription } = await checkout(api)
    // Sent twice, it is one submission with one result.
    for (let n = 0; n < 2; n++) expect(data(await pay(url, method, { submission: "one" }))).toEqual(PENDING(url))
    await advance(api, clock, until)
    expect(await timeline(api, [id, subscription])).toEqual([
      "2026-01-31T09:00 subscription.created incomplete",
      `${at} charge.failed failed`,
    ])
    expect(data(await comeBack(url))).toEqual({ status: "open", redirect_url: null })
    const shown = await open(`${url}/return`)
    expect(shown.status).toBe(200)
    expect(markup(shown)).toContain("Nothing was charged")
    expect(declined(await pay(url, method, { submission: "one" }))).toEqual([402, "card_declined", code])
    expect(data(await pay(url, "pm_test_success", { submission: "two" }))).toEqual(done(id))
    expect(await charges(api, subscription)).toEqual(["2026-01-31T09:00 500000 failed #1", `${at} 500000 succeeded #2`])
  })

  it("that the rail never received fails, and may be retried", async () => {
    const { clock, id, url, subscription } = await checkout(api)
    expect(data(await pay(url, "pm_test_timeout_not_found"))).toEqual(PENDING(url))
    await advance(api, clock, "2026-01-31T12:00:00Z")
    const [charge] = await api.all(`/charges?subscription=${subscription}`)
    expect([charge.status, charge.failure_code]).toEqual(["failed", "processor_error"])
    expect(data(await pay(url, "pm_test_success"))).toEqual(done(id))
  })

  it("is owed back if its session has expired", async () => {
    const { clock, id, url, subscription } = await checkout(api, { session: { expires_in_minutes: 30 } })
    expect(data(await pay(url, "pm_test_bank_account"))).toEqual(PENDING(url))
    await advance(api, clock, "2026-01-31T12:00:00Z")
    expect(await timeline(api, [id, subscription])).toEqual([
      "2026-01-31T09:00 subscription.created incomplete",
      "2026-01-31T09:30 subscription.cancelled cancelled",
      "2026-01-31T09:30 checkout_session.expired expired",
      "2026-01-31T10:00 charge.succeeded succeeded",
    ])
    const [charge] = await api.all(`/charges?subscription=${subscription}`)
    expect([charge.status, charge.refund_due]).toEqual(["succeeded", true])
    expect(await moneyOf(database, [subscription])).toMatchObject({
      paid: 0,
      refundable: 1,
      cash: 500_000,
      refunds: -500_000,
      owed: 0,
    })
  })

  it("is not denied by the page of a session that has expired", async () => {
    const { clock, id, url } = await checkout(api)
    expect(data(await pay(url, "pm_test_bank_account"))).toEqual(PENDING(url))
    data(await api.post(`/checkout-sessions/${id}/expire`))
    const early = await open(url)
    await advance(api, clock, "2026-01-31T12:00:00Z")
    const late = await open(url)
    for (const [shown, title] of [
      [early, "This checkout has expired"],
      [late, "Your payment came too late"],
    ] as const) {
      expect([shown.status, heading(shown)]).toEqual([410, title])
      expect(markup(shown)).toContain("₦5,000.00")
      expect(markup(shown)).toContain("owed back to you")
      expect(markup(shown)).not.toContain("Nothing was charged")
    }
  })
})

describe("a payment in progress", () => {
  it("blocks a second payment: others get an answer that asks them to wait", async () => {
    const [first, second] = [await checkout(api), await checkout(api)]
    for (const { url } of [first, second])
      expect(data(await pay(url, "pm_test_bank_account"))).toEqual({ status: "pending", redirect_url: `${url}/return` })
    const [shown, ...refused] = await Promise.all([
      submitForm(first.url, { payment_method: "pm_test_visa" }),
      pay(first.url, "pm_test_success"),
      pay(second.url, "pm_test_bank_account"),
    ])
    for (const answer of refused) {
      expect(refusal(answer)).toEqual([422, "charge_in_progress", null])
      expect(answer.body.error.message).toContain("2026-01-31T09:00:00.000Z")
    }
    expect([shown.status, shown.headers.get("location")]).toEqual([303, `${new URL(first.url).pathname}/return`])
    for (const { subscription, customer } of [first, second]) {
      expect(await charges(api, subscription)).toEqual(["2026-01-31T09:00 500000 pending #1"])
      expect(await methodsOf(customer)).toEqual(["pm_test_bank_account"])
    }
  })
  it.each([[[]], [["pm_test_do_not_honor"]]])(
    "on another page of the customer for the plan also blocks them, after %j",
    async (before) => {
      const { clock, customer, plan, url, subscription } = await checkout(api)
      const other = await createSession(api, { customer, plan })
      for (const method of before) expect((await pay(other.url, method)).status).toBe(402)
      await advance(api, clock, "2026-01-31T09:05:00Z")
      expect(data(await pay(url, "pm_test_bank_account")).status).toBe("pending")
      const refused = await pay(other.url, "pm_test_success")
      expect(await charges(api, other.subscription)).toHaveLength(before.length)
      expect(refusal(refused)).toEqual([422, "charge_in_progress", null])
      expect(refused.body.error.message).toContain("2026-01-31T09:05:00.000Z")
      await advance(api, clock, "2026-01-31T11:00:00Z")
      expect((await subscriptionOf(subscription)).status).toBe("active")
    },
  )
  it("on another page of the customer for the plan is also shown to browsers", async () => {
    const { customer, plan, url } = await checkout(api)
    const other = await createSession(api, { customer, plan })
    expect(data(await pay(url, "pm_test_bank_account")).status).toBe("pending")
    const sent = await submitForm(other.url, { payment_method: "pm_test_success" })
    const shown = sent.status === 303 ? await open(`${other.url}/return`) : sent
    expect(markup(shown)).toMatch(/under way|Waiting for your payment|being confirmed/)
    expect(await charges(api, other.subscription)).toEqual([])
  })
})

describe("other sessions of the same customer and plan", () => {
  it("are closed when one of them is completed, and say so", async () => {
    const { clock, customer, plan, id, url, subscription } = await checkout(api)
    const sibling = await createSession(api, { customer, plan })
    const others = [
      await createSession(api, { customer, plan: await createPlan(api) }),
      await createSession(api, { customer, mode: "setup" }),
      await createSession(api, { plan }),
    ]
    expect(data(await pay(url, "pm_test_bank_account")).status).toBe("pending")
    await advance(api, clock, "2026-01-31T10:00:00Z")
    expect(await timeline(api, [id, subscription, sibling.id, sibling.subscription])).toEqual([
      "2026-01-31T09:00 subscription.created incomplete",
      "2026-01-31T09:00 subscription.created incomplete",
      "2026-01-31T10:00 charge.succeeded succeeded",
      "2026-01-31T10:00 subscription.updated active",
      "2026-01-31T10:00 checkout_session.completed completed",
      "2026-01-31T10:00 subscription.cancelled cancelled",
      "2026-01-31T10:00 checkout_session.expired expired",
    ])
    const refused = await pay(sibling.url, "pm_test_success")
    expect(refusal(refused)).toEqual(NOT_OPEN)
    expect(refused.body.error.message).toBe(`The buyer completed another session for the same plan instead: ${id}.`)
    const shown = await open(sibling.url)
    expect([shown.status, heading(shown)]).toEqual([410, "You are subscribed already"])
    // Other plans, methods and buyers are not affected.
    for (const other of others) expect((await sessionOf(other.id)).status).toBe("open")
  })
})

describe("a trial", () => {
  it("starts when the page is completed, and is charged when it ends", async () => {
    const { clock, customer, id, url, subscription } = await checkout(api, {
      plan: { trial_days: 7 },
      session: { quantity: 2 },
    })
    await advance(api, clock, "2026-01-31T15:00:00Z")
    expect(refusal(await pay(url, "pm_test_visa", { amount: 1_000_000 }))).toEqual([422, "amount_changed", "amount"])
    expect(data(await pay(url, "pm_test_visa", { amount: 0 }))).toEqual(done(id))
    expect(await subscriptionOf(subscription)).toMatchObject({
      status: "trialing",
      payment_method: "pm_test_visa",
      current_period_start: "2026-01-31T15:00:00.000Z",
      current_period_end: "2026-02-07T15:00:00.000Z",
      trial_end: "2026-02-07T15:00:00.000Z",
      next_charge_at: "2026-02-07T15:00:00.000Z",
    })
    expect((await customerOf(customer)).default_payment_method.id).toBe("pm_test_visa")
    expect(await charges(api, subscription)).toEqual([])
    await advance(api, clock, "2026-02-08T00:00:00Z")
    expect(await timeline(api, [id, subscription])).toEqual([
      "2026-01-31T09:00 subscription.created incomplete",
      "2026-01-31T15:00 subscription.updated trialing",
      "2026-01-31T15:00 checkout_session.completed completed",
      "2026-02-04T15:00 subscription.trial_will_end trialing",
      "2026-02-07T15:00 charge.succeeded succeeded",
      "2026-02-07T15:00 subscription.updated active",
    ])
    expect(await charges(api, subscription)).toEqual(["2026-02-07T15:00 1000000 succeeded #1"])
  })

  it("with a short duration shows immediately that it will end", async () => {
    const { id, url, subscription } = await checkout(api, { plan: { trial_days: 2 } })
    expect(data(await pay(url, "pm_test_visa"))).toEqual(done(id))
    expect(await timeline(api, [id, subscription])).toEqual([
      "2026-01-31T09:00 subscription.created incomplete",
      "2026-01-31T09:00 subscription.updated trialing",
      "2026-01-31T09:00 subscription.trial_will_end trialing",
      "2026-01-31T09:00 checkout_session.completed completed",
    ])
  })
})

describe("a plan that is billed by deliveries", () => {
  it("has its first delivery paid on the page", async () => {
    const { clock, id, url, subscription } = await checkout(api, {
      plan: { billing_cycle: "per_delivery", amount: 150_000 },
      session: { quantity: 3 },
    })
    expect(data(await pay(url, "pm_test_success", { amount: 450_000 }))).toEqual(done(id))
    expect(await subscriptionOf(subscription)).toMatchObject({
      status: "active",
      quantity: 3,
      current_period_end: "2026-02-28T09:00:00.000Z",
      next_charge_at: null,
    })
    await advance(api, clock, "2026-02-02T09:00:00Z")
    data(await api.post(`/subscriptions/${subscription}/unit-records`, { quantity: 1 }), 201)
    expect(await charges(api, subscription)).toEqual([
      "2026-01-31T09:00 450000 succeeded #1",
      "2026-02-02T09:00 450000 succeeded #1",
    ])
  })
})

describe("saving a payment method", () => {
  it("with a customer makes it the default if there was none", async () => {
    const clock = await createClock(api, START)
    const customer = await createCustomer(api, { test_clock: clock })
    for (const [method, expected] of [
      ["pm_test_visa", "pm_test_visa"],
      ["pm_test_verve", "pm_test_visa"],
    ]) {
      const { id, url } = await createSession(api, { mode: "setup", customer })
      expect(data(await pay(url, method!, { amount: 0 }))).toEqual(done(id))
      expect((await customerOf(customer)).default_payment_method.id).toBe(expected)
      expect(await timeline(api, [id])).toEqual(["2026-01-31T09:00 checkout_session.completed completed"])
      const again = await pay(url, "pm_test_verve")
      expect(refusal(again)).toEqual(NOT_OPEN)
      expect(again.body.error.message).toBe("The checkout session was completed at 2026-01-31T09:00:00.000Z.")
    }
    expect(await methodsOf(customer)).toEqual(["pm_test_verve", "pm_test_visa"])
    expect(await api.all(`/charges?customer=${customer}`)).toEqual([])
  })

  it("without a customer creates one", async () => {
    const { id, url } = await createSession(api, { mode: "setup" })
    expect(refusal(await pay(url, "pm_test_visa"))).toEqual([400, "parameter_missing", "name"])
    expect(data(await pay(url, "pm_test_visa", ADA))).toEqual(done(id))
    const { customer, subscription } = await sessionOf(id)
    expect(subscription).toBe(null)
    expect(await customerOf(customer)).toMatchObject({
      name: "Ada Obi",
      default_payment_method: { id: "pm_test_visa" },
    })
  })
})

describe("the default payment method (decision G2)", () => {
  it("stays if there is one and nothing is overdue: the new subscription has its own method", async () => {
    const { customer, id, url, subscription } = await checkout(api)
    data(await api.patch(`/customers/${customer}`, { default_payment_method: "pm_test_verve" }))
    expect(data(await pay(url, "pm_test_mastercard"))).toEqual(done(id))
    expect((await customerOf(customer)).default_payment_method.id).toBe("pm_test_verve")
    expect((await subscriptionOf(subscription)).payment_method).toBe("pm_test_mastercard")
  })

  it("becomes the new one if something is overdue, which is tried with it immediately", async () => {
    const late = await overdue(api)
    data(await api.patch(`/customers/${late.customer}`, { default_payment_method: "pm_test_do_not_honor" }))
    const { id, url, subscription } = await createSession(api, { customer: late.customer, plan: await createPlan(api) })
    const before = (await timeline(api, [late.id])).length
    expect(data(await pay(url, "pm_test_visa"))).toEqual(done(id))
    expect((await customerOf(late.customer)).default_payment_method.id).toBe("pm_test_visa")
    expect(await timeline(api, [id, subscription])).toEqual([
      "2025-02-01T12:00 subscription.created incomplete",
      "2025-02-01T12:00 charge.succeeded succeeded",
      "2025-02-01T12:00 subscription.updated active",
      "2025-02-01T12:00 checkout_session.completed completed",
    ])
    expect((await timeline(api, [late.id])).slice(before)).toEqual([
      "2025-02-01T12:00 charge.succeeded succeeded",
      "2025-02-01T12:00 subscription.recovered active",
    ])
    expect(await subscriptionOf(late.id)).toMatchObject({
      status: "active",
      payment_method: "pm_test_visa",
      retry: null,
    })
  })

  it("becomes the new one if something is overdue and a method is only saved, paid or not", async () => {
    for (const [method, event] of [
      ["pm_test_visa", ["charge.succeeded succeeded", "subscription.recovered active"]],
      ["pm_test_limit_exceeded", ["charge.failed failed", "charge.retry_scheduled failed"]],
    ] as const) {
      const late = await overdue(api)
      const { id, url } = await createSession(api, { customer: late.customer, mode: "setup" })
      const before = (await timeline(api, [late.id])).length
      expect(data(await pay(url, method))).toEqual(done(id))
      expect((await customerOf(late.customer)).default_payment_method.id).toBe(method)
      expect((await timeline(api, [late.id])).slice(before)).toEqual(event.map((line) => `2025-02-01T12:00 ${line}`))
    }
  })
})

describe("the content of a page", () => {
  const safe = ({ headers }: Shown) => {
    const policy = headers.get("content-security-policy")!
    expect(policy).toContain("default-src 'none'")
    expect(policy).toContain("frame-ancestors 'none'")
    expect(policy).toContain("base-uri 'none'")
    expect(policy).not.toContain("unsafe")
    expect([
      headers.get("cache-control"),
      headers.get("referrer-policy"),
      headers.get("x-content-type-options"),
      headers.get("x-frame-options"),
      headers.get("set-cookie"),
    ]).toEqual(["no-store", "no-referrer", "nosniff", "DENY", null])
    return /form-action ([^;]*)/.exec(policy)?.[1]
  }

  it("is specific to its session, small, and links only to the merchant", async () => {
    const success_url = "https://pay.shop.example:8443/a/b?c=d"
    const { url, id } = await checkout(api, { session: { success_url } })
    const shown = await open(url)
    expect([shown.status, shown.headers.get("content-type")]).toEqual([200, "text/html; charset=utf-8"])
    expect(safe(shown)).toBe("'self' https:")
    expect(Buffer.byteLength(shown.text)).toBeLessThan(30_000)
    expect(markup(shown)).not.toMatch(/(src|href)="(https?:)?\/\/(?!shop\.example\/plans|pay\.shop)/)
    expect(markup(shown)).toContain('href="https://shop.example/plans"')
    const head = await open(url, "HEAD")
    expect([head.status, head.text, safe(head)]).toEqual([200, "", "'self' https:"])
    const declinedPage = await submitForm(url, { payment_method: "pm_test_do_not_honor" })
    expect([declinedPage.status, safe(declinedPage)]).toEqual([402, "'self' https:"])
    expect((await submitForm(url, { payment_method: "pm_test_success" })).status).toBe(303)
    const over = await open(url)
    expect([over.status, heading(over), safe(over)]).toEqual([200, "This is paid already", "'self'"])
    expect(markup(over)).toContain(`href="https://pay.shop.example:8443/a/b?c=d&amp;session_id=${id}"`)
    // A developer's own machine has no https.
    const local = await createSession(api, { mode: "setup", success_url: "http://localhost:3000/w" })
    expect(safe(await open(local.url))).toBe("'self' https: http://localhost:3000")
    const nowhere = await open(`${server().origin}/checkout/nowhere`)
    expect([nowhere.status, safe(nowhere)]).toEqual([404, "'self'"])
  })

  it("has status 200 if completed, 410 if expired, 404 if not found", async () => {
    const { url, id } = await checkout(api)
    data(await api.post(`/checkout-sessions/${id}/expire`))
    for (const shown of [await open(url), await open(`${url}/return`)])
      expect([shown.status, heading(shown), safe(shown)]).toEqual([410, "This checkout has expired", "'self'"])
    const sent = await submitForm(url, CARD)
    expect([sent.status, heading(sent)]).toEqual([422, "This checkout has expired"])
    const faulty = await submitForm(url, { card_number: "1" })
    expect([faulty.status, heading(faulty)]).toEqual([422, "This checkout has expired"])
    expect(refusal(await submit(url, {}))).toEqual(NOT_OPEN)
    const saved = await createSession(api, { mode: "setup", customer: await createCustomer(api) })
    data(await pay(saved.url, "pm_test_visa"))
    const done = await open(saved.url)
    expect([done.status, heading(done)]).toEqual([200, "Your payment method is saved"])
  })

  it("shows the terms, and the saved methods to choose from", async () => {
    const { url, customer } = await checkout(api, {
      plan: { name: "Gym Plus", description: "All halls", trial_days: 0 },
      session: { quantity: 2 },
    })
    data(await api.patch(`/customers/${customer}`, { default_payment_method: "pm_test_verve" }))
    const shown = await open(url)
    expect(heading(shown)).toBe("Subscribe to Gym Plus")
    for (const text of ["Fit Lagos", "All halls", "2 × ₦5,000.00 every month", "₦10,000.00", "Verve •••• 5060"])
      expect(markup(shown)).toContain(text)
    expect(hidden(shown, "amount")).toBe("1000000")
    expect(markup(shown)).not.toContain('id="email"')
  })

  it("shows hostile names as plain text", async () => {
    const HOSTILE = `<script>alert("1")</script>'&"><img src=x onerror=alert(1)>`
    const made = await database.run(() => createAccount({ businessName: HOSTILE.slice(0, 60) }))
    const theirs = createApi(server().origin, made.keys.sk_test)
    const { url } = await checkout(theirs, {
      plan: { name: HOSTILE, description: HOSTILE },
      customer: { name: HOSTILE },
      session: { success_url: "https://shop.example/'\"<b>", cancel_url: "https://shop.example/\"'<i>?a=b&c=d" },
    })
    for (const shown of [
      await open(url),
      await submitForm(url, { payment_method: "pm_test_do_not_honor" }),
      await submitForm(url, { payment_method: HOSTILE.slice(0, 60) }),
      await submitForm(url, { payment_method: "pm_test_bank_account" }),
      await open(url),
    ]) {
      for (const part of ["<script>alert", "<img src=x", "<b>", "<i>", `"'<`]) expect(markup(shown)).not.toContain(part)
      if (shown.status === 200) expect(markup(shown)).toContain("&lt;script&gt;alert(&quot;1&quot;)")
    }
  })
})

describe("a merchant in live", () => {
  it("takes payments while its access is approved", async () => {
    const made = await database.run(() => createAccount({ businessName: "Suspended", liveAccess: "approved" }))
    const merchant = createApi(server().origin, made.keys.sk_live!, "live")
    const { url, id } = await createSession(merchant, { plan: await createPlan(merchant) })
    const access = (value: string) =>
      database.run((sql) => sql`UPDATE account SET live_access = ${value} WHERE id = ${made.account.id}`)
    await access("suspended")
    const shown = await open(url)
    expect(shown.status).toBe(403)
    expect(refusal(await pay(url, "pm_test_visa", ADA))).toEqual([403, "live_access_required", null])
    await access("approved")
    expect((await open(url)).status).toBe(200)
    expect(data(await pay(url, "pm_test_visa", ADA))).toEqual(done(id))
    expect(data(await merchant.get(`/checkout-sessions/${id}`)).livemode).toBe(true)
    expect(refusal(await live.get(`/checkout-sessions/${id}`))[0]).toBe(404)
  })
})
