/**
 * Measures the typical load of users: many merchants, each with one request at a time, live, with an Idempotency-Key on every POST. Compares
 * requests a second with bare node:http with one INSERT, for the same clients in the same run.
 *
 *   npm run bench:merchants -- --merchants 24 --seconds 8
 */
import { setTimeout as sleep } from "node:timers/promises"
import { Effect, Redacted } from "effect"
import { poolLayer } from "../../src/db/database.ts"
import { createAccount } from "../../src/merchants/account/accounts.ts"
import { type Api, createApi } from "../../test/support/api.ts"
import { startServer } from "../server.ts"
import { median, sizes, startInstance } from "./instance.ts"
import { type Client, FRESH, prepare, startClients } from "./isolation-clients.ts"

const { merchants, customers, seconds, rounds } = sizes({ merchants: 24, customers: 10, seconds: 8, rounds: 3 })
const WARM_UP_SECONDS = 3

const instance = await startInstance()
const url = await instance.database("merchants")
const env = { DATABASE_URL: Redacted.value(url) }

interface Buyer {
  readonly customer: string
  readonly subscription: string
}

interface Merchant {
  readonly keys: { readonly live: string; readonly sandbox: string }
  readonly plan: string
  readonly buyers: ReadonlyArray<Buyer>
}

const dataOf = async (answer: ReturnType<Api["post"]>) => {
  const { status, body } = await answer
  if (status >= 300) throw new Error(JSON.stringify(body))
  return body.data
}

/** A customer that has saved a payment method on the hosted page. */
const createBuyer = async (live: Api, plan: string): Promise<Buyer> => {
  const { id: customer } = await dataOf(live.post("/customers", { name: "Ada Obi" }))
  const session = await dataOf(
    live.post("/checkout-sessions", {
      mode: "setup",
      customer,
      success_url: "https://gym.example/done",
      cancel_url: "https://gym.example/back",
    }),
  )
  const completed = await fetch(`${session.url}/complete`, {
    method: "POST",
    headers: { accept: "application/json", "content-type": "application/json" },
    body: JSON.stringify({ payment_method: "pm_test_success" }),
  })
  if (!completed.ok) throw new Error(await completed.text())
  const { id: subscription } = await dataOf(live.post("/subscriptions", { customer, plan }))
  return { customer, subscription }
}

const createMerchant = async (origin: string): Promise<Merchant> => {
  const { keys } = await Effect.runPromise(
    createAccount({ businessName: "Gym", liveAccess: "approved" }).pipe(Effect.provide(poolLayer(url, 1))),
  )
  const live = createApi(origin, keys.sk_live!, "live")
  const terms = { name: "Gym", amount: 500_000, currency: "NGN", billing_cycle: "monthly", overage_per_unit: 100 }
  const { id: plan } = await dataOf(live.post("/plans", terms))
  const buyers: Array<Buyer> = []
  while (buyers.length < customers) buyers.push(await createBuyer(live, plan))
  return { keys: { live: keys.sk_live!, sandbox: keys.sk_test }, plan, buyers }
}

interface Case {
  readonly name: string
  readonly environment: "live" | "sandbox"
  readonly path: (buyer: Buyer) => string
  readonly body: (buyer: Buyer, merchant: Merchant) => object
}

const CUSTOMER = {
  name: "Ada Obi",
  email: "ada@example.com",
  phone: "+2348031234567",
  metadata: { tier: "gold" },
}

const CASES: ReadonlyArray<Case> = [
  { name: "POST /customers, live", environment: "live", path: () => "/customers", body: () => CUSTOMER },
  { name: "POST /customers, sandbox", environment: "sandbox", path: () => "/customers", body: () => CUSTOMER },
  {
    name: "POST /subscriptions, live",
    environment: "live",
    path: () => "/subscriptions",
    body: ({ customer }, { plan }) => ({ customer, plan }),
  },
  {
    name: "POST /charges, live",
    environment: "live",
    path: () => "/charges",
    body: ({ customer }) => ({ customer, amount: 50_000, currency: "NGN" }),
  },
  {
    name: "POST …/unit-records, live",
    environment: "live",
    path: ({ subscription }) => `/subscriptions/${subscription}/unit-records`,
    body: () => ({ quantity: 1 }),
  },
]

const clientOf = (one: Case, merchant: Merchant, run: number): Client => ({
  manner: "asks",
  connections: 1,
  requests: merchant.buyers.map((buyer) =>
    prepare({
      method: "POST",
      path: `${one.environment === "live" ? "" : "/sandbox"}/v1${one.path(buyer)}`,
      key: merchant.keys[one.environment],
      // A unique key per run: a key of an earlier run would be replayed.
      headers: { "idempotency-key": `${run}-${FRESH}` },
      body: JSON.stringify(one.body(buyer, merchant)),
    }),
  ),
})

let runs = 0

const rateOf = async (origin: string, one: Case, length: number): Promise<number> => {
  const run = runs++
  const running = await startClients(
    origin,
    all.map((merchant) => clientOf(one, merchant, run)),
  )
  await sleep(length * 1000)
  const { answers, ms } = await running.stop()
  const refused = Object.entries(answers).filter(([status]) => status !== "201")
  if (refused.length > 0) throw new Error(`refused: ${JSON.stringify(answers)}`)
  return ((answers["201"] ?? 0) / ms) * 1000
}

const ours = await startServer(env)
const all: Array<Merchant> = []
while (all.length < merchants) all.push(await createMerchant(ours.origin))
const bare = await startServer(env, "scripts/bench/bare-server.ts")

for (const one of CASES) {
  await rateOf(ours.origin, one, WARM_UP_SECONDS)
  await rateOf(bare.origin, CASES[0]!, WARM_UP_SECONDS)
  const pairs: Array<readonly [number, number]> = []
  for (let round = 0; round < rounds; round++)
    pairs.push([await rateOf(ours.origin, one, seconds), await rateOf(bare.origin, CASES[0]!, seconds)])
  const ratio = median(pairs.map(([a, b]) => a / b))
  console.log(
    `${one.name.padEnd(26)} ${Math.round(median(pairs.map(([a]) => a)))} requests/s, bare node:http ${Math.round(median(pairs.map(([, b]) => b)))}: ${ratio.toFixed(2)}`,
  )
}

await ours.stop()
await bare.kill()
instance.stop()
process.exit(0)
