/** Tests manual and automatic reminders (decisions H1 to H8, E6). */

import { describe, expect, it } from "vitest"
import { hashToken } from "../../src/security/secret/linkTokens.ts"
import { useInstance } from "../support/instance.ts"
import {
  advance,
  createClock,
  createCustomer,
  createPlan,
  data,
  eventually,
  refusal,
  timeline,
} from "../support/story.ts"
import { useWhole } from "../support/whole.ts"

const { api, live, database, server, stranger } = useInstance()
useWhole(database)

const START = "2026-01-31T09:00:00Z"
const ADA = { name: "Ada Obi", phone: "+2348031234567", email: "ada@example.com" }

/** A customer with its own clock. */
const onClock = async (contact: object = ADA, at = START) => {
  const clock = await createClock(api, at)
  return { clock, customer: await createCustomer(api, { ...contact, test_clock: clock }) }
}

const sent = (id: string, status = "sent") =>
  eventually(async () => {
    const nudge = data(await api.get(`/nudges/${id}`))
    return nudge.status === status ? nudge : undefined
  })
const nudge = async (customer: string, over: object = {}) =>
  data(await api.post("/nudges", { customer, template: "payment_due", ...over }), 201)
const outbox = async (customer: string) => data(await api.get(`/test/nudge-outbox?customer=${customer}`))

describe("a nudge", () => {
  it("is queued, sent on the preferred channel, and delivered a second later by the customer's clock", async () => {
    const { clock, customer } = await onClock()
    const created = await nudge(customer)
    expect(created).toEqual({
      id: expect.stringMatching(/^ndg_/),
      object: "nudge",
      livemode: false,
      created_at: "2026-01-31T09:00:00.000Z",
      customer,
      subscription: null,
      channel: "whatsapp",
      template: "payment_due",
      source: "api",
      status: "queued",
      failure_reason: null,
      counts_toward_allowance: false,
      billed_as_overage: false,
      sent_at: null,
      delivered_at: null,
      attempts: [],
    })
    expect(await sent(created.id)).toMatchObject({
      sent_at: "2026-01-31T09:00:00.000Z",
      counts_toward_allowance: false,
    })
    const [out] = await outbox(customer)
    expect(out).toMatchObject({ id: created.id, to: ADA.phone })
    expect(out.payment_link).toMatch(new RegExp(`^${server().origin}/pay/00[\\w-]{51}$`))
    expect(out.rendered_message).toBe(`Hello Ada Obi, a payment to Fit Lagos is due. To pay: ${out.payment_link}`)
    await advance(api, clock, "2026-01-31T09:00:01Z")
    expect(data(await api.get(`/nudges/${created.id}`))).toMatchObject({
      status: "delivered",
      delivered_at: "2026-01-31T09:00:01.000Z",
      counts_toward_allowance: true,
      billed_as_overage: false,
      attempts: [{ channel: "whatsapp", status: "delivered", failure_reason: null, at: "2026-01-31T09:00:01.000Z" }],
    })
    const events = (await api.all("/events")).filter(({ data: { object } }) => object.id === created.id).reverse()
    expect(
      events.map(({ type, data: { previous_attributes } }) => [type, Object.keys(previous_attributes).sort()]),
    ).toEqual([
      ["nudge.sent", ["attempts", "sent_at", "status"]],
      ["nudge.delivered", ["attempts", "counts_toward_allowance", "delivered_at", "status"]],
    ])
  })

  it("to a customer without a clock is delivered by the wall clock", async () => {
    const customer = await createCustomer(api, ADA)
    const { id } = await nudge(customer)
    const delivered = await sent(id, "delivered")
    expect(Date.parse(delivered.delivered_at) - Date.parse(delivered.sent_at)).toBeGreaterThanOrEqual(1000)
    expect(delivered.counts_toward_allowance).toBe(true)
  })

  it("stores only a hash of its payment link", async () => {
    const { customer } = await onClock()
    const { id } = await nudge(customer)
    await sent(id)
    const [{ payment_link }] = await outbox(customer)
    const token = payment_link.split("/").at(-1)
    const [row] = await database.run((sql) => sql<Record<string, unknown>>`SELECT * FROM nudge WHERE id = ${id}`)
    expect(row!.link_token_hash).toBe(hashToken(token))
    expect(JSON.stringify(row)).not.toContain(token)
  })

  it.each([
    ["+2348000000001", undefined, ["whatsapp not_on_whatsapp", "sms null"], "delivered"],
    [
      "+2348000000002",
      "a@example.com",
      ["whatsapp number_unreachable", "sms number_unreachable", "email null"],
      "delivered",
    ],
    [
      "+2348000000002",
      "bounce@example.com",
      ["whatsapp number_unreachable", "sms number_unreachable", "email address_rejected"],
      "failed",
    ],
    ["+2348000000003", "a@example.com", ["whatsapp null"], "sent"],
    [undefined, "a@example.com", ["email null"], "delivered"],
  ])("tries the channels for %s and %s", async (phone, email, attempts, status) => {
    const { clock, customer } = await onClock({ name: "Ada", ...(phone && { phone }), ...(email && { email }) })
    const { id } = await nudge(customer)
    await advance(api, clock, "2026-02-01T08:59:59Z")
    const after = data(await api.get(`/nudges/${id}`))
    expect(after.status).toBe(status)
    expect(after.attempts.map((one: Record<string, unknown>) => `${one.channel} ${one.failure_reason}`)).toEqual(
      attempts,
    )
    expect(after.channel).toBe(attempts.at(-1)!.split(" ")[0])
    expect(after.failure_reason).toBe(status === "failed" ? "address_rejected" : null)
    expect(after.counts_toward_allowance).toBe(status === "delivered")
    const types = (await api.all("/events")).filter(({ data: { object } }) => object.id === id).map(({ type }) => type)
    const [first] = (await api.all("/events")).filter(({ data: { object } }) => object.id === id).toReversed()
    // The first event shows the changes since its creation, however many channels were tried.
    expect(first.data.previous_attributes).toMatchObject({ attempts: [], status: "queued" })
    expect(first.data.previous_attributes.channel).toBe(attempts.length === 1 ? undefined : "whatsapp")
    expect(types.reverse()).toEqual(
      status === "failed" ? ["nudge.failed"] : status === "sent" ? ["nudge.sent"] : ["nudge.sent", "nudge.delivered"],
    )
    // Sent without a receipt it counts after a day (decision H8).
    await advance(api, clock, "2026-02-01T09:00:00Z")
    expect(data(await api.get(`/nudges/${id}`))).toMatchObject({ status, counts_toward_allowance: status !== "failed" })
  })

  it("without a usable channel is created and failed, and does not count", async () => {
    const { customer } = await onClock({ name: "Ada" })
    for (let n = 0; n < 5; n++)
      expect(await nudge(customer, { channels: ["sms"] })).toMatchObject({
        status: "failed",
        failure_reason: "no_contact_details",
        channel: "sms",
        attempts: [],
        counts_toward_allowance: false,
      })
    expect(await outbox(customer)).toEqual([])
  })

  it("can be sent to a customer three times within a day of its clock, also by concurrent requests", async () => {
    const { clock, customer } = await onClock()
    const body = { customer, template: "custom", custom_message: "Hello" }
    const answers = await Promise.all(Array.from({ length: 10 }, () => api.post("/nudges", body)))
    expect(answers.filter(({ status }) => status === 201)).toHaveLength(3)
    const refused = answers.filter(({ status }) => status !== 201)
    expect(refused.map(refusal)).toEqual(Array.from({ length: 7 }, () => [422, "nudge_limit_reached", null]))
    await advance(api, clock, "2026-02-01T08:59:59Z")
    expect(refusal(await api.post("/nudges", body))[1]).toBe("nudge_limit_reached")
    await advance(api, clock, "2026-02-01T09:00:00Z")
    await nudge(customer)
  })

  it("refuses invalid requests, and says what to change", async () => {
    const { customer } = await onClock()
    const other = await onClock()
    const subscription = data(
      await api.post("/subscriptions", {
        customer: other.customer,
        plan: await createPlan(api),
        payment_method: "pm_test_success",
      }),
      201,
    ).id
    const cases = [
      [{ customer: "cus_none", template: "payment_due" }, 400, "resource_missing", "customer"],
      [{ customer, template: "payment_due", subscription: "sub_none" }, 400, "resource_missing", "subscription"],
      [{ customer, template: "payment_due", subscription }, 400, "parameter_invalid", "subscription"],
      [{ customer, template: "custom" }, 400, "parameter_missing", "custom_message"],
      [{ customer, template: "payment_due", custom_message: "Hi" }, 400, "parameter_invalid", "custom_message"],
      [{ customer, template: "custom", custom_message: "x".repeat(481) }, 400, "parameter_invalid", "custom_message"],
      [{ customer, template: "hello" }, 400, "parameter_invalid", "template"],
      [{ customer, template: "payment_due", channels: [] }, 400, "parameter_invalid", "channels"],
      [{ customer, template: "payment_due", channels: ["sms", "sms"] }, 400, "parameter_invalid", "channels"],
      [{ customer, template: "payment_due", channels: ["fax"] }, 400, "parameter_invalid", "channels[0]"],
      [{ customer }, 400, "parameter_missing", "template"],
    ] as const
    for (const [body, ...expected] of cases)
      expect(refusal(await api.post("/nudges", body)), JSON.stringify(body)).toEqual(expected)
    expect(refusal(await stranger.post("/nudges", { customer, template: "payment_due" }))[1]).toBe("resource_missing")
    expect((await live.get("/test/nudge-outbox")).status).toBe(404)
  })

  it("names the next charge: a paused one gets credit for its period's rest, and no charge is named if none is ahead", async () => {
    const { clock, customer } = await onClock()
    const plan = await createPlan(api, { name: "Gym", amount: 10_000, billing_cycle: "daily", pause_enabled: true })
    const body = { customer, plan, payment_method: "pm_test_success" }
    const { id } = data(await api.post("/subscriptions", body), 201)
    await advance(api, clock, "2026-01-31T21:00:00Z")
    const lastMessage = async () => {
      const { id: made } = await nudge(customer, { subscription: id })
      await sent(made)
      return (await outbox(customer))[0].rendered_message as string
    }
    data(await api.post(`/subscriptions/${id}/pause`, { resumes_at: "2026-02-01T06:00:00Z" }))
    // Half of the day is left: 50 of 100 naira.
    expect(await lastMessage()).toContain("₦50.00 for Gym is due to Fit Lagos on 1 February 2026.")
    await advance(api, clock, "2026-02-01T06:00:00Z")
    expect(data(await api.get(`/subscriptions/${id}`)).status).toBe("active")
    expect(data(await api.get(`/charges?subscription=${id}`))[0].amount).toBe(5_000)
    data(await api.post(`/subscriptions/${id}/cancel`, {}))
    expect(await lastMessage()).toContain("a payment to Fit Lagos is due.")
  })

  it("is listed by customer, subscription, channel and status, and expands", async () => {
    const { customer } = await onClock()
    const plan = await createPlan(api, { name: "Diesel", amount: 1_234_550 })
    const subscription = data(
      await api.post("/subscriptions", { customer, plan, payment_method: "pm_test_success" }),
      201,
    ).id
    const one = await nudge(customer, { subscription, channels: ["sms", "email"] })
    const two = await nudge(customer, { channels: ["email"], template: "custom", custom_message: "See you ₦oon." })
    for (const { id } of [one, two]) await sent(id)
    const ids = async (query: string) => data(await api.get(`/nudges?${query}`)).map(({ id }: { id: string }) => id)
    expect(await ids(`customer=${customer}`)).toEqual([two.id, one.id])
    expect(await ids(`subscription=${subscription}`)).toEqual([one.id])
    expect(await ids(`customer=${customer}&channel=email`)).toEqual([two.id])
    expect(await ids(`customer=${customer}&status=failed`)).toEqual([])
    const expanded = data(await api.get(`/nudges/${one.id}?expand[]=customer&expand[]=subscription`))
    expect([expanded.customer.name, expanded.subscription.id]).toEqual(["Ada Obi", subscription])
    const [second, first] = await outbox(customer)
    expect(first.rendered_message).toBe(
      `Hello Ada Obi, NGN 12,345.50 for Diesel is due to Fit Lagos on 28 February 2026. To pay or change how you pay: ${first.payment_link}`,
    )
    expect([second.to, second.rendered_message]).toEqual([ADA.email, `See you ₦oon. ${second.payment_link}`])
  })
})

describe("reminders", () => {
  const subscribe = async (
    plan: Readonly<Record<string, unknown>>,
    method = "pm_test_success",
    contact: object = ADA,
  ) => {
    const { clock, customer } = await onClock(contact)
    const body = { customer, plan: await createPlan(api, plan), payment_method: method }
    const { id } = data(await api.post("/subscriptions", body), 201)
    return { clock, customer, plan: body.plan, id }
  }
  const sentAt = async (subscription: string) =>
    [...(await api.all(`/nudges?subscription=${subscription}`))]
      .reverse()
      .map(({ template, created_at }) => `${created_at.slice(0, 16)} ${template}`)

  it("are sent before the due date and after failures, in order with the other timers", async () => {
    const { clock, id } = await subscribe({ name: "Gym" }, "pm_test_success_then_insufficient_funds")
    await advance(api, clock, "2026-03-15T09:00:00Z")
    expect(await timeline(api, [id], { nudges: true })).toEqual([
      "2026-01-31T09:00 subscription.created active",
      "2026-01-31T09:00 charge.succeeded succeeded",
      "2026-02-25T09:00 nudge.sent sent",
      "2026-02-25T09:00:01 nudge.delivered delivered",
      "2026-02-28T09:00 charge.failed failed",
      "2026-02-28T09:00 subscription.past_due past_due",
      "2026-02-28T09:00 charge.retry_scheduled failed",
      // A retry of the same instant comes first (decision E19).
      "2026-03-01T09:00 charge.failed failed",
      "2026-03-01T09:00 charge.retry_scheduled failed",
      "2026-03-01T09:00 nudge.sent sent",
      "2026-03-01T09:00:01 nudge.delivered delivered",
      "2026-03-03T09:00 nudge.sent sent",
      "2026-03-03T09:00:01 nudge.delivered delivered",
      "2026-03-04T09:00 charge.failed failed",
      "2026-03-04T09:00 charge.retry_scheduled failed",
      "2026-03-11T09:00 charge.failed failed",
      "2026-03-11T09:00 subscription.escalated paused",
      "2026-03-11T09:00 subscription.paused paused",
      "2026-03-11T09:00 nudge.sent sent",
      "2026-03-11T09:00:01 nudge.delivered delivered",
    ])
    expect(await sentAt(id)).toEqual([
      "2026-02-25T09:00 payment_due",
      "2026-03-01T09:00 payment_failed",
      "2026-03-03T09:00 payment_failed",
      "2026-03-11T09:00 service_paused",
    ])
  })

  it("ask for another payment method if the current one can never work", async () => {
    const { clock, id, customer } = await subscribe(
      { reminders: { post_due_days: [] } },
      "pm_test_success_then_expired_card",
    )
    await advance(api, clock, "2026-03-05T09:00:00Z")
    expect(await sentAt(id)).toEqual(["2026-02-25T09:00 payment_due", "2026-02-28T09:00 update_payment_method"])
    expect((await outbox(customer))[0].rendered_message).toContain(
      "could not use your payment method for Gym. To add another one: http",
    )
  })

  it("stop for a customer who is leaving", async () => {
    const { clock, id } = await subscribe(
      { reminders: { pre_due_days: [] } },
      "pm_test_success_then_insufficient_funds",
    )
    await advance(api, clock, "2026-03-01T10:00:00Z")
    data(await api.patch(`/subscriptions/${id}`, { cancel_at_period_end: true }))
    await advance(api, clock, "2026-03-20T09:00:00Z")
    expect(data(await api.get(`/subscriptions/${id}`)).status).toBe("paused")
    expect(await sentAt(id)).toEqual(["2026-03-01T09:00 payment_failed"])
  })

  it("are not sent for a day before the period, without a future charge, or if the plan has none", async () => {
    const daily = await subscribe({ billing_cycle: "daily" })
    const cancelling = await subscribe({})
    data(await api.patch(`/subscriptions/${cancelling.id}`, { cancel_at_period_end: true }))
    const off = await subscribe({ reminders: { enabled: false } }, "pm_test_success_then_expired_card")
    const deliveries = await subscribe({ billing_cycle: "per_delivery" })
    const tried = await subscribe({ billing_cycle: "per_delivery", trial_days: 14 })
    const paused = await subscribe({ pause_enabled: true })
    data(await api.post(`/subscriptions/${paused.id}/pause`, {}))
    for (const { clock, id } of [daily, cancelling, off, deliveries, tried, paused]) {
      await advance(api, clock, "2026-03-05T09:00:00Z")
      expect(await sentAt(id)).toEqual([])
    }
  })

  it("follow the plan's rules at the time they are sent", async () => {
    const { clock, id, plan } = await subscribe({})
    data(await api.patch(`/plans/${plan}`, { reminders: { pre_due_days: [10, 2] } }))
    await advance(api, clock, "2026-02-20T09:00:00Z")
    data(await api.patch(`/plans/${plan}`, { reminders: { pre_due_days: [10, 1] } }))
    await advance(api, clock, "2026-02-28T08:00:00Z")
    expect(await sentAt(id)).toEqual(["2026-02-18T09:00 payment_due", "2026-02-27T09:00 payment_due"])
  })

  it("of a trial mention its end", async () => {
    const { clock, id, customer } = await subscribe({ trial_days: 14 })
    await advance(api, clock, "2026-02-13T09:00:00Z")
    expect(await sentAt(id)).toEqual(["2026-02-11T09:00 payment_due"])
    expect((await outbox(customer))[0].rendered_message).toContain(
      "₦5,000.00 for Gym is due to Fit Lagos on 14 February 2026.",
    )
  })

  it("do not use up the manual nudges, and fail if no channel works", async () => {
    const { clock, customer, id } = await subscribe({ reminders: { pre_due_days: [5, 4, 3, 2] } }, "pm_test_success", {
      name: "Ada",
    })
    await advance(api, clock, "2026-02-27T09:00:00Z")
    expect(await sentAt(id)).toHaveLength(4)
    data(await api.patch(`/customers/${customer}`, { phone: ADA.phone }))
    for (let n = 0; n < 3; n++) await nudge(customer)
    expect(refusal(await api.post("/nudges", { customer, template: "payment_due" }))[1]).toBe("nudge_limit_reached")
  })
})
