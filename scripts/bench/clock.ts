/**
 * Measures test clocks: many customers of a daily plan, advanced by up to a year in one request. In the first run all renew at the same
 * instant, in the second each at a different one.
 *
 *   npm run bench:clock -- --customers 1000 --days 365
 */
import { Effect, Redacted } from "effect"
import { poolLayer } from "../../src/db/database.ts"
import { createAccount } from "../../src/merchants/account/accounts.ts"
import { startServer } from "../server.ts"
import { rate, seconds, sizes, startInstance } from "./instance.ts"

const { customers, days } = sizes({ customers: 1_000, days: 365 })
const START = Date.UTC(2025, 0, 1)
const DAY_MS = 86_400_000
const LOOK_AGAIN_MS = 50
const CALLERS = 16

const instance = await startInstance()

/** Measures an advance with this distance between the customers' anchors. */
const advance = async (name: string, apartMs: number): Promise<number> => {
  const url = await instance.database(name)
  const { keys } = await Effect.runPromise(
    createAccount({ businessName: "Bench" }).pipe(Effect.provide(poolLayer(url, 1))),
  )
  const { origin, stop } = await startServer({ DATABASE_URL: Redacted.value(url) })
  const call = async (method: string, path: string, body?: object) => {
    const response = await fetch(`${origin}/sandbox/v1${path}`, {
      method,
      headers: { authorization: `Bearer ${keys.sk_test}`, "content-type": "application/json" },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    const answer = (await response.json()) as { data: { id: string; status: string } }
    if (!response.ok) throw new Error(JSON.stringify(answer))
    return answer.data
  }
  const clock = await call("POST", "/test/clocks", { frozen_time: new Date(START).toISOString() })
  const plan = await call("POST", "/plans", { name: "Daily", amount: 10_000, currency: "NGN", billing_cycle: "daily" })
  let n = 0
  const subscribe = async () => {
    while (n < customers) {
      const startAt = new Date(START + (1 + n++) * apartMs).toISOString()
      const customer = await call("POST", "/customers", { name: "Customer", test_clock: clock.id })
      await call("POST", "/subscriptions", {
        customer: customer.id,
        plan: plan.id,
        payment_method: "pm_test_success",
        ...(apartMs === 0 ? {} : { start_at: startAt }),
      })
    }
  }
  await Promise.all(Array.from({ length: CALLERS }, subscribe))
  const before = performance.now()
  await call("POST", `/test/clocks/${clock.id}/advance`, { frozen_time: new Date(START + days * DAY_MS).toISOString() })
  for (;;) {
    const { status } = await call("GET", `/test/clocks/${clock.id}`)
    if (status === "ready") break
    if (status !== "advancing") throw new Error(`The clock is in ${status}.`)
    await new Promise((resolve) => setTimeout(resolve, LOOK_AGAIN_MS))
  }
  const ms = performance.now() - before
  await stop()
  await instance.drop(name)
  return ms
}

const report = (how: string, ms: number) =>
  console.log(
    `${days} days of a daily plan for ${customers} customers, ${how}: ${seconds(ms)}, ${rate(customers * days, ms)} renewals/s`,
  )

const together = await advance("together", 0)
report("all at the same instant", together)
const apart = await advance("apart", Math.floor(DAY_MS / customers))
report("each at a different instant", apart)
console.log(`Different instants take ${(apart / together).toFixed(2)} times as long (aim 1.5).`)
instance.stop()
process.exit(0)
