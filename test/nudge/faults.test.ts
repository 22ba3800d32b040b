/** Tests processes that die or were away: each channel gets a message at most once, and no burst is sent. */
import { Effect } from "effect"
import { describe, expect, it } from "vitest"
import { createAccount } from "../../src/merchants/account/accounts.ts"
import { createApi } from "../support/api.ts"
import { useDatabase } from "../support/database.ts"
import { useReceiver } from "../support/receiver.ts"
import { rewind } from "../support/rewind.ts"
import { startServer } from "../support/server.ts"
import { createClock, createCustomer, createPlan, data, eventually } from "../support/story.ts"
import { expectWhole } from "../support/whole.ts"

/** One database for each test: the tests run in parallel, and a server works on everything in its database. */
const [TAKEN, STOPPING, HICCUP, CLOCK, QUIET, OUTAGE] = [
  useDatabase(),
  useDatabase(),
  useDatabase(),
  useDatabase(),
  useDatabase(),
  useDatabase(),
]
const provider = useReceiver()
/** Each test sends from its own number. */
const messagesOf = (number: string) => `/v23.0/${number}/messages`
const settings = (number: string) => ({
  WHATSAPP_URL: provider.url("/v23.0"),
  WHATSAPP_PHONE_NUMBER_ID: number,
  WHATSAPP_TOKEN: "t",
  WHATSAPP_APP_SECRET: "s",
  WHATSAPP_VERIFY_TOKEN: "v",
  QUIET_HOURS: "off",
})
const HOUR_MS = 3_600_000
const DAY_MS = 86_400_000

describe.concurrent("kill -9", () => {
  it("while a messenger has a message does not send it there again: the next channel gets it", async () => {
    const database = TAKEN
    const { keys } = await database.run(() => createAccount({ businessName: "Fit Lagos", liveAccess: "approved" }))
    // Accepts the message and never answers.
    provider.answer(messagesOf("123"), () => {})
    let server = await startServer(database.url(), settings("123"))
    let live = createApi(server.origin, keys.sk_live!, "live")
    const customer = await createCustomer(live, { phone: "+2348031234567" })
    const { id } = data(await live.post("/nudges", { customer, template: "payment_due" }), 201)
    await eventually(async () => (provider.at(messagesOf("123")).length === 1 ? true : undefined))
    await server.kill()
    // For a while only its connection may have been lost.
    await database.run(
      (sql) => sql`UPDATE nudge SET taken_at = now() - interval '20 seconds' WHERE id = ${id} RETURNING 1`,
    )
    server = await startServer(database.url(), settings("123"))
    live = createApi(server.origin, keys.sk_live!, "live")
    const passed = await eventually(async () => {
      const one = data(await live.get(`/nudges/${id}`))
      return one.status === "delivered" ? one : undefined
    })
    expect(passed.attempts).toMatchObject([
      { channel: "whatsapp", status: "failed", failure_reason: "no_answer" },
      { channel: "sms", status: "delivered" },
    ])
    expect(provider.at(messagesOf("123"))).toHaveLength(1)
    expect(await server.stop()).toBe(0)
    await expectWhole(database)
  })

  it("is not needed to stop: a message at a messenger is finished first", async () => {
    const database = STOPPING
    const { keys } = await database.run(() => createAccount({ businessName: "Stopping", liveAccess: "approved" }))
    const server = await startServer(database.url(), settings("124"))
    const live = createApi(server.origin, keys.sk_live!, "live")
    // It is asked to stop just as the messenger has the message.
    provider.answer(messagesOf("124"), (_, response) => {
      server.process.kill("SIGTERM")
      setTimeout(() => response.writeHead(200).end(JSON.stringify({ messages: [{ id: "wamid.1" }] })), 500)
    })
    const customer = await createCustomer(live, { phone: "+2348031234567" })
    const before = provider.at(messagesOf("124")).length
    const { id } = data(await live.post("/nudges", { customer, template: "payment_due" }), 201)
    await eventually(async () => (provider.at(messagesOf("124")).length > before ? true : undefined))
    expect(await server.stop()).toBe(0)
    const [row] = await database.run(
      (sql) =>
        sql`SELECT status, runner, message_id, jsonb_array_length(attempts) AS attempts FROM nudge WHERE id = ${id}`,
    )
    expect(row).toEqual({ status: "sent", runner: null, message_id: "wamid.1", attempts: 1 })
  })

  it("is not needed either when the database fails for a moment: a messenger's answer is kept", async () => {
    const database = HICCUP
    const { keys } = await database.run(() => createAccount({ businessName: "Hiccup", liveAccess: "approved" }))
    provider.answer(messagesOf("125"), (_, response) => void response.writeHead(200).end('{"messages":[{"id":"w"}]}'))
    for (const statement of [
      "CREATE SEQUENCE hiccups",
      `CREATE FUNCTION hiccup() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN IF nextval('hiccups') <= 2 THEN RAISE EXCEPTION 'hiccup' USING ERRCODE = '40001'; END IF; RETURN NEW; END $$`,
      "CREATE TRIGGER hiccup BEFORE UPDATE ON nudge FOR EACH ROW WHEN (NEW.state = 'sent') EXECUTE FUNCTION hiccup()",
    ])
      await database.run((sql) => sql.unsafe(statement).unprepared)
    const server = await startServer(database.url(), settings("125"))
    const live = createApi(server.origin, keys.sk_live!, "live")
    const customer = await createCustomer(live, { phone: "+2348031234567" })
    const { id } = data(await live.post("/nudges", { customer, template: "payment_due" }), 201)
    const sent = await eventually(async () => {
      const one = data(await live.get(`/nudges/${id}`))
      return one.status === "sent" ? one : undefined
    })
    expect(sent.attempts).toMatchObject([{ channel: "whatsapp", status: "sent" }])
    await database.run((sql) => sql.unsafe("DROP TRIGGER hiccup ON nudge").unprepared)
    expect(await server.stop()).toBe(0)
  })

  it("while a clock moves skips no reminder and sends none twice", async () => {
    const database = CLOCK
    const { keys, account } = await database.run(() => createAccount({ businessName: "Clock" }))
    let server = await startServer(database.url())
    let api = createApi(server.origin, keys.sk_test)
    const clock = await createClock(api, "2026-01-01T00:00:00Z")
    const plan = await createPlan(api, { billing_cycle: "weekly" })
    for (let n = 0; n < 20; n++) {
      const customer = await createCustomer(api, { test_clock: clock, phone: `+23480312345${10 + n}` })
      data(await api.post("/subscriptions", { customer, plan, payment_method: "pm_test_success" }), 201)
    }
    data(await api.post(`/test/clocks/${clock}/advance`, { frozen_time: "2026-05-01T00:00:00Z" }), 202)
    const sent = async () => {
      const [row] = await database.run(
        (sql) =>
          sql<{ n: number }>`SELECT count(*) AS n FROM event WHERE account_id = ${account.id} AND type = 'nudge.sent'`,
      )
      return row!.n
    }
    for (const progress of [50, 150, 250]) {
      await eventually(async () => ((await sent()) >= progress ? true : undefined))
      await server.kill()
      server = await startServer(database.url())
      api = createApi(server.origin, keys.sk_test)
    }
    await eventually(async () => (data(await api.get(`/test/clocks/${clock}`)).status === "ready" ? true : undefined))
    // Three days before each of 17 renewals, of which the last is due on 30 April.
    expect(await sent()).toBe(20 * 17)
    expect(await server.stop()).toBe(0)
    await expectWhole(database)
  })
})

describe.concurrent("quiet hours", () => {
  it("that start before an automatic nudge is sent delay it until they end", async () => {
    const database = QUIET
    const { account } = await database.run(() => createAccount({ businessName: "Quiet", liveAccess: "approved" }))
    // The start of the current hour in Lagos, and of the third hour after it.
    const now = Date.now()
    const hour = new Date(now + HOUR_MS).getUTCHours()
    const end = now - (now % HOUR_MS) + 3 * HOUR_MS
    const server = await startServer(database.url(), { ...settings("127"), QUIET_HOURS: `${hour}-${(hour + 3) % 24}` })
    const [row] = await database.run((sql) =>
      Effect.gen(function* () {
        yield* sql`
          INSERT INTO customer (account_id, livemode, id, name, phone, metadata, created_at) VALUES (${account.id}, true, 'cus_quiet', 'Ada', '+2348031234567', '{}', now())`
        return yield* sql<{ id: string }>`
          INSERT INTO nudge (account_id, livemode, id, customer_id, source, template, state, status, version, channels, contacts, channel, position, tries, attempts, message, counts, created_at)
          VALUES (${account.id}, true, 'ndg_quiet', 'cus_quiet', 'automatic', 'service_paused', 'sending', 'queued', 1, '{whatsapp}', '{"whatsapp":"+2348031234567"}',
            'whatsapp', 0, 0, '[]', '{"wording":"custom","subject":"","text":"","values":[]}', false, now()) RETURNING id`
      }),
    )
    const timer = await eventually(async () => {
      const [found] = await database.run(
        (sql) => sql<{ due_at: number }>`SELECT due_at FROM timer WHERE actor_id = ${row!.id} AND name = 'sendLater'`,
      )
      return found
    })
    expect(timer.due_at).toBe(end)
    expect(await server.stop()).toBe(0)
  })
})

describe.concurrent("an outage", () => {
  it("sends reminders that it delayed for minutes, and not for days", async () => {
    const database = OUTAGE
    const { keys, account } = await database.run(() => createAccount({ businessName: "Outage" }))
    let server = await startServer(database.url())
    let api = createApi(server.origin, keys.sk_test)
    const plan = await createPlan(api, { billing_cycle: "weekly", reminders: { pre_due_days: [5, 4, 3, 2] } })
    const customer = await createCustomer(api, { phone: "+2348031234567" })
    data(await api.post("/subscriptions", { customer, plan, payment_method: "pm_test_success" }), 201)
    const back = async (ms: number) => {
      await server.stop()
      await database.run(() => rewind(account.id, ms))
      server = await startServer(database.url())
      api = createApi(server.origin, keys.sk_test)
    }
    const days = async () => {
      const rows = await database.run(
        (sql) =>
          sql<{ day: number }>`SELECT reminder_day AS day FROM nudge WHERE account_id = ${account.id} ORDER BY id`,
      )
      return rows.map(({ day }) => day)
    }
    // The server is away until half an hour after the third of four.
    await back(4 * DAY_MS + 1_800_000)
    await eventually(async () => ((await days()).length > 0 ? true : undefined))
    expect(await days()).toEqual([3])
    const [next] = await database.run(
      (sql) =>
        sql<{
          n: number
        }>`SELECT count(*) AS n FROM timer WHERE account_id = ${account.id} AND name = 'reminder' AND due_at > now()`,
    )
    expect(next!.n).toBe(1)
    // And a day, less an hour, after the last.
    await back(2 * DAY_MS)
    await eventually(async () => {
      const due = await database.run(
        (sql) => sql`SELECT 1 FROM timer WHERE account_id = ${account.id} AND name = 'reminder' AND due_at <= now()`,
      )
      return due.length === 0 ? true : undefined
    })
    expect(await days()).toEqual([3])
    expect(await server.stop()).toBe(0)
  })
})
