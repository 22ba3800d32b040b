import { describe, expect, it } from "vitest"
import { createAccount } from "../../src/account/Accounts.ts"
import { makeApi } from "../support/api.ts"
import { useDatabase } from "../support/database.ts"
import { startServer } from "../support/server.ts"
import { createClock, createCustomer, createPlan, data, eventually } from "../support/story.ts"
import { expectWhole } from "../support/whole.ts"

const database = useDatabase()

const count = (table: "event" | "charge", condition: string) =>
  database
    .run((sql) => sql.unsafe<{ n: number }>(`SELECT count(*) AS n FROM ${table} WHERE ${condition}`))
    .then(([row]) => row!.n)

/** What must hold after any crash. */
const expectSettled = async () => {
  await expectWhole(database)
  expect(await count("charge", "status = 'pending'")).toBe(0)
}

const CUSTOMERS = 40

describe("kill -9", () => {
  it("in the middle of an advance loses nothing and attempts nothing twice: the next server goes on by itself", async () => {
    const { keys } = await database.run(() => createAccount({ businessName: "Crash" }))
    let server = await startServer(database.url())
    let api = makeApi(server.origin, keys.sk_test)
    const clock = await createClock(api, "2025-01-31T00:00:00Z")
    const plan = await createPlan(api, { billing_cycle: "daily" })
    for (let n = 0; n < CUSTOMERS; n++) {
      const customer = await createCustomer(api, { test_clock: clock })
      const payment_method = n % 10 === 0 ? "pm_test_success_then_insufficient_funds" : "pm_test_success"
      data(await api.post("/subscriptions", { customer, plan, payment_method }), 201)
    }
    data(await api.post(`/test/clocks/${clock}/advance`, { frozen_time: "2025-03-12T00:00:00Z" }), 202)
    // Three crashes, each a little further on.
    for (const progress of [100, 400, 900]) {
      await eventually(async () =>
        (await count("event", "type = 'subscription.renewed'")) >= progress ? true : undefined,
      )
      await server.kill()
      server = await startServer(database.url())
      api = makeApi(server.origin, keys.sk_test)
    }
    await eventually(async () => (data(await api.get(`/test/clocks/${clock}`)).status === "ready" ? true : undefined))
    await expectSettled()
    // 36 renew on each of 40 days; 4 fail on the first, are retried on days 1, 4 and 11, and end on day 30.
    expect(await count("event", "type = 'subscription.renewed'")).toBe(36 * 40)
    expect(await count("event", "type = 'subscription.cancelled'")).toBe(4)
    expect(await count("charge", "status = 'failed'")).toBe(4 * 4)
    expect(await server.stop()).toBe(0)
  })

  it("while the wall clock's timers fire loses nothing either", async () => {
    const { keys, account } = await database.run(() => createAccount({ businessName: "Crash at noon" }))
    const mine = `account_id = '${account.id}'`
    let server = await startServer(database.url())
    let api = makeApi(server.origin, keys.sk_test)
    const plan = await createPlan(api)
    const customer = await createCustomer(api)
    const start_at = new Date(Date.now() + 4000).toISOString()
    const created = await Promise.all(
      Array.from({ length: CUSTOMERS }, () =>
        api.post("/subscriptions", { customer, plan, payment_method: "pm_test_success", start_at }),
      ),
    )
    for (const answer of created) data(answer, 201)
    await eventually(async () => ((await count("charge", mine)) > 0 ? true : undefined))
    await server.kill()
    server = await startServer(database.url())
    api = makeApi(server.origin, keys.sk_test)
    await eventually(async () =>
      (await count("event", `${mine} AND type = 'charge.succeeded'`)) === CUSTOMERS ? true : undefined,
    )
    await expectSettled()
    expect((await api.all("/subscriptions?status=active")).length).toBe(CUSTOMERS)
    expect(await server.stop()).toBe(0)
  })
})

describe("a charge that a dead process left", () => {
  it("on a clock that stands still is finished by the next start, at the clock's time", async () => {
    const { keys } = await database.run(() => createAccount({ businessName: "Left behind" }))
    let server = await startServer(database.url())
    const api = makeApi(server.origin, keys.sk_test)
    const clock = await createClock(api, "2025-01-31T00:00:00Z")
    const customer = await createCustomer(api, { test_clock: clock })
    const body = { customer, plan: await createPlan(api), payment_method: "pm_test_bank_account" }
    const { id } = data(await api.post("/subscriptions", body), 201)
    await server.kill()
    // As it stands between the commit of the charge and the rail's answer.
    await database.run((sql) => sql`UPDATE charge SET sender = 424242 WHERE subscription_id = ${id}`)
    await database.run(
      (sql) =>
        sql`UPDATE simulator_attempt SET known_at = NULL WHERE reference = (SELECT id FROM charge WHERE subscription_id = ${id})`,
    )
    server = await startServer(database.url())
    const again = makeApi(server.origin, keys.sk_test)
    await eventually(async () => (data(await again.get(`/subscriptions/${id}`)).status === "active" ? true : undefined))
    expect((await again.all(`/charges?subscription=${id}`))[0]).toMatchObject({
      status: "succeeded",
      paid_at: "2025-01-31T00:00:00.000Z",
    })
    expect(await server.stop()).toBe(0)
  })
})

describe("two servers", () => {
  it("share the same due subscriptions without doing anything twice", async () => {
    const { keys, account } = await database.run(() => createAccount({ businessName: "Pair" }))
    const servers = await Promise.all([startServer(database.url()), startServer(database.url())])
    const api = makeApi(servers[0].origin, keys.sk_test)
    const plan = await createPlan(api)
    const customer = await createCustomer(api)
    const start_at = new Date(Date.now() + 3000).toISOString()
    await Promise.all(
      Array.from({ length: CUSTOMERS }, () =>
        api.post("/subscriptions", { customer, plan, payment_method: "pm_test_success", start_at }),
      ),
    )
    const mine = `account_id = '${account.id}'`
    await eventually(async () =>
      (await count("event", `${mine} AND type = 'charge.succeeded'`)) === CUSTOMERS ? true : undefined,
    )
    expect(await count("charge", mine)).toBe(CUSTOMERS)
    await expectSettled()
    await Promise.all(servers.map((server) => server.stop()))
  })
})
