/** Tests a database that sends no answers and closes no connection, as if its machine were lost. */
import { expect, it } from "vitest"
import { createAccount } from "../../src/merchants/account/accounts.ts"
import { createApi } from "../support/api.ts"
import { useDatabase } from "../support/database.ts"
import { startProxy } from "../support/proxy.ts"
import { startServer } from "../support/server.ts"
import { createCustomer, createPlan, data, eventually } from "../support/story.ts"
import { useWhole } from "../support/whole.ts"

const database = useDatabase()
useWhole(database)

it("delays no request for long, and is used again as soon as it answers", async () => {
  const { keys } = await database.run(() => createAccount({ businessName: "Fit Lagos" }))
  const proxy = await startProxy(database.url())
  const server = await startServer(proxy.url)
  const api = createApi(server.origin, keys.sk_test)
  const customer = await createCustomer(api)
  const body = { customer, plan: await createPlan(api), payment_method: "pm_test_success" }
  data(await api.get("/customers"))
  proxy.hush()
  const [page, written, ...answers] = await Promise.all([
    fetch(`${server.origin}/pay/00${"a".repeat(51)}`),
    api.post("/customers", { name: "Ada" }),
    api.get("/customers"),
    api.get(`/customers/${customer}`),
    api.post("/subscriptions", body, { "idempotency-key": "in silence" }),
  ])
  expect(page.status).toBe(503)
  // Its statement was sent, and may have been executed (decision N4).
  expect([written.status, written.body.error.code]).toEqual([503, "outcome_unknown"])
  expect(written.headers.has("retry-after")).toBe(false)
  for (const { status, body, headers } of answers) {
    expect([status, body.error.code]).toEqual([503, "service_unavailable"])
    expect(Number(headers.get("retry-after"))).toBeGreaterThan(0)
  }
  proxy.mend()
  await eventually(async () => ((await api.get("/customers")).status === 200 ? true : undefined))
  const made = await eventually(async () => {
    const answer = await api.post("/subscriptions", body, { "idempotency-key": "in silence" })
    return answer.status === 201 ? answer.body.data : undefined
  })
  expect(made.status).toBe("active")
  expect(await api.all(`/charges?customer=${customer}`)).toHaveLength(1)
  expect(await server.stop()).toBe(0)
  proxy.close()
})
