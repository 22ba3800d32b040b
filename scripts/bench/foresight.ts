/**
 * Measures dry runs against real requests, forecasts, a page of a long timeline, and the proof of a journal.
 *
 *   npm run bench:foresight -- --requests 300 --transitions 10000 --journals 2000
 */
import { Effect, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { replayables } from "../../src/app/lifecycles.ts"
import { poolLayer } from "../../src/db/database.ts"
import { createAccount } from "../../src/merchants/account/accounts.ts"
import { proveJournal } from "../../src/runtime/replay.ts"
import { type Answer, createApi } from "../../test/support/api.ts"
import { startServer } from "../server.ts"
import { median, sizes, startInstance } from "./instance.ts"

const { requests, transitions, journals } = sizes({ requests: 300, transitions: 10_000, journals: 2_000 })
const WARM_UP = 30

const instance = await startInstance()
const url = await instance.database("foresight")
const run = <A, E>(program: Effect.Effect<A, E, SqlClient.SqlClient>): Promise<A> =>
  Effect.runPromise(Effect.provide(program, poolLayer(url, 2)))
const { keys } = await run(createAccount({ businessName: "Bench" }))
const server = await startServer({ DATABASE_URL: Redacted.value(url) })
const api = createApi(server.origin, keys.sk_test)

const dataOf = async (answer: Promise<Answer>) => {
  const { status, body } = await answer
  if (status >= 300) throw new Error(JSON.stringify(body))
  return body.data
}

/** The median of the times of `count` requests (ms), one after the other. */
const timeOf = async (count: number, ask: () => Promise<unknown>): Promise<number> => {
  for (let n = 0; n < WARM_UP; n++) await ask()
  const times: Array<number> = []
  for (let n = 0; n < count; n++) {
    const start = performance.now()
    await ask()
    times.push(performance.now() - start)
  }
  return median(times)
}

const shown = (ms: number): string => `${ms.toFixed(1)} ms`

const plan = (cycle: string) =>
  dataOf(api.post("/plans", { name: "Gym", amount: 500_000, currency: "NGN", billing_cycle: cycle }))
const { id: customer } = await dataOf(api.post("/customers", { name: "Ada Obi", email: "ada@example.com" }))
const [monthly, daily] = [await plan("monthly"), await plan("daily")]
const body = { customer, plan: monthly.id, payment_method: "pm_test_success" }
const subscribe = (of: object = body) => dataOf(api.post("/subscriptions", of))

// In turns, so that both see the same machine.
const pairs: Array<readonly [number, number]> = []
for (let round = 0; round < 5; round++)
  pairs.push([
    await timeOf(Math.ceil(requests / 5), () => dataOf(api.post("/subscriptions?dry_run=true", body))),
    await timeOf(Math.ceil(requests / 5), () => subscribe()),
  ])
const [dry, real] = [median(pairs.map(([one]) => one)), median(pairs.map(([, one]) => one))]
console.log(
  `POST /subscriptions: dry run ${shown(dry)}, real ${shown(real)}: ${median(pairs.map(([a, b]) => a / b)).toFixed(2)} times`,
)

for (const [cycle, of] of [
  ["monthly", monthly],
  ["daily", daily],
] as const) {
  const { id } = await subscribe({ ...body, plan: of.id })
  const ms = await timeOf(requests, () => dataOf(api.get(`/subscriptions/${id}/forecast`)))
  console.log(`forecast of a year of ${cycle} periods: ${shown(ms)}`)
}

const { id: old } = await subscribe()
await run(
  Effect.flatMap(
    SqlClient.SqlClient,
    (sql) => sql`
      INSERT INTO lifecycle_journal (account_id, livemode, actor_id, version, actor_kind, at, event, from_state, to_state, effects, machine_version, status_from, status_to, brought)
      SELECT account_id, livemode, actor_id, n + 2, actor_kind, at, event, from_state, to_state, effects, machine_version, status_from, status_to, brought
      FROM lifecycle_journal, generate_series(1, ${transitions}::int) n WHERE actor_id = ${old} AND version = 2`,
  ),
)
const middle = `${old}:${Math.floor(transitions / 2)}`
const page = await timeOf(requests, () => dataOf(api.get(`/subscriptions/${old}/timeline?starting_after=${middle}`)))
console.log(`page of a timeline among ${transitions} transitions: ${shown(page)}`)
await run(
  Effect.flatMap(
    SqlClient.SqlClient,
    (sql) => sql`DELETE FROM lifecycle_journal WHERE actor_id = ${old} AND version > 2`,
  ),
)

for (let made = 0; made < journals; made += 50) await Promise.all(Array.from({ length: 50 }, () => subscribe()))
const count = await run(
  Effect.flatMap(SqlClient.SqlClient, (sql) => sql<{ n: number }>`SELECT count(*) AS n FROM lifecycle_journal`),
)
const start = performance.now()
const proof = await run(proveJournal(replayables))
const seconds = (performance.now() - start) / 1000
if (proof.differ > 0) throw new Error(JSON.stringify(proof.first))
console.log(`journal prove: ${Math.round(count[0]!.n / seconds)} transitions a second (${count[0]!.n})`)

await server.stop()
instance.stop()
process.exit(0)
