/** Tests payments on the rails' own pages (decisions P5 to P8). */
import { Effect } from "effect"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { checkLedger } from "../../src/ledger/ledger.ts"
import type { OutsideRail } from "../../src/rails/rail/Rail.ts"
import { comeBack, heading, markup, open, submit, submitForm } from "../support/checkout.ts"
import { useOwnInstance } from "../support/instance.ts"
import { post } from "../support/rails/callbacks.ts"
import { faults } from "../support/rails/fault.ts"
import { startFlutterwave } from "../support/rails/flutterwave.ts"
import { putOnRail } from "../support/rails/merchant.ts"
import { startPaystack } from "../support/rails/paystack.ts"
import { createCustomer, createPlan, data, eventually } from "../support/story.ts"

const paystack = await startPaystack()
const flutterwave = await startFlutterwave()
const standIns = { paystack, flutterwave }
afterAll(async () => {
  await paystack.close()
  await flutterwave.close()
})

const {
  database,
  server,
  live: api,
  accountId,
} = useOwnInstance(() => ({
  PAYSTACK_URL: paystack.url,
  FLUTTERWAVE_URL: flutterwave.url,
}))

const URLS = { success_url: "https://shop.example/welcome", cancel_url: "https://shop.example/plans" }
const ADA = { name: "Ada Obi", email: "ada@example.com" }

const openSession = async (session: object = {}, plan: object = {}) =>
  data(
    await api.post("/checkout-sessions", {
      mode: "subscription",
      plan: await createPlan(api, plan as Record<string, unknown>),
      ...URLS,
      ...session,
    }),
    201,
  )

const balances = async (rail: OutsideRail) => {
  const rows = await database.run(
    (sql) => sql<{ account: string; kobo: number }>`
      SELECT ledger_account AS account, sum(amount_kobo)::bigint AS kobo FROM ledger_line
      WHERE account_id = ${accountId()} AND (ledger_account <> 'clearing' OR detail = ${rail}) GROUP BY 1 HAVING sum(amount_kobo) <> 0`,
  )
  return Object.fromEntries(rows.map(({ account, kobo }) => [account, Number(kobo)]))
}

/** A callback about a reference's payment. */
const callBack = (rail: OutsideRail, reference: string) =>
  post(`${server().origin}/callbacks/${rail}/${accountId()}`, standIns[rail].callbackFor(reference))

/** The reference of the payment, by the address of the rail's page. */
const newest = async (session: string) => {
  const [row] = await database.run(
    (sql) => sql<{ id: string }>`SELECT id FROM charge WHERE page_id = ${session} ORDER BY id DESC LIMIT 1`,
  )
  return row!.id
}

afterAll(async () => {
  expect(await database.run(() => checkLedger())).toMatchObject({ ok: true, problems: [] })
})

describe.each(["paystack", "flutterwave"] as const)("a checkout page on %s", (rail) => {
  const standIn = standIns[rail]
  beforeAll(() => putOnRail(database, accountId(), rail, [...standIn.merchants.values()][0]!))

  it("accepts no card, redirects to the rail's page, and returns paid", async () => {
    const session = await openSession()
    const shown = await open(session.url)
    expect(markup(shown)).not.toContain("card_number")
    expect(markup(shown)).toContain("the payment company’s own page")
    expect(shown.headers.get("content-security-policy")).toContain(new URL(standIn.url).origin)
    const missing = await submit(session.url, { name: "Ada Obi" })
    expect([missing.status, missing.body.error.param]).toEqual([400, "email"])

    const sent = await submitForm(session.url, ADA)
    expect(sent.status).toBe(303)
    const page = sent.headers.get("location")!
    expect(page).toContain(standIn.url)
    // A second submission continues the same payment.
    expect(data(await submit(session.url, ADA))).toEqual({ status: "pending", redirect_url: page })
    const waiting = await open(session.url)
    expect([heading(waiting), waiting.text.includes(page.replaceAll("&", "&amp;"))]).toEqual([
      "Waiting for your payment",
      true,
    ])

    const reference = await newest(session.id)
    const back = await standIn.payOnPage(reference, "pay")
    expect(back).toContain(`${session.url}/return`)
    const returned = await open(back!)
    expect([returned.status, returned.headers.get("location")]).toEqual([
      303,
      `https://shop.example/welcome?session_id=${session.id}`,
    ])
    const done = data(await api.get(`/checkout-sessions/${session.id}?expand[]=subscription`))
    expect(done).toMatchObject({ status: "completed", subscription: { status: "active" } })
    const charge = data(await api.get(`/charges/${reference}`))
    expect(charge).toMatchObject({ status: "succeeded", processor: rail, payment_method: { type: "card" } })
    const methods = data(await api.get(`/customers/${done.customer}/payment-methods`))
    expect(methods).toHaveLength(1)
    expect(data(await api.get(`/customers/${done.customer}`)).default_payment_method).toEqual(charge.payment_method)
    expect(done.subscription.payment_method).toBe(methods[0].id)
  })

  it.each([
    ["less", faults.wrongAmount(100_000), "received ₦1,000.00. ₦5,000.00 was asked for"],
    ["another currency", faults.wrongCurrency("USD"), "₦5,000.00 was asked for"],
  ])("shows the received amount if that is %s, and accepts no second payment", async (_, fault, words) => {
    const session = await openSession({}, { amount: 500_000 })
    data(await submit(session.url, ADA))
    const reference = await newest(session.id)
    standIn.plan("page", reference, fault)
    const returned = await open((await standIn.payOnPage(reference, "pay"))!)
    expect([returned.status, heading(returned)]).toEqual([200, "Your payment needs a look"])
    expect(markup(returned)).toContain(words)
    expect(markup(returned)).toContain("has been notified")
    expect(markup(returned)).not.toContain("Go on to pay")
    const again = await open(session.url)
    expect(heading(again)).toBe("Your payment needs a look")
    const events = (await api.all("/events?type=charge.attention_required")).filter(
      ({ data: { object } }) => object.id === reference,
    )
    expect(events).toHaveLength(1)
    expect(events[0].data.object).toEqual(data(await api.get(`/charges/${reference}`)))
  })

  it("shows why a payment was declined, and accepts another one under a new reference", async () => {
    const session = await openSession()
    data(await submit(session.url, ADA))
    const first = await newest(session.id)
    const back = await standIn.payOnPage(first, "decline", { words: "Insufficient Funds" })
    const returned = await open(back!)
    expect(returned.status).toBe(200)
    expect(markup(returned)).toContain("not enough money")
    expect(data(await api.get(`/charges/${first}`))).toMatchObject({
      status: "failed",
      failure_code: "insufficient_funds",
    })
    data(await submit(session.url, ADA))
    const second = await newest(session.id)
    expect(second).not.toBe(first)
    await standIn.payOnPage(second, "pay")
    expect(data(await comeBack(session.url))).toEqual({
      status: "completed",
      redirect_url: `https://shop.example/welcome?session_id=${session.id}`,
    })
  })

  it("is free again after the buyer has returned and the rail says that nothing was paid", async () => {
    const session = await openSession()
    const { redirect_url: page } = data(await submit(session.url, ADA))
    const first = await newest(session.id)
    expect(data(await api.get(`/charges/${first}`)).status).toBe("pending")
    const back = await standIn.payOnPage(first, "leave")
    const returned = await open(back!)
    const charge = data(await api.get(`/charges/${first}`))
    if (rail === "paystack") {
      expect([returned.status, heading(returned)]).toEqual([200, "Subscribe to Gym"])
      expect(charge).toMatchObject({ status: "failed", failure_code: "customer_abandoned" })
      // Paid after all: owed back. The buyer sees that, and no form.
      await standIn.payOnPage(first, "pay")
      await callBack(rail, first)
      const openReturn = () => open(`${session.url}/return`)
      const late = "The payment was not finished in time. ₦5,000.00 was paid after that, and is owed back to you."
      await eventually(async () => (markup(await openReturn()).includes(late) ? true : undefined))
      expect(markup(await openReturn())).not.toContain("Nothing was charged")
      data(await api.post(`/checkout-sessions/${session.id}/expire`))
      expect(heading(await open(session.url))).toBe("Your payment came too late")
      return
    }
    // Flutterwave does not know the payment, which may also mean it is not written yet: the buyer may continue it.
    expect([returned.status, heading(returned)]).toEqual([200, "Waiting for your payment"])
    expect(returned.text).toContain(page.replaceAll("&", "&amp;"))
    expect(charge.status).toBe("pending")
    expect(data(await submit(session.url, ADA))).toEqual({ status: "pending", redirect_url: page })
    await standIn.payOnPage(first, "pay")
    await callBack(rail, first)
    await eventually(async () => (data(await api.get(`/charges/${first}`)).status === "succeeded" ? true : undefined))
    expect(data(await comeBack(session.url)).status).toBe("completed")
  })

  if (rail === "paystack")
    it("redirects to the rail's page again while the rail waits for the buyer there", async () => {
      const session = await openSession()
      const { redirect_url: page } = data(await submit(session.url, ADA))
      const first = await newest(session.id)
      standIn.plan("page", first, faults.pendingUntil(Number.POSITIVE_INFINITY, "ongoing"))
      const back = await standIn.payOnPage(first, "pay")
      const returned = await open(back!)
      expect([returned.status, heading(returned)]).toEqual([200, "Waiting for your payment"])
      expect(returned.text).toContain(page.replaceAll("&", "&amp;"))
      expect(data(await submit(session.url, ADA))).toEqual({ status: "pending", redirect_url: page })
      standIn.settle(first)
      await callBack(rail, first)
      await eventually(async () => (data(await api.get(`/charges/${first}`)).status === "succeeded" ? true : undefined))
      expect(data(await comeBack(session.url)).status).toBe("completed")
    })

  it("verifies by itself without giving up an open page", async () => {
    const session = await openSession()
    const { redirect_url } = data(await submit(session.url, ADA))
    const looked = await open(`${session.url}/return?look`)
    expect([looked.status, heading(looked)]).toEqual([200, "Waiting for your payment"])
    expect(data(await submit(session.url, ADA))).toEqual({ status: "pending", redirect_url })
  })

  it("starts a trial with a payment that is sent back immediately, and that is not a charge", async () => {
    const before = await balances(rail)
    const session = await openSession({}, { trial_days: 14 })
    data(await submit(session.url, ADA))
    const reference = await newest(session.id)
    expect(standIn.books.get(reference)).toMatchObject({ askedKobo: 5_000 })
    expect((await api.get(`/charges/${reference}`)).status).toBe(404)
    const back = await standIn.payOnPage(reference, "pay")
    expect((await open(back!)).status).toBe(303)
    const done = data(await api.get(`/checkout-sessions/${session.id}?expand[]=subscription`))
    expect(done).toMatchObject({ status: "completed", subscription: { status: "trialing" } })
    expect(await api.all(`/charges?customer=${done.customer}`)).toEqual([])
    // Paystack reports its success later, for example by a callback.
    await eventually(async () => (standIn.books.get(reference).refunds.length > 0 ? true : undefined))
    const verification = await eventually(async () => {
      const [row] = await database.run(
        (sql) => sql<{ status: string }>`SELECT * FROM finance.card_verifications WHERE reference = ${reference}`,
      )
      if (row!.status === "returned") return row
      await callBack(rail, reference)
      return undefined
    })
    expect(verification).toMatchObject({
      account: accountId(),
      livemode: true,
      customer: done.customer,
      rail,
      amount_kobo: 5_000,
    })
    expect(await balances(rail)).toEqual(before)
  })

  it("saves a payment method for a setup", async () => {
    const customer = await createCustomer(api, { email: "ada@example.com" })
    const session = data(await api.post("/checkout-sessions", { mode: "setup", customer, ...URLS }), 201)
    data(await submit(session.url, {}))
    const back = await standIn.payOnPage(await newest(session.id), "pay")
    expect((await open(back!)).headers.get("location")).toContain("https://shop.example/welcome")
    expect(data(await api.get(`/customers/${customer}/payment-methods`))).toHaveLength(1)
  })

  it("pays once with a method that cannot be reused, which saves nothing", async () => {
    const session = await openSession()
    data(await submit(session.url, ADA))
    await standIn.payOnPage(await newest(session.id), "pay", { reusable: false })
    expect(data(await comeBack(session.url)).status).toBe("completed")
    const { customer } = data(await api.get(`/checkout-sessions/${session.id}`))
    expect(data(await api.get(`/customers/${customer}/payment-methods`))).toEqual([])

    const existingCustomer = await createCustomer(api, { email: "ada@example.com" })
    const setup = data(
      await api.post("/checkout-sessions", { mode: "setup", customer: existingCustomer, ...URLS }),
      201,
    )
    data(await submit(setup.url, {}))
    const back = await standIn.payOnPage(await newest(setup.id), "pay", { reusable: false })
    const returned = await open(back!)
    expect(markup(returned)).toContain("cannot be used for later payments")
    expect(data(await api.get(`/checkout-sessions/${setup.id}`)).status).toBe("open")
  })

  it("owes back a payment that arrives after the session has expired", async () => {
    const session = await openSession()
    data(await submit(session.url, ADA))
    const reference = await newest(session.id)
    expect(data(await api.post(`/checkout-sessions/${session.id}/expire`)).status).toBe("expired")
    await standIn.payOnPage(reference, "pay")
    await comeBack(session.url)
    expect(
      await eventually(async () => {
        const charge = data(await api.get(`/charges/${reference}`))
        return charge.status === "pending" ? undefined : charge
      }),
    ).toMatchObject({ status: "succeeded", refund_due: true })
  })

  it("shows an error if the rail opens no page", async () => {
    const session = await openSession()
    standIn.plan("open", "next", faults.unavailableBefore())
    const sent = await submit(session.url, ADA)
    expect([sent.status, sent.body.error.code]).toEqual([402, "card_declined"])
  })

  it("exposes no tokens", async () => {
    const found = await database.run((sql) =>
      Effect.gen(function* () {
        const events = yield* sql<{ text: string }>`SELECT coalesce(string_agg(data::text, ''), '') AS text FROM event`
        return events[0]!.text
      }),
    )
    for (const { token } of standIn.books.tokens.values()) expect(found).not.toContain(token)
  })
})
