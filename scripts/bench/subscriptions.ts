/**
 * Measures the API's main writes: POST /subscriptions with a first payment; a charge by request, a report of units and a plain POST. Reports
 * requests a second with many connections and with one, and the CPU of one request alone in Node and in Postgres; compared with bare
 * node:http with one INSERT in the same run.
 *
 *   npm run bench:subscriptions -- --seconds 8 --connections 32
 */
import { readdirSync, readFileSync } from "node:fs"
import { Effect, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { poolLayer } from "../../src/db/database.ts"
import { createAccount } from "../../src/merchants/account/accounts.ts"
import { createApi } from "../../test/support/api.ts"
import { startServer } from "../server.ts"
import { median, sizes, startInstance } from "./instance.ts"
import { load } from "./load.ts"

const { seconds, connections, rounds, customers } = sizes({ seconds: 8, connections: 32, rounds: 3, customers: 200 })
const WARM_UP_SECONDS = 3
/** The CPU of sequential requests is measured: the median of this many windows of this many requests. */
const WINDOWS = 9
const ALONE = 100

const instance = await startInstance()
const url = await instance.database("subscriptions")
const run = <A, E>(program: Effect.Effect<A, E, SqlClient.SqlClient>): Promise<A> =>
  Effect.runPromise(Effect.provide(program, poolLayer(url, 1)))
const { keys } = await run(createAccount({ businessName: "Bench" }))
const env = { DATABASE_URL: Redacted.value(url) }
const ours = await startServer(env)
const bare = await startServer(env, "scripts/bench/bare-server.ts")
const api = createApi(ours.origin, keys.sk_test)

const made = async (path: string, body: object): Promise<string> => {
  const { status, body: answer } = await api.post(path, body)
  if (status !== 201) throw new Error(JSON.stringify(answer))
  return answer.data.id
}
const plan = await made("/plans", { name: "Gym", amount: 500_000, currency: "NGN", billing_cycle: "monthly" })
/** A customer with a subscription. */
interface Buyer {
  readonly customer: string
  readonly subscription: string
}

const buyers: Array<Buyer> = []
for (let n = 0; n < customers; n++) {
  const customer = await made("/customers", { name: `Buyer ${n}` })
  const subscription = await made("/subscriptions", { customer, plan, payment_method: "pm_test_success" })
  buyers.push({ customer, subscription })
}

interface Case {
  readonly name: string
  readonly path: (buyer: Buyer) => string
  readonly body: (buyer: Buyer) => object
}

const CASES: ReadonlyArray<Case> = [
  {
    name: "POST /subscriptions",
    path: () => "/subscriptions",
    body: ({ customer }) => ({ customer, plan, payment_method: "pm_test_success" }),
  },
  {
    name: "POST /charges",
    path: () => "/charges",
    body: ({ customer }) => ({ customer, amount: 500_000, currency: "NGN", payment_method: "pm_test_success" }),
  },
  {
    name: "POST /subscriptions/{id}/unit-records",
    path: ({ subscription }) => `/subscriptions/${subscription}/unit-records`,
    body: () => ({ quantity: 1 }),
  },
  { name: "POST /customers", path: () => "/customers", body: () => ({ name: "Ada Obi", email: "ada@example.com" }) },
]
const CUSTOMER = JSON.stringify({ name: "Ada Obi", email: "ada@example.com", phone: "+2348031234567", metadata: {} })

type Requests = ReadonlyArray<{ readonly path: string; readonly body: string }>

const post = (origin: string, requests: Requests, time: number, many = connections) =>
  load({ url: origin, key: keys.sk_test, method: "POST", requests, connections: many, seconds: time })

const PREFIX = "/sandbox/v1"
const REFERENCE: Requests = [{ path: `${PREFIX}/customers`, body: CUSTOMER }]

/** Returns the parent of a process. */
const parentOf = (pid: number): number =>
  Number(
    readFileSync(`/proc/${pid}/stat`, "utf8")
      .replace(/^.*\) /, "")
      .split(" ")[1],
  )

/** The CPU time of a process and its threads so far, in milliseconds. */
const cpuOf = (pid: number): number =>
  readdirSync(`/proc/${pid}/task`)
    .map((task) => Number(readFileSync(`/proc/${pid}/task/${task}/schedstat`, "utf8").split(" ")[0]) / 1e6)
    .reduce((sum, ms) => sum + ms, 0)

const postmaster = await run(
  Effect.flatMap(SqlClient.SqlClient, (sql) =>
    Effect.map(sql<{ pid: number }>`SELECT pg_backend_pid() AS pid`, ([row]) => parentOf(row!.pid)),
  ),
)

/** The CPU time of Postgres's processes, by process number, without autovacuum. */
const cpuOfPostgres = (): ReadonlyMap<number, number> => {
  const isCounted = (pid: number): boolean =>
    pid === postmaster ||
    (parentOf(pid) === postmaster && !readFileSync(`/proc/${pid}/cmdline`, "utf8").includes("autovacuum"))
  return new Map(
    readdirSync("/proc").flatMap((name): ReadonlyArray<[number, number]> => {
      const pid = Number(name)
      if (!Number.isInteger(pid)) return []
      try {
        return isCounted(pid) ? [[pid, cpuOf(pid)]] : []
      } catch {
        // The process has ended meanwhile.
        return []
      }
    }),
  )
}

/** The CPU time used since, in milliseconds; processes that have ended meanwhile are not counted. */
const spent = (before: ReadonlyMap<number, number>, after: ReadonlyMap<number, number>): number =>
  [...after].reduce((sum, [pid, ms]) => sum + ms - (before.get(pid) ?? 0), 0)

for (const { name, path, body } of CASES) {
  const requests = buyers.map((buyer) => ({ path: PREFIX + path(buyer), body: JSON.stringify(body(buyer)) }))
  await post(ours.origin, requests, WARM_UP_SECONDS)
  const pairs: Array<readonly [number, number, number]> = []
  for (let round = 0; round < rounds; round++) {
    const own = await post(ours.origin, requests, seconds)
    const reference = await post(bare.origin, REFERENCE, seconds)
    pairs.push([own.perSecond, reference.perSecond, own.p99])
  }
  // Vacuums before the measurement, since vacuuming may take longer than the measured requests.
  await run(Effect.flatMap(SqlClient.SqlClient, (sql) => sql`VACUUM (ANALYZE)`.unprepared))
  const alone = await post(ours.origin, requests, seconds, 1)
  const windows: Array<readonly [number, number]> = []
  for (let window = 0; window < WINDOWS; window++) {
    const [node, postgres] = [cpuOf(ours.process.pid!), cpuOfPostgres()]
    for (let n = 0; n < ALONE; n++) {
      const buyer = buyers[n % buyers.length]!
      await made(path(buyer), body(buyer))
    }
    windows.push([(cpuOf(ours.process.pid!) - node) / ALONE, spent(postgres, cpuOfPostgres()) / ALONE])
  }
  console.log(
    `${name.padEnd(36)} ${Math.round(median(pairs.map(([a]) => a)))} a second (99 % in ${median(pairs.map(([, , p]) => p))} ms), bare node:http ${Math.round(median(pairs.map(([, b]) => b)))}: ${median(pairs.map(([a, b]) => a / b)).toFixed(3)}; ` +
      `alone ${alone.p50} ms, ${median(windows.map(([node]) => node)).toFixed(1)} ms of CPU in Node and ${median(windows.map(([, postgres]) => postgres)).toFixed(1)} in Postgres`,
  )
}
await ours.stop()
await bare.kill()
instance.stop()
process.exit(0)
