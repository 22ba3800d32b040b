/** Tests the database cost of requests: statements, and round trips (waits for an answer). */
import { connect, createServer, type Server as NetServer, type Socket } from "node:net"
import { Redacted } from "effect"
import { afterAll, beforeAll, expect, it } from "vitest"
import { createAccount } from "../../src/merchants/account/accounts.ts"
import { type Api, createApi } from "../support/api.ts"
import { useDatabase } from "../support/database.ts"
import { type Server, startServer } from "../support/server.ts"
import { createCustomer, createPlan, data } from "../support/story.ts"

/** The counts since the last call. */
interface Cost {
  readonly statements: number
  readonly trips: number
}

const EXECUTE = "E".charCodeAt(0)
const SIMPLE_QUERY = "Q".charCodeAt(0)
const HEAD_BYTES = 5

/** Forwards connections to Postgres, and counts their statements. */
const startCounter = async ({ hostname, port }: URL) => {
  const target = Number(port)
  let cost = { statements: 0, trips: 0 }
  const pass = (client: Socket) => {
    const server = connect(target, hostname)
    let rest = Buffer.alloc(0)
    let hasStarted = false
    let answered = true
    client.on("data", (part) => {
      server.write(part)
      if (answered) cost.trips++
      answered = false
      rest = Buffer.concat([rest, part])
      // The first message has no type.
      if (!hasStarted && rest.length >= 4 && rest.length >= rest.readInt32BE(0)) {
        rest = rest.subarray(rest.readInt32BE(0))
        hasStarted = true
      }
      while (hasStarted && rest.length >= HEAD_BYTES && rest.length > rest.readInt32BE(1)) {
        if (rest[0] === EXECUTE || rest[0] === SIMPLE_QUERY) cost.statements++
        rest = rest.subarray(1 + rest.readInt32BE(1))
      }
    })
    server.on("data", (part) => {
      answered = true
      client.write(part)
    })
    for (const [one, other] of [
      [client, server],
      [server, client],
    ] as const) {
      one.on("close", () => other.destroy())
      one.on("error", () => other.destroy())
    }
  }
  const listening = await new Promise<NetServer>((resolve) => {
    const counter = createServer(pass).listen(0, "127.0.0.1", () => resolve(counter))
  })
  return {
    port: (listening.address() as { readonly port: number }).port,
    take: (): Cost => {
      const taken = cost
      cost = { statements: 0, trips: 0 }
      return taken
    },
    stop: () => listening.close(),
  }
}

const database = useDatabase()
let counter: Awaited<ReturnType<typeof startCounter>>
let server: Server
let sandbox: Api
let live: Api
beforeAll(async () => {
  const url = new URL(Redacted.value(database.url()))
  counter = await startCounter(url)
  url.port = String(counter.port)
  const { keys } = await database.run(() => createAccount({ businessName: "Counted", liveAccess: "approved" }))
  server = await startServer(Redacted.make(url.href), { WORKERS: "0" })
  sandbox = createApi(server.origin, keys.sk_test)
  live = createApi(server.origin, keys.sk_live, "live")
})
afterAll(async () => {
  await server.stop()
  counter.stop()
})

/** Requests of each kind that are measured. The cheapest is one during which the process did nothing else. */
const TIMES = 12

const costOf = async (ask: (n: number) => Promise<unknown>): Promise<Cost> => {
  const found: Array<Cost> = []
  for (let n = 0; n < TIMES; n++) {
    counter.take()
    await ask(n)
    found.push(counter.take())
  }
  return {
    statements: Math.min(...found.map(({ statements }) => statements)),
    trips: Math.min(...found.map(({ trips }) => trips)),
  }
}

it("are fewer if concurrent requests read objects of one kind", async () => {
  const ids: Array<string> = []
  for (let n = 0; n < 20; n++) ids.push(await createCustomer(sandbox))
  const asked = [...ids, ...ids]
  const { statements } = await costOf(async () => {
    const found = await Promise.all(asked.map((id) => sandbox.get(`/customers/${id}`)))
    expect(found.map((answer) => data(answer).id)).toEqual(asked)
  })
  expect(statements).toBeLessThan(asked.length / 2)
})

it("take at most the statements and round trips of this table", async () => {
  const customer = await createCustomer(sandbox)
  // So cheap that nothing is used up during the test. A used-up part would be a further entry.
  const plan = await createPlan(sandbox, { amount: 5_000, pause_enabled: true, overage_per_unit: 100 })
  const subscribed = async () =>
    data(await sandbox.post("/subscriptions", { customer, plan, payment_method: "pm_test_success" }), 201).id
  const ids: Array<string> = []
  for (let n = 0; n < TIMES; n++) ids.push(await subscribed())
  const withDefault = await createCustomer(sandbox)
  data(await sandbox.patch(`/customers/${withDefault}`, { default_payment_method: "pm_test_success" }))
  const sale = { customer, amount: 50_000, currency: "NGN", payment_method: "pm_test_success" }
  const costs = {
    "GET /customers/{id}": await costOf(() => sandbox.get(`/customers/${customer}`)),
    "POST /customers": await costOf(() => sandbox.post("/customers", { name: "Ada" })),
    "POST /customers, live": await costOf(() => live.post("/customers", { name: "Ada" })),
    "POST /customers, with an Idempotency-Key": await costOf((n) =>
      sandbox.post("/customers", { name: "Ada" }, { "idempotency-key": `k${n}` }),
    ),
    "POST /customers, live, with an Idempotency-Key": await costOf((n) =>
      live.post("/customers", { name: "Ada" }, { "idempotency-key": `k${n}` }),
    ),
    "POST /plans": await costOf(() => createPlan(sandbox)),
    "POST /charges": await costOf(() => sandbox.post("/charges", sale)),
    "POST /charges, with an Idempotency-Key": await costOf((n) =>
      sandbox.post("/charges", sale, { "idempotency-key": `sale ${n}` }),
    ),
    "POST /charges, by the default method": await costOf(() =>
      sandbox.post("/charges", { customer: withDefault, amount: 50_000, currency: "NGN" }),
    ),
    "POST /subscriptions": await costOf(subscribed),
    // Nothing is read after it has its ID. Readers of the list wait for writers that the database knows (decision B9).
    "POST /subscriptions, with a trial": await costOf(() =>
      sandbox.post("/subscriptions", { customer, plan, payment_method: "pm_test_success", trial_days: 7 }),
    ),
    "POST /subscriptions/{id}/unit-records": await costOf((n) =>
      sandbox.post(`/subscriptions/${ids[n]}/unit-records`, { quantity: 1 }),
    ),
    "POST /subscriptions/{id}/pause": await costOf((n) => sandbox.post(`/subscriptions/${ids[n]}/pause`, {})),
    "POST /subscriptions/{id}/resume": await costOf((n) => sandbox.post(`/subscriptions/${ids[n]}/resume`, {})),
    "PATCH /subscriptions/{id}": await costOf((n) => sandbox.patch(`/subscriptions/${ids[n]}`, { quantity: 2 })),
    "POST /subscriptions/{id}/cancel": await costOf((n) => sandbox.post(`/subscriptions/${ids[n]}/cancel`, {})),
  }
  const most: Readonly<Record<keyof typeof costs, Cost>> = {
    "GET /customers/{id}": { statements: 1, trips: 1 },
    "POST /customers": { statements: 1, trips: 1 },
    "POST /customers, live": { statements: 1, trips: 1 },
    "POST /customers, with an Idempotency-Key": { statements: 1, trips: 1 },
    "POST /customers, live, with an Idempotency-Key": { statements: 1, trips: 1 },
    "POST /plans": { statements: 1, trips: 1 },
    "POST /charges": { statements: 12, trips: 5 },
    "POST /charges, with an Idempotency-Key": { statements: 13, trips: 6 },
    "POST /charges, by the default method": { statements: 12, trips: 5 },
    "POST /subscriptions": { statements: 15, trips: 5 },
    "POST /subscriptions, with a trial": { statements: 7, trips: 2 },
    "POST /subscriptions/{id}/unit-records": { statements: 6, trips: 2 },
    "POST /subscriptions/{id}/pause": { statements: 7, trips: 3 },
    // With a charge for the units that were reported before.
    "POST /subscriptions/{id}/resume": { statements: 17, trips: 7 },
    "PATCH /subscriptions/{id}": { statements: 6, trips: 2 },
    "POST /subscriptions/{id}/cancel": { statements: 8, trips: 3 },
  }
  const tooMany = Object.entries(costs).filter(([request, { statements, trips }]) => {
    const limit = most[request as keyof typeof costs]
    return statements > limit.statements || trips > limit.trips
  })
  expect(tooMany).toEqual([])
})
