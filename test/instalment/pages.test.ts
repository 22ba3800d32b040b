/** Tests buyers' pages of their instalment plans, and the messages that link to them. */
import { describe, expect, it } from "vitest"
import { comeBack, hidden, open, submitForm } from "../support/checkout.ts"
import { beginPlan, createProduct, pay, refused, useShop } from "../support/instalments.ts"
import { useInstance } from "../support/instance.ts"
import { advance, createClock, data } from "../support/story.ts"
import { useWhole } from "../support/whole.ts"

const instance = useInstance()
const { api, server, administrator, accountId, database } = instance
useWhole(database)
const { buyers } = useShop(instance)

const START = "2027-01-31T09:00:00.000Z"
const onClock = async (over: Readonly<Record<string, unknown>> = {}) => {
  const clock = await createClock(api, START)
  return { clock, plan: await beginPlan(buyers(), await createProduct(api, over), { testClock: clock }) }
}
/** The words of a page, without its markup. */
const words = (text: string): string =>
  text
    .replace(/<(style|script)\b[^>]*>.*?<\/\1>/gs, "")
    .replace(/<[^>]+>/g, " ")
    .replace(/\s+/g, " ")
const read = async (url: string) => {
  const shown = await open(url)
  return { ...shown, says: words(shown.text) }
}

describe("the buyer's page", () => {
  it("shows its progress, the next instalment, and missed ones", async () => {
    const { clock, plan } = await onClock()
    expect((await read(plan.pageUrl)).says).toContain("₦0.00 of ₦3,001.00 0 %")
    data(await pay(plan))
    const paid = await read(`${plan.pageUrl}?paid`)
    expect(paid.status).toBe(200)
    for (const says of [
      "Thank you: ₦1,000.00 is paid.",
      "₦1,000.00 of ₦3,001.00 33 %",
      "₦2,001.00 to go",
      "₦1,000.00 is due on 28 February 2027",
      "1 31 January 2027 ₦1,000.00 Paid 2 28 February 2027 ₦1,000.00 Next 3 31 March 2027 ₦1,001.00 To come",
    ])
      expect(paid.says).toContain(says)
    expect((await read(plan.pageUrl)).says).not.toContain("Thank you")
    await advance(api, clock, "2027-03-02T09:00:00Z")
    expect((await read(plan.pageUrl)).says).toContain("₦1,100.00 is late. ₦100.00 of it is for being late.")
    data(await pay(plan))
    data(await pay(plan))
    expect((await read(plan.pageUrl)).says).toContain("Inverter is yours You have paid all of ₦3,001.00.")
    data(await api.post(`/provider-savings/${plan.id}/ship`))
    data(await api.post(`/provider-savings/${plan.id}/deliver`))
    expect((await read(plan.pageUrl)).says).toContain("You can bring it back until 9 March 2027")
  })

  it("shows the deadline of the first payment, and that it was missed", async () => {
    const { clock, plan } = await onClock()
    for (const url of [plan.pageUrl, plan.paymentUrl])
      expect((await read(url)).says).toContain("Make your first payment by 1 February 2027, 10:00")
    data(await pay(plan))
    expect((await read(plan.pageUrl)).says).not.toContain("Make your first payment")
    const other = await beginPlan(buyers(), await createProduct(api), { testClock: clock })
    await advance(api, clock, "2027-02-01T09:00:00Z")
    const { status, says } = await read(other.pageUrl)
    expect([
      status,
      says.includes("cancelled on 1 February 2027, as no first payment had been made within a day."),
    ]).toEqual([410, true])
    expect((await read(plan.pageUrl)).status).toBe(200)
  })

  it("names the late fee that comes first, also after a flexible plan is extended", async () => {
    const offer = { mode: "flexible", allowedFrequencies: undefined, price: 10_000, lateFee: 2_000, cycleMonths: 1 }
    const { clock, plan } = await onClock(offer)
    data(await pay(plan, { amount: 3_000 }))
    await advance(api, clock, "2027-03-05T09:00:00Z")
    data(await api.post(`/provider-savings/${plan.id}/extend`, { days: 60 }))
    const { says } = await read(plan.pageUrl)
    expect(says).toContain("₦9,000.00 to go, ₦2,000.00 of it for being late, and it is yours.")
    expect(says).toContain("₦2,000.00 for being late comes first.")
    expect((await read(plan.paymentUrl)).says).toContain("₦9,000.00 is left, ₦2,000.00 of it late fees.")
  })

  it("returns the plan itself to a program", async () => {
    const { plan } = await onClock()
    const response = await fetch(plan.pageUrl, { headers: { accept: "application/json" } })
    expect(((await response.json()) as { readonly data: unknown }).data).toEqual(
      data(await api.get(`/provider-savings/${plan.id}`)),
    )
  })

  it("shows a part of a long schedule, and its range", async () => {
    const plan = await beginPlan(
      buyers(),
      await createProduct(api, { price: 100_000, allowedFrequencies: ["daily"], cycleMonths: 12 }),
    )
    const { says, text } = await read(plan.pageUrl)
    expect(says).toMatch(/Instalments 1 to 24 of 36[56]\./)
    expect(Buffer.byteLength(text)).toBeLessThan(30_000)
  })

  it("is 404 without the whole token", async () => {
    const { plan } = await onClock()
    for (const url of [
      `${server().origin}/save`,
      `${server().origin}/save/none`,
      `${plan.pageUrl}x`,
      `${plan.paymentUrl}x`,
    ])
      expect((await open(url)).status, url).toBe(404)
  })

  it("lets a buyer pay and leave after the merchant stops selling; the API's paths are gone", async () => {
    const { plan } = await onClock()
    const vertical = (name: string) =>
      administrator.patch(`/providers/${accountId()}/vertical`, { vertical: name, reason: "They sell fuel now" })
    data(await vertical("fuel"))
    expect((await open(plan.pageUrl)).status).toBe(200)
    expect(data(await pay(plan)).plan.status).toBe("active")
    expect(refused(await buyers().get(`/public/save-to-buy/p/${plan.token}`), 404).code).toBe("feature_unavailable")
    expect(refused(await api.get(`/provider-savings/${plan.id}`), 404).code).toBe("feature_unavailable")
    data(await vertical("ecommerce"))
    expect((await open(plan.pageUrl)).status).toBe(200)
  })
})

describe("the payment page", () => {
  it("suggests the amount due, and accepts more; an invalid amount is reported at the field", async () => {
    const { plan } = await onClock()
    const shown = await read(plan.paymentUrl)
    const { text, says } = shown
    expect(text).toMatch(/name="amount"[^>]* value="1000"/)
    expect(says).toContain("from ₦1,000.00 to ₦3,001.00")
    const form = {
      payment_method: "pm_test_visa",
      seen: hidden(shown, "seen"),
      submission: hidden(shown, "submission"),
    }
    for (const [amount, status, wrong] of [
      ["999", 400, "Pay at least ₦1,000.00: so much is due."],
      ["3002", 400, "Pay at most ₦3,001.00: no more is outstanding."],
      ["many", 400, "Enter a whole number of naira, such as 5000."],
    ] as const) {
      const shown = await submitForm(plan.paymentUrl, { ...form, amount })
      expect(
        [shown.status, words(shown.text).includes(wrong), shown.text.includes(`value="${amount}"`)],
        amount,
      ).toEqual([status, true, true])
    }
    const done = await submitForm(plan.paymentUrl, { ...form, amount: "₦1,500" })
    expect([done.status, done.headers.get("location")]).toEqual([303, `${new URL(plan.pageUrl).pathname}?paid`])
    expect(data(await api.get(`/provider-savings/${plan.id}`)).amountPaid).toBe(1_500)
  })

  it("asks for a code, and keeps the amount", async () => {
    const { plan } = await onClock()
    const first = await submitForm(plan.paymentUrl, {
      payment_method: "pm_test_requires_otp",
      amount: "2000",
      seen: "0",
      submission: "a",
    })
    expect([first.status, hidden(first, "amount"), hidden(first, "seen")]).toEqual([402, "2000", "0"])
    const second = await submitForm(plan.paymentUrl, {
      payment_method: "pm_test_requires_otp",
      otp: "123456",
      amount: hidden(first, "amount"),
      seen: hidden(first, "seen"),
      submission: hidden(first, "submission"),
    })
    expect(second.status).toBe(303)
    expect(data(await api.get(`/provider-savings/${plan.id}`)).amountPaid).toBe(2_000)
  })

  it("waits for a slow bank, and accepts no second payment meanwhile", async () => {
    const { clock, plan } = await onClock()
    const slow = data(await pay(plan, { payment_method: "pm_test_bank_account" }))
    expect(slow).toMatchObject({ status: "pending", amount: 1_000, plan: { status: "pending" } })
    expect(refused(await pay(plan), 422).code).toBe("charge_in_progress")
    expect((await read(plan.paymentUrl)).says).toContain("Waiting for your payment")
    expect(await comeBack(plan.paymentUrl)).toMatchObject({ body: { data: { status: "pending" } } })
    await advance(api, clock, "2027-01-31T11:00:00Z")
    expect(await comeBack(plan.paymentUrl)).toMatchObject({
      body: { data: { status: "open", redirect_url: `${plan.pageUrl}?paid` } },
    })
    expect(data(await api.get(`/provider-savings/${plan.id}`))).toMatchObject({ status: "active", amountPaid: 1_000 })
  })

  it("a payment in progress at the end of a day is awaited", async () => {
    const clock = await createClock(api, START)
    const plan = await beginPlan(buyers(), await createProduct(api), { testClock: clock })
    await advance(api, clock, "2027-02-01T08:30:00Z")
    data(await pay(plan, { payment_method: "pm_test_bank_account" }))
    await advance(api, clock, "2027-02-01T12:00:00Z")
    expect(data(await api.get(`/provider-savings/${plan.id}`))).toMatchObject({ status: "active", amountPaid: 1_000 })
    const other = await beginPlan(buyers(), await createProduct(api), { testClock: await createClock(api, START) })
    expect(data(await api.get(`/provider-savings/${other.id}`)).status).toBe("pending")
  })

  it("a payment that arrives after the plan was cancelled is owed back", async () => {
    const { clock, plan } = await onClock()
    data(await pay(plan, { payment_method: "pm_test_bank_account" }))
    data(await buyers().post(`/public/save-to-buy/p/${plan.token}/cancel`))
    await advance(api, clock, "2027-01-31T11:00:00Z")
    const [charge] = await api.all("/charges")
    expect(charge).toMatchObject({ status: "succeeded", refund_due: true })
    expect((await read(plan.pageUrl)).says).toContain("is owed back to you")
  })
})

describe("cancelling on the page", () => {
  it("shows in naira the amount to return before it is done, and the returned amount after", async () => {
    const { clock, plan } = await onClock()
    data(await pay(plan))
    await advance(api, clock, "2027-03-02T09:00:00Z")
    const asked = await read(`${plan.pageUrl}/cancel`)
    expect(asked.says).toContain(
      "You have paid ₦1,000.00. ₦100.00 of it is kept for late payments, and Fit Lagos owes you ₦900.00 back.",
    )
    expect(asked.says).toContain("Cancel, and get ₦900.00 back")
    const cancel = (headers: Readonly<Record<string, string>> = {}) =>
      fetch(`${plan.pageUrl}/cancel`, {
        method: "POST",
        redirect: "manual",
        headers: { "content-type": "application/x-www-form-urlencoded", ...headers },
      })
    expect((await cancel({ "sec-fetch-site": "cross-site" })).status).toBe(403)
    expect((await cancel({ origin: "https://evil.example" })).status).toBe(403)
    expect(data(await api.get(`/provider-savings/${plan.id}`)).status).toBe("overdue")
    for (const _ of [1, 2]) expect((await cancel()).status).toBe(303)
    const after = await read(plan.pageUrl)
    expect([after.status, after.says.includes("₦900.00 is owed back to you")]).toEqual([410, true])
    expect((await open(plan.paymentUrl)).status).toBe(410)
  })
})

describe("cancelling on an outdated page", () => {
  it("asks again if the returned amount differs from the shown one", async () => {
    const { clock, plan } = await onClock()
    data(await pay(plan))
    const [, action] = /action="([^"]+)"/.exec((await open(`${plan.pageUrl}/cancel`)).text)!
    await advance(api, clock, "2027-03-02T09:00:00Z")
    const send = (path: string) =>
      fetch(new URL(path, plan.pageUrl), {
        method: "POST",
        redirect: "manual",
        headers: { "content-type": "application/x-www-form-urlencoded" },
      })
    const stale = await send(action!)
    const page = await stale.text()
    expect([stale.status, words(page).includes("nothing is cancelled yet")]).toEqual([422, true])
    expect(data(await api.get(`/provider-savings/${plan.id}`)).status).toBe("overdue")
    expect((await send(/action="([^"]+)"/.exec(page)![1]!)).status).toBe(303)
    expect(data(await api.get(`/provider-savings/${plan.id}`)).status).toBe("cancelled")
  })
})

describe("reminders", () => {
  it("are sent before an instalment and after it was missed, and link to the payment page", async () => {
    const { clock, plan } = await onClock()
    data(await pay(plan))
    await advance(api, clock, "2027-03-12T09:00:00Z")
    const sent = (await api.all("/test/nudge-outbox"))
      .filter(({ payment_link }) => payment_link === plan.paymentUrl)
      .reverse()
    expect(
      sent.map(({ created_at, template, source, subscription, rendered_message }) => [
        created_at.slice(0, 10),
        template,
        source,
        subscription,
        rendered_message.replace(plan.paymentUrl, "…"),
      ]),
    ).toEqual([
      [
        "2027-02-25",
        "payment_due",
        "automatic",
        null,
        "Hello Ada Obi, ₦1,000.00 for Inverter is due to Fit Lagos on 28 February 2027. To pay, and to see how far you are: …",
      ],
      [
        "2027-02-27",
        "payment_due",
        "automatic",
        null,
        "Hello Ada Obi, ₦1,000.00 for Inverter is due to Fit Lagos on 28 February 2027. To pay, and to see how far you are: …",
      ],
      [
        "2027-03-01",
        "payment_due",
        "automatic",
        null,
        "Hello Ada Obi, ₦1,100.00 for Inverter has been due to Fit Lagos since 28 February 2027. To pay and catch up: …",
      ],
      [
        "2027-03-03",
        "payment_due",
        "automatic",
        null,
        "Hello Ada Obi, ₦1,100.00 for Inverter has been due to Fit Lagos since 28 February 2027. To pay and catch up: …",
      ],
      [
        "2027-03-07",
        "payment_due",
        "automatic",
        null,
        "Hello Ada Obi, ₦1,100.00 for Inverter has been due to Fit Lagos since 28 February 2027. To pay and catch up: …",
      ],
    ])
  })

  it("are not sent while a payment is in progress (H4)", async () => {
    const { clock, plan } = await onClock()
    data(await pay(plan))
    await advance(api, clock, "2027-02-27T08:30:00Z")
    data(await pay(plan, { payment_method: "pm_test_bank_account" }))
    await advance(api, clock, "2027-03-12T09:00:00Z")
    const sent = (await api.all("/test/nudge-outbox")).filter(({ payment_link }) => payment_link === plan.paymentUrl)
    expect(sent.map(({ created_at }) => created_at)).toEqual(["2027-02-25T09:00:00.000Z"])
  })

  it("stop when all is paid, and when a plan is cancelled", async () => {
    const { clock, plan } = await onClock()
    data(await pay(plan, { amount: 3_001 }))
    await advance(api, clock, "2027-04-30T09:00:00Z")
    const sent = (await api.all("/test/nudge-outbox")).filter(({ payment_link }) => payment_link === plan.paymentUrl)
    expect(sent).toEqual([])
  })
})
