/** Cuts connections to the database repeatedly while a clock moves: no step of the clock fails. */
import { expect, it } from "vitest"
import { createAccount } from "../../src/merchants/account/accounts.ts"
import { createApi } from "../support/api.ts"
import { useDatabase } from "../support/database.ts"
import { startProxy } from "../support/proxy.ts"
import { startServer } from "../support/server.ts"
import { createClock, createPlan, data, eventually } from "../support/story.ts"
import { useWhole } from "../support/whole.ts"

const database = useDatabase()
useWhole(database)

const CUSTOMERS = 10
const DAYS = 60
const CUTS = 12

it("the clock arrives, and each bill was charged once", async () => {
  const { keys } = await database.run(() => createAccount({ businessName: "Fit Lagos" }))
  const proxy = await startProxy(database.url())
  const server = await startServer(proxy.url)
  const api = createApi(server.origin, keys.sk_test)
  const clock = await createClock(api, "2025-01-01T00:00:00Z")
  const plan = await createPlan(api, { billing_cycle: "daily" })
  for (let n = 0; n < CUSTOMERS; n++) {
    const customer = data(await api.post("/customers", { name: "Ada", test_clock: clock }), 201).id
    data(await api.post("/subscriptions", { customer, plan, payment_method: "pm_test_success" }), 201)
  }
  const until = new Date(Date.UTC(2025, 0, 1 + DAYS)).toISOString()
  data(await api.post(`/test/clocks/${clock}/advance`, { frozen_time: until }), 202)
  for (let cut = 0; cut < CUTS; cut++) {
    proxy.cut()
    proxy.mend()
    await eventually(async () => ((await api.get(`/test/clocks/${clock}`)).status === 200 ? true : undefined))
  }
  await eventually(async () => (data(await api.get(`/test/clocks/${clock}`)).status === "ready" ? true : undefined))
  const failed = await database.run(
    (sql) => sql`SELECT 1 FROM lifecycle_journal WHERE actor_id = ${clock} AND event->>'type' = 'step.failed'`,
  )
  expect(failed).toEqual([])
  const charged = await database.run(
    (sql) =>
      sql`SELECT status, count(*) AS n, count(DISTINCT (subscription_id, bill_no)) AS bills FROM charge GROUP BY 1`,
  )
  const n = CUSTOMERS * (DAYS + 1)
  expect(charged).toEqual([{ status: "succeeded", n, bills: n }])
  expect(await server.stop()).toBe(0)
  proxy.close()
})
