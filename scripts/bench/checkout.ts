/**
 * Measures buyers during renewals: sessions completed per second on the hosted page while a month's renewals run in the same process, compared
 * with each of the two alone. Buyers arrive at a steady rate, even if the earlier ones have not finished.
 *
 *   npm run bench:checkout -- --due 30000 --rate 10
 */
import { Effect, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { poolLayer } from "../../src/db/database.ts"
import { createAccount } from "../../src/merchants/account/accounts.ts"
import { type Server, startServer } from "../server.ts"
import { median, rate, seconds, sizes, startInstance } from "./instance.ts"
import { seed } from "./renewals-seed.ts"

/** `rate`: buyers a second. Without renewals they arrive for as long as the renewals took with them. */
const { due, rate: perSecond, rounds } = sizes({ due: 30_000, rate: 10, rounds: 3 })

/** More sessions than any run uses. */
const SESSIONS = Math.max(1_000, perSecond * 60)
const CONCURRENCY = 16
const LOOK_EVERY_MS = 100

const instance = await startInstance()
const run = <A, E>(url: Redacted.Redacted<string>, program: Effect.Effect<A, E, SqlClient.SqlClient>): Promise<A> =>
  Effect.runPromise(Effect.provide(program, poolLayer(url, 2)))

const serve = (url: Redacted.Redacted<string>, workers: "0" | "1"): Promise<Server> =>
  startServer({ DATABASE_URL: Redacted.value(url), WORKERS: workers })

const post = async (address: string, key: string | undefined, body: object): Promise<unknown> => {
  const response = await fetch(address, {
    method: "POST",
    headers: {
      accept: "application/json",
      "content-type": "application/json",
      ...(key === undefined ? {} : { authorization: `Bearer ${key}` }),
    },
    body: JSON.stringify(body),
  })
  const { data, error } = (await response.json()) as { data?: unknown; error?: { message: string } }
  if (data === undefined) throw new Error(`${response.status}: ${error?.message}`)
  return data
}

/** Opens sessions and returns their paths, since every run has a different server. */
const openSessions = async (url: Redacted.Redacted<string>): Promise<ReadonlyArray<string>> => {
  const { keys } = await run(url, createAccount({ businessName: "Fit Lagos" }))
  const server = await serve(url, "0")
  const root = `${server.origin}/sandbox/v1`
  const gym = { name: "Gym", amount: 1_500_000, currency: "NGN", billing_cycle: "monthly" }
  const { id: plan } = (await post(`${root}/plans`, keys.sk_test, gym)) as { id: string }
  const body = { mode: "subscription", plan, success_url: "https://shop.example/a", cancel_url: "https://shop.example" }
  const paths: Array<string> = []
  while (paths.length < SESSIONS) {
    const made = Array.from({ length: CONCURRENCY }, () => post(`${root}/checkout-sessions`, keys.sk_test, body))
    for (const session of await Promise.all(made)) paths.push(new URL((session as { url: string }).url).pathname)
  }
  await server.stop()
  return paths
}

const renewed = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<{ n: number; ms: number }>`
    SELECT count(*) AS n, coalesce(extract(epoch FROM max(recorded_at) - min(recorded_at)) * 1000, 0)::float8 AS ms
    FROM event WHERE type = 'subscription.renewed'`
  return row!
})

interface Bought {
  readonly completed: number
  readonly ms: number
  readonly medianMs: number
}

/** Buyers arrive until `isOver`; returns how many were served within that time. */
const buy = async (origin: string, paths: ReadonlyArray<string>, isOver: () => boolean): Promise<Bought> => {
  const took: Array<number> = []
  const buying: Array<Promise<void>> = []
  const startedAt = performance.now()
  const one = async (path: string): Promise<void> => {
    const before = performance.now()
    await post(`${origin}${path}/complete`, undefined, { name: "Ada Obi", payment_method: "pm_test_success" })
    took.push(performance.now() - before)
  }
  for (const [n, path] of paths.entries()) {
    const wait = startedAt + (n * 1000) / perSecond - performance.now()
    if (wait > 0) await new Promise((resolve) => setTimeout(resolve, wait))
    if (isOver()) break
    buying.push(one(path))
  }
  const [ms, completed] = [performance.now() - startedAt, took.length]
  await Promise.all(buying)
  return { completed, ms, medianMs: took.sort((a, b) => a - b)[Math.floor(took.length / 2)] ?? Number.NaN }
}

/** Runs all renewals, with or without buyers; returns milliseconds from the first to the last, and the completed purchases. */
const renew = async (name: string, paths: ReadonlyArray<string>) => {
  const url = await instance.database(name, "seeded")
  const server = await serve(url, "1")
  let over = false
  const buying = buy(server.origin, paths, () => over)
  for (;;) {
    const { n, ms } = await run(url, renewed)
    if (n === due) {
      over = true
      const bought = await buying
      await server.stop()
      await instance.drop(name)
      return { ms, bought }
    }
    await new Promise((resolve) => setTimeout(resolve, LOOK_EVERY_MS))
  }
}

/** Runs buyers without renewals, for `limitMs`. */
const buyAlone = async (name: string, paths: ReadonlyArray<string>, limitMs: number): Promise<Bought> => {
  const url = await instance.database(name, "seeded")
  await run(
    url,
    Effect.flatMap(SqlClient.SqlClient, (sql) => sql`DELETE FROM timer WHERE actor_kind = 'subscription'`),
  )
  const server = await serve(url, "1")
  const until = performance.now() + limitMs
  const bought = await buy(server.origin, paths, () => performance.now() >= until)
  await server.stop()
  await instance.drop(name)
  return bought
}

const seeded = await instance.database("seeded")
await run(seeded, seed(due, 0))
const paths = await openSessions(seeded)
console.log(`${due} renewals due, ${perSecond} buyers a second, ${rounds} rounds`)

const alone: Array<number> = []
const beside: Array<number> = []
const buyers: Array<number> = []
const buyersBeside: Array<number> = []
for (let round = 0; round < rounds; round++) {
  const renewals = await renew(`alone_${round}`, [])
  const both = await renew(`beside_${round}`, paths)
  const bought = await buyAlone(`buyers_${round}`, paths, both.bought.ms)
  alone.push((due / renewals.ms) * 1000)
  beside.push((due / both.ms) * 1000)
  buyers.push((bought.completed / bought.ms) * 1000)
  buyersBeside.push((both.bought.completed / both.bought.ms) * 1000)
  console.log(
    `round ${round + 1}: renewals alone ${seconds(renewals.ms)} (${rate(due, renewals.ms)}/s), beside buyers ${seconds(both.ms)} (${rate(due, both.ms)}/s); ` +
      `a purchase takes ${bought.medianMs.toFixed(0)} ms alone, ${both.bought.medianMs.toFixed(0)} ms beside renewals (median)`,
  )
}
const line = (name: string, one: ReadonlyArray<number>, two: ReadonlyArray<number>) =>
  console.log(
    `${name.padEnd(20)} alone ${median(one).toFixed(1).padStart(8)}/s   beside ${median(two).toFixed(1).padStart(8)}/s   ratio ${(median(two) / median(one)).toFixed(2)}`,
  )
line("renewals", alone, beside)
line("sessions completed", buyers, buyersBeside)
instance.stop()
process.exit(0)
