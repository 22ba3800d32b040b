import { describe, expect, it } from "vitest"
import { useInstance } from "../support/instance.ts"
import { createCustomer, createPlan, data, eventually } from "../support/story.ts"

const { api, database } = useInstance()

describe("an actor that cannot be decided on", () => {
  it("holds nobody else back", async () => {
    const plan = await createPlan(api)
    const customer = await createCustomer(api)
    const start_at = new Date(Date.now() + 2000).toISOString()
    const ids: Array<string> = []
    for (let n = 0; n < 5; n++) {
      ids.push(
        data(await api.post("/subscriptions", { customer, plan, payment_method: "pm_test_success", start_at }), 201).id,
      )
    }
    // Due first of all, and broken in a way that no constraint knows of.
    await database.run((sql) => sql`UPDATE subscription SET state = 'nowhere' WHERE id = ${ids[0]}`)
    const active = await eventually(async () => {
      const found = (await api.all("/subscriptions?status=active")).map(({ id }) => id)
      return found.length === 4 ? found : undefined
    })
    expect(active.sort()).toEqual(ids.slice(1))
  })
})
