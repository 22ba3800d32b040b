import { describe, expect, it } from "vitest"
import { useOwnInstance } from "../support/instance.ts"
import { rewind } from "../support/rewind.ts"
import { startServer } from "../support/server.ts"
import { createCustomer, createPlan, data, eventually } from "../support/story.ts"

// Serves requests only: a second server fires the timers.
const { accountId, api, database } = useOwnInstance(() => ({ WORKERS: "0" }))

const HOUR_MS = 3_600_000

describe("an actor whose decision fails", () => {
  it("does not block others", async () => {
    const plan = await createPlan(api, { billing_cycle: "weekly" })
    const customer = await createCustomer(api)
    const start_at = new Date(Date.now() + HOUR_MS).toISOString()
    const ids: Array<string> = []
    for (let n = 0; n < 5; n++) {
      ids.push(
        data(await api.post("/subscriptions", { customer, plan, payment_method: "pm_test_success", start_at }), 201).id,
      )
    }
    // Due first, and corrupt in a way that no constraint detects.
    await database.run((sql) => sql`UPDATE subscription SET state = 'nowhere' WHERE id = ${ids[0]}`)
    await database.run(() => rewind(accountId(), HOUR_MS))
    const server = await startServer(database.url())
    const active = await eventually(async () => {
      const found = (await api.all("/subscriptions?status=active")).map(({ id }) => id)
      return found.length === 4 ? found : undefined
    })
    expect(active.sort()).toEqual(ids.slice(1))
    expect(await server.stop()).toBe(0)
  })

  it("does not block another charge that the rail decides at the same time", async () => {
    const [plan, customer] = [await createPlan(api, { billing_cycle: "weekly" }), await createCustomer(api)]
    const bought = { customer, plan, payment_method: "pm_test_timeout_then_success" }
    const ids: Array<string> = []
    for (let n = 0; n < 5; n++) ids.push(data(await api.post("/subscriptions", bought), 201).id)
    // Its charge's subject cannot be decided. The charge itself can.
    await database.run((sql) => sql`UPDATE subscription SET state = 'nowhere' WHERE id = ${ids[0]}`)
    await database.run(() => rewind(accountId(), HOUR_MS))
    const server = await startServer(database.url())
    const active = await eventually(async () => {
      const found = (await api.all(`/subscriptions?plan=${plan}&status=active`)).map(({ id }) => id)
      return found.length === 4 ? found : undefined
    })
    expect(active.sort()).toEqual(ids.slice(1))
    expect(await server.stop()).toBe(0)
  })
})
