/** Tests live nudges through messengers' documented interfaces, with local stand-ins (decisions H1, H3, H6, H8, K3). */
import { createHmac } from "node:crypto"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { describe, expect, it } from "vitest"
import { type NudgeRequest, newNudge, readAddressees } from "../../src/outbound/nudge/create.ts"
import { Nudging } from "../../src/outbound/nudge/Nudging.ts"
import { commit } from "../../src/runtime/commit.ts"
import { useOwnInstance } from "../support/instance.ts"
import { useMailbox } from "../support/mailbox.ts"
import { addMember } from "../support/member.ts"
import { type Received, useReceiver } from "../support/receiver.ts"
import { useServices } from "../support/services.ts"
import { createCustomer, createPlan, data, eventually } from "../support/story.ts"
import { useWhole } from "../support/whole.ts"

const provider = useReceiver()
const mailbox = useMailbox()
const APP_SECRET = "app-secret"
const TERMII_SECRET = "termii-secret"
const { live, database, server, accountId } = useOwnInstance(() => ({
  WHATSAPP_URL: provider.url("/v23.0"),
  WHATSAPP_PHONE_NUMBER_ID: "123",
  WHATSAPP_TOKEN: "wa-token",
  WHATSAPP_APP_SECRET: APP_SECRET,
  WHATSAPP_VERIFY_TOKEN: "shown-by-us",
  TERMII_URL: provider.url(""),
  TERMII_API_KEY: "termii-key",
  TERMII_SECRET,
  TERMII_SENDER: "FitLagos",
  SMTP_URL: mailbox.url(),
  EMAIL_FROM: "billing@service.example",
  QUIET_HOURS: "off",
}))
useWhole(database)
const services = useServices(database)

const MESSAGES = "/v23.0/123/messages"
const SMS = "/api/sms/send"
type Body = { readonly to: string; readonly biz_opaque_callback_data: string } & Readonly<Record<string, unknown>>
const bodyOf = ({ body }: Received) => JSON.parse(body) as Body

/** The 200 answers, without a message ID, for numbers with one of these endings. */
const saysNothing: Readonly<Record<string, string>> = { 61: "{}", 62: "<html>", 63: "", 64: '{"messages":"none"}' }

/** Accepts messages, except to numbers with these endings. `51` and `52` get the report before the answer. */
provider.answer(MESSAGES, async (received, response) => {
  const { to, biz_opaque_callback_data: nudge } = bodyOf(received)
  if (to.endsWith("51"))
    await whatsApp([{ status: "failed", biz_opaque_callback_data: nudge, errors: [{ code: 131026 }] }])
  if (to.endsWith("52")) await whatsApp([{ status: "delivered", biz_opaque_callback_data: nudge }])
  if (to.endsWith("53")) {
    await whatsApp([{ status: "failed", biz_opaque_callback_data: nudge, errors: [{ code: 131026 }] }])
    // Its own answer comes long after the next channel was tried.
    await eventually(async () => (provider.at(SMS).some((one) => bodyOf(one).to === to) ? true : undefined))
  }
  const error = (code: number) => JSON.stringify({ error: { code, message: "no" } })
  if (to.endsWith("11")) return void response.writeHead(400).end(error(131026))
  if (/12(99)?$/.test(to)) return void response.writeHead(500).end()
  if (to.endsWith("13")) return void response.writeHead(400).end(error(130429))
  if (to.endsWith("14")) return void response.writeHead(400).end(error(132001))
  const says = saysNothing[to.slice(-2)]
  if (says !== undefined) return void response.writeHead(200).end(says)
  return void response
    .writeHead(200)
    .end(JSON.stringify({ messaging_product: "whatsapp", messages: [{ id: `wamid.${to}` }] }))
})
provider.answer(SMS, (received, response) => {
  // An interim response is skipped (decision I2).
  response.writeContinue()
  const { to } = bodyOf(received)
  if (to.endsWith("99")) return void response.writeHead(400).end(JSON.stringify({ message: "Invalid phone number" }))
  if (to.endsWith("65")) return void response.writeHead(200).end('{"message":"Insufficient balance"}')
  if (to.endsWith("66")) return void response.writeHead(200).end('{"status":"error","message":"Invalid phone number"}')
  const says = saysNothing[to.slice(-2)]
  if (says !== undefined) return void response.writeHead(200).end(says)
  if (to.endsWith("77")) return void response.writeHead(200).end(`{"code":"ok","message_id":${longId(to)}}`)
  return void response
    .writeHead(200)
    .end(JSON.stringify({ code: "ok", message_id: `sms-${to}`, message: "Successfully Sent", balance: 9 }))
})

/** An ID that no double can store or distinguish from its neighbours. */
const longId = (to: string) => `51228212705548${to.slice(-5)}`

let made = 0
/** A live customer whose number has this ending. */
const customerWith = (ending: string, over: object = {}) =>
  createCustomer(live, { phone: `+23480${String(1_000_000 + made++).slice(1)}${ending}`, ...over })
const nudge = async (customer: string, over: object = {}) =>
  data(await live.post("/nudges", { customer, template: "payment_due", ...over }), 201).id as string
const reached = (id: string, status: string) =>
  eventually(async () => {
    const one = data(await live.get(`/nudges/${id}`))
    return one.status === status ? one : undefined
  })
const eventTypes = async (id: string) =>
  (await live.all("/events"))
    .filter(({ data: { object } }) => object.id === id)
    .map(({ type }) => type)
    .reverse()
const used = async () => data(await live.get("/usage")).nudges.used as number

const callback = (path: string, body: object | string, headers: Readonly<Record<string, string>>) =>
  fetch(`${server().origin}/callbacks/${path}`, { method: "POST", body: textOf(body), headers })
const textOf = (body: object | string) => (typeof body === "string" ? body : JSON.stringify(body))
const whatsApp = (statuses: ReadonlyArray<object>, { account = "all", secret = APP_SECRET } = {}) => {
  const body = {
    object: "whatsapp_business_account",
    entry: [{ changes: [{ field: "messages", value: { statuses } }] }],
  }
  const signature = createHmac("sha256", secret).update(JSON.stringify(body)).digest("hex")
  return callback(`whatsapp/${account}`, body, { "x-hub-signature-256": `sha256=${signature}` })
}
const termii = (body: object | string) =>
  callback("termii/all", body, {
    "x-termii-signature": createHmac("sha512", TERMII_SECRET).update(textOf(body)).digest("hex"),
  })

/** The service's background work, run in this process on the service's database. */
const make = (over: Partial<NudgeRequest>) => {
  const request: NudgeRequest = {
    account_id: accountId(),
    livemode: true,
    customerId: "",
    testClockId: null,
    about: null,
    template: "update_payment_method",
    message: null,
    channels: null,
    source: "automatic",
    reminder: null,
    sendAt: null,
    at: Date.now(),
    ...over,
  }
  const made = Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const addressees = yield* readAddressees([
      { ...request, planId: request.about !== null && "planId" in request.about ? request.about.planId : null },
    ])
    const { row, outcome } = newNudge(request, addressees, (yield* Nudging).token)!
    yield* sql.withTransaction(commit([outcome]))
    return row.id
  })
  return services(made)
}

/** Runs the sweep now: the timer of a nudge is about to be due. */
const wakeSweep = async () => make({ customerId: await customerWith("00"), sendAt: Date.now() + 50 })

describe("WhatsApp", () => {
  it("gets an approved template with its values, and reports the delivery once", async () => {
    const customer = await customerWith("00", { name: "Ada Obi" })
    const id = await nudge(customer)
    await reached(id, "sent")
    const [received] = provider.at(MESSAGES).filter((one) => bodyOf(one).biz_opaque_callback_data === id)
    expect(received!.headers.authorization).toBe("Bearer wa-token")
    const body = bodyOf(received!)
    expect(body).toEqual({
      messaging_product: "whatsapp",
      to: expect.stringMatching(/^23480\d{8}$/),
      type: "template",
      template: {
        name: "payment_due_general",
        language: { code: "en" },
        components: [
          {
            type: "body",
            parameters: [
              { type: "text", text: "Ada Obi" },
              { type: "text", text: "Fit Lagos" },
              { type: "text", text: expect.stringMatching(new RegExp(`^${server().origin}/pay/`)) },
            ],
          },
        ],
      },
      biz_opaque_callback_data: id,
    })
    const before = await used()
    const status = { id: `wamid.${body.to}`, status: "delivered", biz_opaque_callback_data: id }
    expect((await whatsApp([status], { secret: "guessed" })).status).toBe(403)
    expect((await whatsApp([status], { account: "acct_other" })).status).toBe(200)
    expect(data(await live.get(`/nudges/${id}`)).status).toBe("sent")
    const answers = await Promise.all(
      Array.from({ length: 5 }, (_, n) => whatsApp([{ ...status, status: n % 2 === 0 ? "delivered" : "read" }])),
    )
    expect(answers.map((answer) => answer.status)).toEqual([200, 200, 200, 200, 200])
    expect(await reached(id, "delivered")).toMatchObject({ counts_toward_allowance: true, billed_as_overage: false })
    expect(await used()).toBe(before + 1)
    expect(await eventTypes(id)).toEqual(["nudge.sent", "nudge.delivered"])
  })

  it("gets an answer for statuses of other messages from the same number, and ours among them count (H6)", async () => {
    const id = await nudge(await customerWith("00"))
    const { attempts } = await reached(id, "sent")
    expect(attempts).toHaveLength(1)
    const [received] = provider.at(MESSAGES).filter((one) => bodyOf(one).biz_opaque_callback_data === id)
    const others = [
      { id: "wamid.by-hand", status: "delivered" },
      {
        id: "wamid.of-another-program",
        status: "failed",
        biz_opaque_callback_data: "order-7",
        errors: [{ code: 131026 }],
      },
      { id: "wamid.of-another-program", status: "read", biz_opaque_callback_data: "" },
      // A status without our data is not about our message, whatever ID it has.
      { id: `wamid.${bodyOf(received!).to}`, status: "failed", errors: [{ code: 131026 }] },
    ]
    for (const other of others) expect((await whatsApp([other])).status).toBe(200)
    expect(data(await live.get(`/nudges/${id}`))).toMatchObject({ status: "sent", attempts })
    const ours = { id: "wamid.ours", status: "delivered", biz_opaque_callback_data: id }
    expect((await whatsApp([...others, ours, ...others], { account: "all/" })).status).toBe(200)
    await reached(id, "delivered")
  })

  it("shows its callback to callers with the token", async () => {
    const handshake = (token: string) =>
      fetch(
        `${server().origin}/callbacks/whatsapp/all?hub.mode=subscribe&hub.verify_token=${token}&hub.challenge=1158201444`,
      )
    expect(await (await handshake("shown-by-us")).text()).toBe("1158201444")
    expect((await handshake("guessed")).status).toBe(403)
  })

  it.each([
    ["11", "not_on_whatsapp"],
    // Its delivery is unknown: it is not sent there again.
    ["12", "no_answer"],
    ["14", "messenger_misconfigured"],
  ])("falls back to SMS if it answers a number that ends in %s with %s", async (ending, reason) => {
    const customer = await customerWith(ending)
    const id = await nudge(customer)
    const passed = await reached(id, "sent")
    expect(passed.attempts).toMatchObject([
      { channel: "whatsapp", status: "failed", failure_reason: reason },
      { channel: "sms", status: "sent", failure_reason: null },
    ])
    expect(provider.at(MESSAGES).filter((one) => bodyOf(one).biz_opaque_callback_data === id)).toHaveLength(1)
  })

  it("that delivers late without an answer keeps the order of tries, and the last channel", async () => {
    const id = await nudge(await customerWith("12"))
    await reached(id, "sent")
    await whatsApp([{ status: "delivered", biz_opaque_callback_data: id }])
    const delivered = await reached(id, "delivered")
    expect(delivered.channel).toBe("sms")
    expect(delivered.attempts).toMatchObject([
      { channel: "whatsapp", status: "delivered", failure_reason: null },
      { channel: "sms", status: "sent" },
    ])
  })

  it("falls back if a message that it accepted fails later", async () => {
    const id = await nudge(await customerWith("00"))
    await reached(id, "sent")
    await whatsApp([{ id: "wamid.other", status: "failed", biz_opaque_callback_data: id, errors: [{ code: 131026 }] }])
    const passed = await eventually(async () => {
      const one = data(await live.get(`/nudges/${id}`))
      return one.channel === "sms" && one.attempts.length === 2 ? one : undefined
    })
    expect([passed.status, passed.attempts[0].failure_reason, passed.attempts[1].status]).toEqual([
      "sent",
      "not_on_whatsapp",
      "sent",
    ])
    expect(await eventTypes(id)).toEqual(["nudge.sent"])
  })

  it("may report a message before its answer", async () => {
    const failed = await nudge(await customerWith("51"))
    const passed = await reached(failed, "sent")
    expect(passed.attempts.map((one: Record<string, unknown>) => [one.channel, one.status])).toEqual([
      ["whatsapp", "failed"],
      ["sms", "sent"],
    ])
    const delivered = await nudge(await customerWith("52"))
    expect((await reached(delivered, "delivered")).attempts).toMatchObject([
      { channel: "whatsapp", status: "delivered" },
    ])
    expect(await eventTypes(delivered)).toEqual(["nudge.sent", "nudge.delivered"])
    expect(await eventTypes(failed)).toEqual(["nudge.sent"])
  })

  it("that answers after it has failed a message is not mistaken for the next channel", async () => {
    const id = await nudge(await customerWith("53", { email: "late@example.com" }))
    const passed = await reached(id, "sent")
    expect(passed.attempts).toMatchObject([
      { channel: "whatsapp", status: "failed" },
      { channel: "sms", status: "sent" },
    ])
    const [{ to }] = provider
      .at(SMS)
      .map(bodyOf)
      .filter((body) => body.to.endsWith("53")) as [Body]
    expect((await termii({ message_id: `sms-${to}`, status: "Delivered" })).status).toBe(200)
    await reached(id, "delivered")
    expect(mailbox.to("late@example.com")).toEqual([])
  })

  it("may have delivered a message that it never answered, and that no other channel accepted", async () => {
    const id = await nudge(await customerWith("1299"))
    await reached(id, "failed")
    await whatsApp([{ status: "delivered", biz_opaque_callback_data: id }])
    expect(await reached(id, "delivered")).toMatchObject({ channel: "sms", counts_toward_allowance: true })
    expect(await eventTypes(id)).toEqual(["nudge.failed", "nudge.sent", "nudge.delivered"])
  })

  it("reports many at the same time, in any order, and each counts once", async () => {
    const ids = await Promise.all(Array.from({ length: 12 }, async () => nudge(await customerWith("00"))))
    for (const id of ids) await reached(id, "sent")
    const before = await used()
    const all = ids.map((id) => ({ status: "delivered", biz_opaque_callback_data: id }))
    const answers = await Promise.all([all, all.toReversed(), all, all.toReversed()].map((batch) => whatsApp(batch)))
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200])
    expect(await used()).toBe(before + 12)
  })

  it("reports readable statuses beside unreadable ones", async () => {
    const id = await nudge(await customerWith("00"))
    await reached(id, "sent")
    const odd = [null, 5, [], {}, [null], [{ changes: null }], [{ changes: [null, { value: 3 }] }]]
    for (const entry of odd) {
      const body = JSON.stringify({ entry })
      const signature = createHmac("sha256", APP_SECRET).update(body).digest("hex")
      expect((await callback("whatsapp/all", body, { "x-hub-signature-256": `sha256=${signature}` })).status).toBe(200)
    }
    const strange = [null, { id: "a\u0000", status: "read" }, { biz_opaque_callback_data: { a: 1 }, status: "read" }]
    const delivered = { status: "delivered", biz_opaque_callback_data: id }
    expect((await whatsApp([...strange, delivered] as Array<object>)).status).toBe(200)
    await reached(id, "delivered")
    expect((await termii({ message_id: "z\u0000z", status: "DELIVERED" })).status).toBe(200)
    expect((await termii({ message_id: ["a"], status: 7 })).status).toBe(200)
  })

  it("that is too busy is tried again later", async () => {
    const id = await nudge(await customerWith("13"))
    const resting = await eventually(async () => {
      const [row] = await database.run(
        (sql) => sql<{ state: string; due: number }>`
          SELECT n.state, extract(epoch FROM t.due_at - n.created_at) AS due FROM nudge n JOIN timer t ON t.actor_id = n.id WHERE n.id = ${id}`,
      )
      return row
    })
    expect(resting.state).toBe("resting")
    expect(Number(resting.due)).toBeGreaterThan(29)
    expect(data(await live.get(`/nudges/${id}`))).toMatchObject({ status: "queued", attempts: [] })
  })
})

describe("an answer with 200", () => {
  it("without a message ID is not valid: the next channel is tried", async () => {
    for (const ending of Object.keys(saysNothing)) {
      const id = await nudge(await customerWith(ending, { email: `e${ending}@example.com` }))
      const { attempts } = await reached(id, "sent")
      expect(attempts.map(({ channel, status }: Record<string, unknown>) => [channel, status])).toEqual([
        ["whatsapp", "failed"],
        ["sms", "failed"],
        ["email", "sent"],
      ])
    }
  })

  it("with an error is a refusal", async () => {
    for (const [ending, failure_reason] of [
      ["65", "messenger_misconfigured"],
      ["66", "number_unreachable"],
      ["61", "no_answer"],
    ] as const) {
      const id = await nudge(await customerWith(ending), { channels: ["sms"] })
      expect(await reached(id, "failed")).toMatchObject({ failure_reason })
    }
    expect(server().output()).not.toContain("Insufficient balance")
  })
})

describe("SMS", () => {
  it("is identified by the exact ID, quoted or not", async () => {
    const all: Array<string> = []
    for (let n = 0; n < 2; n++) all.push(await nudge(await customerWith("77"), { channels: ["sms"] }))
    const [first, second] = all as [string, string]
    for (const id of all) await reached(id, "sent")
    const ids = provider
      .at(SMS)
      .map((one) => bodyOf(one).to)
      .filter((to) => to.endsWith("77"))
      .map(longId)
      .sort()
    expect(Number(ids[0])).toBe(Number(ids[1]))
    await termii(`{"message_id":${ids[0]},"status":"Message Failed"}`)
    await reached(first, "failed")
    expect(data(await live.get(`/nudges/${second}`)).status).toBe("sent")
    await termii({ message_id: ids[1]!, status: "Delivered" })
    await reached(second, "delivered")
  })

  it("writes NGN, and reports name the message", async () => {
    const customer = await customerWith("00")
    const id = await nudge(customer, { template: "custom", custom_message: "You owe ₦5,000.00.", channels: ["sms"] })
    await reached(id, "sent")
    const [received] = provider.at(SMS).filter((one) => one.body.includes("You owe"))
    const body = JSON.parse(received!.body)
    expect(body).toMatchObject({ api_key: "termii-key", from: "FitLagos", channel: "dnd", type: "plain" })
    expect(body.sms).toMatch(/^You owe NGN 5,000\.00\. http/)
    await termii({ message_id: `sms-${body.to}`, status: "Message Sent" })
    expect(data(await live.get(`/nudges/${id}`)).status).toBe("sent")
    await termii({ message_id: `sms-${body.to}`, status: "Delivered" })
    await reached(id, "delivered")
    // It may come before the messenger's own answer, so it must be sent again.
    expect((await termii({ message_id: "not-yet", status: "Delivered" })).status).toBe(404)
    const unsigned = await callback("termii/all", { message_id: "x", status: "Delivered" }, {})
    const { error } = (await unsigned.json()) as { error: { code: string } }
    expect([unsigned.status, error.code]).toEqual([403, "signature_invalid"])
  })

  it("fails for an invalid number", async () => {
    const id = await nudge(await customerWith("99"), { channels: ["sms"] })
    expect(await reached(id, "failed")).toMatchObject({ failure_reason: "number_unreachable", sent_at: null })
  })
})

describe("e-mail", () => {
  it("is sent with the nudge's own Message-ID, and its last status is sent", async () => {
    const customer = await createCustomer(live, { email: "ada@example.com" })
    const id = await nudge(customer)
    expect(await reached(id, "sent")).toMatchObject({ channel: "email", counts_toward_allowance: false })
    const [mail] = mailbox.to("ada@example.com")
    expect(mail!.text).toContain(`Message-ID: <${id}@service.example>`)
    expect(mail!.text).toContain("From: Fit Lagos <billing@service.example>")
    expect(mail!.text).toContain("Subject: Your payment to Fit Lagos is due")
    expect(mail!.text).toContain(`To pay: ${server().origin}/pay/`)
    // A day later it counts (decision H8).
    const before = await used()
    const hurried = await database.run(
      (sql) => sql`UPDATE timer SET due_at = now() WHERE actor_id = ${id} AND name = 'unheard' RETURNING 1`,
    )
    expect(hurried).toHaveLength(1)
    await wakeSweep()
    await eventually(async () => (data(await live.get(`/nudges/${id}`)).counts_toward_allowance ? true : undefined))
    expect(await used()).toBe(before + 1)
  })

  it("that is refused fails the nudge", async () => {
    const id = await nudge(await createCustomer(live, { email: "bounce@example.com" }))
    expect(await reached(id, "failed")).toMatchObject({ failure_reason: "address_rejected" })
  })
})

describe.concurrent("quiet hours", () => {
  it("delay an automatic nudge until they end, and then send it", async () => {
    const id = await make({ customerId: await customerWith("00"), sendAt: Date.now() + 3_600_000 })
    expect(data(await live.get(`/nudges/${id}`))).toMatchObject({
      status: "queued",
      source: "automatic",
      sent_at: null,
    })
    await database.run((sql) => sql`UPDATE timer SET due_at = now() WHERE actor_id = ${id} RETURNING 1`)
    await wakeSweep()
    await reached(id, "sent")
  })

  it("drop a nudge whose reason is gone by then, and keep the others", async () => {
    const customer = await customerWith("00")
    await database.run(
      (sql) => sql`
        INSERT INTO payment_method (account_id, livemode, customer_id, id, type, created_at)
        VALUES (${accountId()}, true, ${customer}, 'pm_live', 'card', now()) RETURNING 1`,
    )
    const plan = await createPlan(live)
    const body = { customer, plan, payment_method: "pm_live", trial_days: 5 }
    const { id: subscription, next_charge_at } = data(await live.post("/subscriptions", body), 201)
    const about = { subscriptionId: subscription, planId: plan, amountKobo: 500_000, dueAt: null }
    const reminder = { rule: "pre_due", day: 3, of: Date.parse(next_charge_at) } as const
    const due = await make({ customerId: customer, about, template: "payment_due", reminder, sendAt: Date.now() + 900 })
    const id = await make({ customerId: customer, about, sendAt: Date.now() + 1_000 })
    // A first payment at `start_at` is a future payment, as a renewal is (decision H10).
    const start_at = new Date(Date.now() + 5 * 86_400_000).toISOString()
    const later = data(await live.post("/subscriptions", { customer, plan, payment_method: "pm_live", start_at }), 201)
    const first = await make({
      customerId: customer,
      about: { ...about, subscriptionId: later.id },
      template: "payment_due",
      reminder: { rule: "pre_due", day: 3, of: Date.parse(later.next_charge_at) },
      sendAt: Date.now() + 900,
    })
    expect(await reached(id, "failed")).toMatchObject({
      failure_reason: "no_longer_needed",
      attempts: [],
      counts_toward_allowance: false,
    })
    await reached(due, "sent")
    await reached(first, "sent")
  })

  it("are over for an automatic nudge that an outage delayed for an hour", async () => {
    const late = await make({ customerId: await customerWith("00"), at: Date.now() - 3_700_000 })
    expect(await reached(late, "failed")).toMatchObject({ failure_reason: "no_longer_needed", attempts: [] })
    const nearly = await make({ customerId: await customerWith("00"), at: Date.now() - 3_000_000 })
    await reached(nearly, "sent")
    // One that was made late is measured from its due instant.
    const due = { customerId: await customerWith("00"), sendAt: Date.now() - 3_700_000 }
    expect(await reached(await make(due), "failed")).toMatchObject({ failure_reason: "no_longer_needed" })
  })
})

describe.concurrent("mail to owners", () => {
  it("with a temporary refusal waits and delays no others; mail to an unknown address is given up", async () => {
    const write = (recipient: string) =>
      database.run(
        (sql) => sql`
          INSERT INTO letter (account_id, livemode, id, recipient, subject, body)
          VALUES (${accountId()}, true, ${`oem_${recipient}`}, ${recipient}, 'Hello', 'There') RETURNING 1`,
      )
    for (const recipient of ["busy@fit.example", "bounce@fit.example", "fine@fit.example"]) await write(recipient)
    await eventually(async () => (mailbox.to("fine@fit.example").length === 1 ? true : undefined))
    const rows = await eventually(async () => {
      const found = await database.run(
        (sql) => sql<{ recipient: string; failure_reason: string | null; waits: boolean; sent: boolean }>`
          SELECT recipient, failure_reason, next_try_at > now() + interval '30 seconds' AS waits, sent_at IS NOT NULL AS sent
          FROM letter WHERE subject = 'Hello' AND tries = 1 ORDER BY recipient`,
      )
      const isDecided = found.some((row) => row.failure_reason !== null) && found.some((row) => row.sent)
      return isDecided && found.length === 3 ? found : undefined
    })
    expect(rows.map(({ recipient, failure_reason, sent }) => [recipient, failure_reason, sent])).toEqual([
      ["bounce@fit.example", "address_rejected", false],
      ["busy@fit.example", null, false],
      ["fine@fit.example", null, true],
    ])
    expect(rows[1]!.waits).toBe(true)
    await database.run(
      (sql) => sql`UPDATE letter SET next_try_at = now() WHERE recipient = 'busy@fit.example' RETURNING 1`,
    )
    await eventually(async () => (mailbox.to("busy@fit.example").length === 1 ? true : undefined))
  })
})

describe("the allowance", () => {
  it("is announced at 80 and 100 %, and further use is billed", async () => {
    await addMember(database, accountId(), "owner", "owner@fit.example")
    const set = (nudges: number) =>
      database.run(
        (sql) =>
          sql`UPDATE usage_counter SET nudges = ${nudges}, nudge_threshold = 0 WHERE account_id = ${accountId()} RETURNING 1`,
      )
    const deliver = async () => {
      const id = await nudge(await customerWith("00"))
      await reached(id, "sent")
      await whatsApp([{ status: "delivered", biz_opaque_callback_data: id }])
      return reached(id, "delivered")
    }
    await set(39)
    expect(await deliver()).toMatchObject({ counts_toward_allowance: true, billed_as_overage: false })
    await database.run((sql) => sql`UPDATE usage_counter SET nudges = 49 WHERE account_id = ${accountId()} RETURNING 1`)
    expect((await deliver()).billed_as_overage).toBe(false)
    expect((await deliver()).billed_as_overage).toBe(true)
    const usageEvents = (await live.all("/events"))
      .filter(({ type }) => type === "usage.threshold_reached")
      .map(({ data: { object } }) => [object.metric, object.threshold, object.used, object.included])
    expect(usageEvents.reverse()).toEqual([
      ["nudges", 80, 40, 50],
      ["nudges", 100, 50, 50],
    ])
    const usage = data(await live.get("/usage")).nudges
    expect(usage).toMatchObject({ used: 51, included: 50, overage: 1, overage_amount: 5_000 })
    await eventually(async () => (mailbox.to("owner@fit.example").length === 2 ? true : undefined))
    expect(mailbox.to("owner@fit.example")[0]!.text).toContain("of this month's nudges are used")
    await eventually(async () => {
      const left = await database.run(
        (sql) => sql`SELECT 1 FROM letter WHERE sent_at IS NULL AND failure_reason IS NULL`,
      )
      return left.length === 0 ? true : undefined
    })
  })
})
