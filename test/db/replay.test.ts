/** Tests the replay of named actors' journals, for actors that are right, wrong or missing. */
import { expect, it } from "vitest"
import { replayables } from "../../src/app/lifecycles.ts"
import { replayJournal } from "../../src/runtime/replay.ts"
import { useOwnInstance } from "../support/instance.ts"
import { createCustomer, createPlan, data } from "../support/story.ts"

const { api, database } = useOwnInstance()

it("replays the named actors, and reports the row that its journal does not produce", async () => {
  const plan = await createPlan(api)
  const subscribe = async () => {
    const customer = await createCustomer(api)
    const body = { customer, plan, payment_method: "pm_test_success" }
    return data(await api.post("/subscriptions", body), 201).id as string
  }
  const [right, wrong] = [await subscribe(), await subscribe()]
  const replay = () => database.run(() => replayJournal(replayables, [right, wrong, "sub_nowhere", right]))
  expect(await replay()).toEqual({ replayed: 2, differing: [], unknown: ["sub_nowhere"] })
  await database.run((sql) => sql`UPDATE subscription SET quantity = quantity + 1 WHERE id = ${wrong}`)
  expect(await replay()).toEqual({
    replayed: 2,
    differing: [{ actor: wrong, reason: expect.stringMatching(/^its row has .*, the replay /) }],
    unknown: ["sub_nowhere"],
  })
})
