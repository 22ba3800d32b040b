/** Processes that die or were away: nobody is written to twice on a channel, and nothing is sent in a batch. */
import { describe, expect, it } from "vitest"
import { createAccount } from "../../src/account/Accounts.ts"
import { makeApi } from "../support/api.ts"
import { useDatabase } from "../support/database.ts"
import { useReceiver } from "../support/receiver.ts"
import { rewind } from "../support/rewind.ts"
import { startServer } from "../support/server.ts"
import { createClock, createCustomer, createPlan, data, eventually } from "../support/story.ts"
import { expectWhole } from "../support/whole.ts"

const database = useDatabase()
const provider = useReceiver()
const settings = () => ({
  WHATSAPP_URL: provider.url("/v23.0"),
  WHATSAPP_PHONE_NUMBER_ID: "123",
  WHATSAPP_TOKEN: "t",
  WHATSAPP_APP_SECRET: "s",
  WHATSAPP_VERIFY_TOKEN: "v",
  QUIET_HOURS: "off",
})
const DAY_MS = 86_400_000

describe("kill -9", () => {
  it("while a messenger has a message does not send it there again: the next channel gets it", async () => {
    const { keys } = await database.run(() => createAccount({ businessName: "Fit Lagos", liveAccess: "approved" }))
    // Takes the message and never answers.
    provider.answer("/v23.0/123/messages", () => {})
    let server = await startServer(database.url(), settings())
    let live = makeApi(server.origin, keys.sk_live!, "live")
    const customer = await createCustomer(live, { phone: "+2348031234567" })
    const { id } = data(await live.post("/nudges", { customer, template: "payment_due" }), 201)
    await eventually(async () => (provider.at("/v23.0/123/messages").length === 1 ? true : undefined))
    await server.kill()
    server = await startServer(database.url(), settings())
    live = makeApi(server.origin, keys.sk_live!, "live")
    const passed = await eventually(async () => {
      const one = data(await live.get(`/nudges/${id}`))
      return one.status === "delivered" ? one : undefined
    })
    expect(passed.attempts).toMatchObject([
      { channel: "whatsapp", status: "failed", failure_reason: "no_answer" },
      { channel: "sms", status: "delivered" },
    ])
    expect(provider.at("/v23.0/123/messages")).toHaveLength(1)
    expect(await server.stop()).toBe(0)
    await expectWhole(database)
  })

  it("while a clock moves leaves out no reminder and sends none twice", async () => {
    const { keys, account } = await database.run(() => createAccount({ businessName: "Clock" }))
    let server = await startServer(database.url())
    let api = makeApi(server.origin, keys.sk_test)
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
      api = makeApi(server.origin, keys.sk_test)
    }
    await eventually(async () => (data(await api.get(`/test/clocks/${clock}`)).status === "ready" ? true : undefined))
    // Three days before each of 17 renewals, of which the last is due on 30 April.
    expect(await sent()).toBe(20 * 17)
    expect(await server.stop()).toBe(0)
    await expectWhole(database)
  })
})

describe("an outage", () => {
  it("sends the reminders that it held up for minutes, and not those of days", async () => {
    const { keys, account } = await database.run(() => createAccount({ businessName: "Outage" }))
    let server = await startServer(database.url())
    let api = makeApi(server.origin, keys.sk_test)
    const plan = await createPlan(api, { billing_cycle: "weekly", reminders: { pre_due_days: [5, 4, 3, 2] } })
    const customer = await createCustomer(api, { phone: "+2348031234567" })
    data(await api.post("/subscriptions", { customer, plan, payment_method: "pm_test_success" }), 201)
    const back = async (ms: number) => {
      await server.stop()
      await database.run(() => rewind(account.id, ms))
      server = await startServer(database.url())
      api = makeApi(server.origin, keys.sk_test)
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
    // And a day, less an hour, beyond the last.
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
