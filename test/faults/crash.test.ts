import { Effect, Logger } from "effect"
import { describe, expect, it } from "vitest"
import { recoverAll } from "../../src/billing/payments/simulatorCharges.ts"
import { createAccount } from "../../src/merchants/account/accounts.ts"
import { ProcessLease } from "../../src/process/ProcessLease.ts"
import { createApi } from "../support/api.ts"
import { type TestDatabase, useDatabase } from "../support/database.ts"
import { lockUntilReleased } from "../support/hold.ts"
import { rewind } from "../support/rewind.ts"
import { type Server, startServer } from "../support/server.ts"
import { useServices } from "../support/services.ts"
import { createClock, createCustomer, createPlan, data, eventually } from "../support/story.ts"
import { expectWhole } from "../support/whole.ts"

/** One database for each test: the tests run in parallel, and a server works on everything in its database. */
const [ADVANCING, APART, FIRING, LEFT, LOCKED, LIVING, PAIR] = [
  useDatabase(),
  useDatabase(),
  useDatabase(),
  useDatabase(),
  useDatabase(),
  useDatabase(),
  useDatabase(),
]

const count = (database: TestDatabase, table: "event" | "charge", condition: string) =>
  database
    .run((sql) => sql.unsafe<{ n: number }>(`SELECT count(*) AS n FROM ${table} WHERE ${condition}`))
    .then(([row]) => row!.n)

/** The invariants after any crash. */
const expectSettled = async (database: TestDatabase) => {
  await expectWhole(database)
  expect(await count(database, "charge", "status = 'pending'")).toBe(0)
}

/** Kills the server when this many events of a type exist, and starts it again. Returns the last server. */
const crashAt = async (server: Server, database: TestDatabase, type: string, progress: ReadonlyArray<number>) => {
  let running = server
  for (const events of progress) {
    await eventually(async () => ((await count(database, "event", `type = '${type}'`)) >= events ? true : undefined))
    await running.kill()
    running = await startServer(database.url())
  }
  return running
}

const CUSTOMERS = 40
const HOUR_MS = 3_600_000

describe.concurrent("kill -9", () => {
  it("in the middle of an advance loses nothing and attempts nothing twice: the next server continues", async () => {
    const database = ADVANCING
    const { keys } = await database.run(() => createAccount({ businessName: "Crash" }))
    let server = await startServer(database.url())
    let api = createApi(server.origin, keys.sk_test)
    const clock = await createClock(api, "2025-01-31T00:00:00Z")
    const plan = await createPlan(api, { billing_cycle: "daily" })
    for (let n = 0; n < CUSTOMERS; n++) {
      const customer = await createCustomer(api, { test_clock: clock })
      const payment_method = n % 10 === 0 ? "pm_test_success_then_insufficient_funds" : "pm_test_success"
      data(await api.post("/subscriptions", { customer, plan, payment_method }), 201)
    }
    data(await api.post(`/test/clocks/${clock}/advance`, { frozen_time: "2025-03-12T00:00:00Z" }), 202)
    server = await crashAt(server, database, "subscription.renewed", [100, 400, 900])
    api = createApi(server.origin, keys.sk_test)
    await eventually(async () => (data(await api.get(`/test/clocks/${clock}`)).status === "ready" ? true : undefined))
    await expectSettled(database)
    // 36 renew on each of 40 days. 4 fail on the first, are retried on days 1, 4 and 11, and end on day 30.
    expect(await count(database, "event", "type = 'subscription.renewed'")).toBe(36 * 40)
    expect(await count(database, "event", "type = 'subscription.cancelled'")).toBe(4)
    expect(await count(database, "charge", "status = 'failed'")).toBe(4 * 4)
    expect(await server.stop()).toBe(0)
  })

  it("in windows with hundreds of customers, each due at its own instant, loses nothing: events are in order of time", async () => {
    const database = APART
    const { keys } = await database.run(() => createAccount({ businessName: "Apart" }))
    let server = await startServer(database.url())
    let api = createApi(server.origin, keys.sk_test)
    const start = Date.UTC(2025, 0, 31)
    const clock = await createClock(api, new Date(start).toISOString())
    const plan = await createPlan(api, { billing_cycle: "daily" })
    const [customers, days] = [240, 4]
    const subscribe = async (n: number) => {
      const customer = await createCustomer(api, { test_clock: clock })
      const start_at = new Date(start + 1 + n * 250_000).toISOString()
      const payment_method = n % 10 === 0 ? "pm_test_success_then_insufficient_funds" : "pm_test_success"
      data(await api.post("/subscriptions", { customer, plan, payment_method, start_at }), 201)
    }
    for (let n = 0; n < customers; n += 20) await Promise.all(Array.from({ length: 20 }, (_, m) => subscribe(n + m)))
    const frozen_time = new Date(start + days * 24 * HOUR_MS).toISOString()
    data(await api.post(`/test/clocks/${clock}/advance`, { frozen_time }), 202)
    server = await crashAt(server, database, "charge.succeeded", [100, 500])
    api = createApi(server.origin, keys.sk_test)
    await eventually(async () => (data(await api.get(`/test/clocks/${clock}`)).status === "ready" ? true : undefined))
    await expectSettled(database)
    expect(await count(database, "charge", "status = 'succeeded'")).toBe(0.9 * customers * days + 0.1 * customers)
    // The failures happen on the second day, and are retried a day later.
    expect(await count(database, "charge", "status = 'failed'")).toBe(0.1 * customers * 2)
    for (const table of ["event", "charge"]) {
      const unordered = await database.run((sql) =>
        sql.unsafe(`
          SELECT id FROM (
            SELECT id, created_at, lag(created_at) OVER (ORDER BY id) AS before FROM ${table} WHERE test_clock_id = '${clock}'
          ) t WHERE before > created_at`),
      )
      expect(unordered).toEqual([])
    }
    expect(await server.stop()).toBe(0)
  })

  it("while the wall clock's timers fire loses nothing", async () => {
    const database = FIRING
    const { keys, account } = await database.run(() => createAccount({ businessName: "Crash at noon" }))
    const mine = `account_id = '${account.id}'`
    let server = await startServer(database.url())
    let api = createApi(server.origin, keys.sk_test)
    const plan = await createPlan(api, { billing_cycle: "weekly" })
    const customer = await createCustomer(api)
    const start_at = new Date(Date.now() + HOUR_MS).toISOString()
    const created = await Promise.all(
      Array.from({ length: CUSTOMERS }, () =>
        api.post("/subscriptions", { customer, plan, payment_method: "pm_test_success", start_at }),
      ),
    )
    for (const answer of created) data(answer, 201)
    // The hour passes while no server runs: all of them are due at the next start.
    expect(await server.stop()).toBe(0)
    await database.run(() => rewind(account.id, HOUR_MS))
    server = await startServer(database.url())
    await eventually(async () => ((await count(database, "charge", mine)) > 0 ? true : undefined))
    await server.kill()
    server = await startServer(database.url())
    api = createApi(server.origin, keys.sk_test)
    await eventually(async () =>
      (await count(database, "event", `${mine} AND type = 'charge.succeeded'`)) === CUSTOMERS ? true : undefined,
    )
    await expectSettled(database)
    expect((await api.all("/subscriptions?status=active")).length).toBe(CUSTOMERS)
    expect(await server.stop()).toBe(0)
  })
})

describe.concurrent("a charge that a dead process left", () => {
  it("on a clock that does not move is finished by the next start, at the clock's time", async () => {
    const database = LEFT
    const { keys } = await database.run(() => createAccount({ businessName: "Left behind" }))
    let server = await startServer(database.url())
    const api = createApi(server.origin, keys.sk_test)
    const clock = await createClock(api, "2025-01-31T00:00:00Z")
    const customer = await createCustomer(api, { test_clock: clock })
    const body = { customer, plan: await createPlan(api), payment_method: "pm_test_bank_account" }
    const { id } = data(await api.post("/subscriptions", body), 201)
    await server.kill()
    // The state between the commit of the charge and the rail's answer.
    await database.run((sql) => sql`UPDATE charge SET runner = 424242 WHERE subscription_id = ${id}`)
    await database.run(
      (sql) =>
        sql`UPDATE simulator_attempt SET known_at = NULL WHERE reference = (SELECT id FROM charge WHERE subscription_id = ${id})`,
    )
    server = await startServer(database.url())
    const again = createApi(server.origin, keys.sk_test)
    await eventually(async () => (data(await again.get(`/subscriptions/${id}`)).status === "active" ? true : undefined))
    expect((await again.all(`/charges?subscription=${id}`))[0]).toMatchObject({
      status: "succeeded",
      paid_at: "2025-01-31T00:00:00.000Z",
    })
    expect(await server.stop()).toBe(0)
  })
})

const recovering = useServices(LOCKED)

describe("charges that a dead process left", () => {
  it("are finished while a row that one of them needs is locked, and that one after the unlock", async () => {
    const { keys } = await LOCKED.run(() => createAccount({ businessName: "Held" }))
    const server = await startServer(LOCKED.url(), { WORKERS: "0" })
    const api = createApi(server.origin, keys.sk_test)
    const plan = await createPlan(api)
    const subscribe = async () => {
      const customer = await createCustomer(api)
      return data(await api.post("/subscriptions", { customer, plan, payment_method: "pm_test_bank_account" }), 201).id
    }
    // The locked one comes first.
    const [locked, free] = [await subscribe(), await subscribe()]
    // It would be as fast as this process.
    expect(await server.stop()).toBe(0)
    await LOCKED.run((sql) => sql`UPDATE charge SET runner = 424242`)
    await LOCKED.run((sql) => sql`UPDATE simulator_attempt SET known_at = NULL`)
    const statuses = () =>
      LOCKED.run((sql) =>
        Effect.map(
          sql<{ status: string }>`SELECT status FROM subscription WHERE id IN (${locked}, ${free}) ORDER BY id`,
          (rows) => rows.map(({ status }) => status),
        ),
      )
    const logged: Array<unknown> = []
    const logger = Logger.layer([Logger.make(({ logLevel, message }) => void logged.push([logLevel, message]))])
    const recover = () => recovering(Effect.provide(recoverAll, logger))
    const { release } = await lockUntilReleased(
      LOCKED,
      (sql) => sql`SELECT 1 FROM subscription WHERE id = ${locked} FOR UPDATE`,
    )
    await recover()
    expect(await statuses()).toEqual(["incomplete", "active"])
    const [charge] = await LOCKED.run(
      (sql) => sql<{ id: string }>`SELECT id FROM charge WHERE subscription_id = ${locked} AND status = 'pending'`,
    )
    expect(logged).toContainEqual([
      "Warn",
      ["charges wait for rows that another transaction has locked", { charges: [charge!.id] }],
    ])
    await release()
    await recover()
    expect(await statuses()).toEqual(["active", "active"])
    expect(await count(LOCKED, "charge", "status = 'succeeded'")).toBe(2)
  })
})

const living = useServices(LIVING)

it("a charge that a live process dropped on a clock is finished by it, while another process moves that clock", async () => {
  const { keys } = await LIVING.run(() => createAccount({ businessName: "Dropped" }))
  const server = await startServer(LIVING.url())
  const api = createApi(server.origin, keys.sk_test)
  const clock = await createClock(api, "2026-01-01T00:00:00Z")
  const customer = await createCustomer(api, { test_clock: clock })
  const body = { customer, amount: 50_000, currency: "NGN", payment_method: "pm_test_bank_account" }
  const { id } = data(await api.post("/charges", body), 201)
  const runner = await living(Effect.map(ProcessLease, (own) => own.id))
  await LIVING.run((sql) => sql`UPDATE simulator_attempt SET known_at = NULL`)
  await LIVING.run((sql) => sql`UPDATE charge SET runner = ${runner} WHERE id = ${id}`)
  data(await api.post(`/test/clocks/${clock}/advance`, { frozen_time: "2026-01-02T00:00:00Z" }), 202)
  // It waits for charges that may be in flight in the other process.
  await eventually(() =>
    LIVING.run((sql) => sql`SELECT 1 FROM test_clock WHERE state = 'advancing' AND runner IS NOT NULL`).then(
      ([row]) => row,
    ),
  )
  await living(recoverAll)
  await eventually(async () => (data(await api.get(`/test/clocks/${clock}`)).status === "ready" ? true : undefined))
  expect(data(await api.get(`/charges/${id}`)).status).toBe("succeeded")
  expect(await server.stop()).toBe(0)
})

describe.concurrent("two servers", () => {
  it("share the due subscriptions and do nothing twice", async () => {
    const database = PAIR
    const { keys, account } = await database.run(() => createAccount({ businessName: "Pair" }))
    const first = await startServer(database.url())
    const api = createApi(first.origin, keys.sk_test)
    const plan = await createPlan(api, { billing_cycle: "weekly" })
    const customer = await createCustomer(api)
    const start_at = new Date(Date.now() + HOUR_MS).toISOString()
    const created = await Promise.all(
      Array.from({ length: CUSTOMERS }, () =>
        api.post("/subscriptions", { customer, plan, payment_method: "pm_test_success", start_at }),
      ),
    )
    for (const answer of created) data(answer, 201)
    // The hour passes while no server runs: both find them due at their start.
    expect(await first.stop()).toBe(0)
    await database.run(() => rewind(account.id, HOUR_MS))
    const servers = await Promise.all([startServer(database.url()), startServer(database.url())])
    const mine = `account_id = '${account.id}'`
    await eventually(async () =>
      (await count(database, "event", `${mine} AND type = 'charge.succeeded'`)) === CUSTOMERS ? true : undefined,
    )
    expect(await count(database, "charge", mine)).toBe(CUSTOMERS)
    await expectSettled(database)
    await Promise.all(servers.map((server) => server.stop()))
  })
})
