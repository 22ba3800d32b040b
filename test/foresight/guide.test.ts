/** Tests that every example of docs/foresight.md works as it stands there. */
import { execFile } from "node:child_process"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { promisify } from "node:util"
import { expect, it } from "vitest"
import { useInstance } from "../support/instance.ts"
import { createCustomer, createPlan, data } from "../support/story.ts"

const { api, server, keys } = useInstance()

const run = promisify(execFile)
const guide = readFileSync(join(import.meta.dirname, "../../docs/foresight.md"), "utf8")
const examples = [...guide.matchAll(/```sh\n(.*?)```/gs)].map(([, text]) => text!)

it("docs/foresight.md has examples that work", async () => {
  const customer = await createCustomer(api)
  const plan = await createPlan(api)
  const body = { customer, plan, payment_method: "pm_test_success" }
  const { id } = data(await api.post("/subscriptions", body), 201)
  const env = {
    PATH: process.env.PATH,
    API: `${server().origin}/sandbox/v1`,
    KEY: keys().sk_test,
    CUSTOMER: customer,
    PLAN: plan,
    SUBSCRIPTION: id,
  }
  const answers: Array<{ success: boolean; data: { object?: string }; meta?: { dry_run?: boolean } }> = []
  for (const example of examples) {
    const { stdout } = await run("sh", ["-c", example], { env })
    answers.push(JSON.parse(stdout))
  }
  expect(answers.map(({ success }) => success)).toEqual(examples.map(() => true))
  expect(answers.map(({ data, meta }) => [data.object, meta?.dry_run])).toEqual([
    ["subscription", true],
    ["subscription", true],
    ["forecast", undefined],
    ["forecast", undefined],
    [undefined, undefined],
  ])
  expect(data(await api.get(`/subscriptions/${id}`)).status).toBe("active")
})
