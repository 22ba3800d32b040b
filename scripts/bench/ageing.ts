/**
 * Measures young and old tables: an account that is new, and one with years of data; then the cost of deleting events that are no longer
 * kept.
 *
 *   npm run bench:ageing -- --past 2000000 --due 20000 --standing 50000
 */
import { Effect, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { HOUR_MS } from "../../src/base/time.ts"
import { poolLayer } from "../../src/db/database.ts"
import { createAccount } from "../../src/merchants/account/accounts.ts"
import { purgeEvents } from "../../src/outbound/webhook/housekeeping.ts"
import { startServer } from "../server.ts"
import { renewAll } from "./engine.ts"
import { seconds as inSeconds, rate, sizes, startInstance } from "./instance.ts"
import { load } from "./load.ts"
import { seed, seedPast } from "./renewals-seed.ts"

/** `past` are paid charges with three journal rows and two events each; old events are deleted for `purge` seconds. */
const { past, due, standing, seconds, connections, purge } = sizes({
  past: 2_000_000,
  due: 20_000,
  standing: 50_000,
  seconds: 8,
  connections: 32,
  purge: 60,
})
const WARM_UP_SECONDS = 3
const BUYERS = 200

const instance = await startInstance()
const run = <A, E>(url: Redacted.Redacted<string>, program: Effect.Effect<A, E, SqlClient.SqlClient>): Promise<A> =>
  Effect.runPromise(Effect.provide(program, poolLayer(url, 1, { statement_timeout: "0" })))

const BASE = "/sandbox/v1"

const requests = async (age: string, url: Redacted.Redacted<string>, key: string) => {
  const server = await startServer({ DATABASE_URL: Redacted.value(url) })
  const origin = `${server.origin}${BASE}`
  const made = async (path: string, body: object): Promise<string> => {
    const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" }
    const answer = await fetch(`${origin}${path}`, { method: "POST", headers, body: JSON.stringify(body) })
    const { data } = (await answer.json()) as { readonly data: { readonly id: string } }
    return data.id
  }
  const plan = await made("/plans", { name: "Gym", amount: 500_000, currency: "NGN", billing_cycle: "monthly" })
  const buyers: Array<string> = []
  for (let n = 0; n < BUYERS; n++) buyers.push(await made("/customers", { name: `Buyer ${n}` }))
  const bodies = (of: (customer: string) => object) =>
    buyers.map((customer) => ({ body: JSON.stringify(of(customer)) }))
  const sale = { amount: 500_000, currency: "NGN", payment_method: "pm_test_success" }
  const cases = [
    { path: "/subscriptions", bodies: bodies((customer) => ({ customer, plan, payment_method: "pm_test_success" })) },
    { path: "/charges", bodies: bodies((customer) => ({ customer, ...sale })) },
    { path: "/customers/…", paths: buyers.map((customer) => `/customers/${customer}`) },
    { path: "/charges?limit=10" },
    { path: `/charges?limit=10&customer=${buyers[0]}` },
    { path: "/events?limit=10" },
  ]
  for (const { path, paths, bodies } of cases) {
    const requests = bodies ?? paths?.map((path) => ({ path: `${BASE}${path}` }))
    const one = {
      ...{
        url: `${origin}${path}`,
        key,
        connections,
        method: bodies === undefined ? ("GET" as const) : ("POST" as const),
      },
      ...(requests === undefined ? {} : { requests }),
    }
    await load({ ...one, seconds: WARM_UP_SECONDS })
    const { perSecond, p99 } = await load({ ...one, seconds })
    const name = `${one.method} ${path.replace(buyers[0]!, "…")}`
    console.log(`${age}  ${name.padEnd(30)} ${Math.round(perSecond)} a second, 99 % in ${p99} ms`)
  }
  await server.stop()
}

const figures = async (age: "young" | "old", charges: number) => {
  const url = await instance.database(age)
  const { account, keys } = await run(url, createAccount({ businessName: "Bench" }))
  await run(url, seed(due, standing, { account: account.id }))
  const before = performance.now()
  await run(url, seedPast(charges, due + standing, account.id))
  const [size] = await run(
    url,
    Effect.flatMap(
      SqlClient.SqlClient,
      (sql) => sql<{ size: string }>`SELECT pg_size_pretty(pg_database_size(current_database())) AS size`,
    ),
  )
  console.log(`${age}: ${charges} charges of the past, ${size!.size}, in ${inSeconds(performance.now() - before)}`)
  const ms = await renewAll(url)
  console.log(`${age}  renewals ${rate(due, ms)} a second`)
  await requests(age, url, keys.sk_test)
  return url
}

/** Deletes old events for a while, as if they were no longer kept. */
const purged = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const look = sql<{ log: number; events: number }>`
    SELECT (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::float8 AS log, count(*) AS events
    FROM event`
  const [before] = yield* look
  const from = performance.now()
  yield* Effect.timeoutOption(purgeEvents(12 * HOUR_MS), `${purge} seconds`)
  const ms = performance.now() - from
  const [after] = yield* look
  const events = before!.events - after!.events
  const bytes = Math.round((after!.log - before!.log) / events)
  console.log(
    `purge: ${events} events in ${inSeconds(ms)}, ${rate(events, ms)} a second, ${bytes} bytes of log for each`,
  )
})

await figures("young", 0)
const old = await figures("old", past)
await run(old, purged)
instance.stop()
process.exit(0)
