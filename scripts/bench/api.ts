/**
 * Requests per second of one write and one read, against bare node:http with one prepared statement, in the same run.
 *
 *   npm run bench:api -- --seconds 10 --connections 32
 */
import { Effect, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { poolLayer } from "../../src/db/database.ts"
import { createAccount } from "../../src/merchants/account/accounts.ts"
import { startServer } from "../server.ts"
import { median, sizes, startInstance } from "./instance.ts"
import { load } from "./load.ts"

const { seconds, connections, rounds } = sizes({ seconds: 8, connections: 32, rounds: 3 })

/** How many customers are read in turn. */
const READ = 500
/** How many requests have their statements counted. */
const COUNTED = 50
const WARM_UP_SECONDS = 3

interface Case {
  readonly name: string
  readonly method: "GET" | "POST"
  /** The URL of one of its requests. */
  readonly url: string
  readonly key: string
  /** The requests, sent in turn. */
  readonly requests: ReadonlyArray<{ readonly path?: string; readonly body?: string }>
}

const rateOf = async (one: Case, seconds: number): Promise<number> =>
  (await load({ ...one, connections, seconds })).perSecond

const instance = await startInstance()
const url = await instance.database("api")
const { keys } = await Effect.runPromise(
  createAccount({ businessName: "Bench", liveAccess: "approved" }).pipe(Effect.provide(poolLayer(url, 1))),
)
const key = keys.sk_test
const env = { DATABASE_URL: Redacted.value(url) }
const ours = await startServer(env)
const bare = await startServer(env, "scripts/bench/bare-server.ts")

const body = JSON.stringify({
  name: "Ada Obi",
  email: "ada@example.com",
  phone: "+2348031234567",
  metadata: { tier: "gold" },
})
const create = async (): Promise<string> => {
  const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" }
  const response = await fetch(`${ours.origin}/sandbox/v1/customers`, { method: "POST", headers, body })
  return ((await response.json()) as { data: { id: string } }).data.id
}
const paths: Array<string> = []
while (paths.length < READ) paths.push(`/sandbox/v1/customers/${await create()}`)

const cases = (origin: string): ReadonlyArray<Case> => [
  { name: "POST /customers", method: "POST", url: `${origin}/sandbox/v1/customers`, key, requests: [{ body }] },
  { name: "… live, metered", method: "POST", url: `${origin}/v1/customers`, key: keys.sk_live!, requests: [{ body }] },
  {
    name: "GET /customers/{id}",
    method: "GET",
    url: origin + paths[0]!,
    key,
    requests: paths.map((path) => ({ path })),
  },
]

/** Counts the statements that reach the database for one request. */
const statements = async (one: Case, headers: Readonly<Record<string, string>>): Promise<number> => {
  const count = () =>
    Effect.runPromise(
      Effect.flatMap(
        SqlClient.SqlClient,
        (sql) =>
          sql<{
            n: number
          }>`SELECT count(*) AS n FROM regexp_matches(pg_read_file('server.log'), 'LOG:  (duration: [0-9.]+ ms  )?(execute|statement)', 'g')`,
      ).pipe(
        Effect.map(([row]) => row!.n),
        Effect.provide(poolLayer(url, 1)),
      ),
    )
  const before = await count()
  for (let n = 0; n < COUNTED; n++) {
    await fetch(one.url, {
      method: one.method,
      headers: {
        authorization: `Bearer ${one.key}`,
        "content-type": "application/json",
        ...(headers["idempotency-key"] === undefined ? {} : { "idempotency-key": `${headers["idempotency-key"]}${n}` }),
      },
      ...(one.method === "POST" ? { body } : {}),
    })
  }
  return ((await count()) - before) / COUNTED
}

for (const [index, own] of cases(ours.origin).entries()) {
  const reference = cases(bare.origin)[index]!
  await rateOf(own, WARM_UP_SECONDS)
  await rateOf(reference, WARM_UP_SECONDS)
  const pairs: Array<readonly [number, number]> = []
  for (let round = 0; round < rounds; round++)
    pairs.push([await rateOf(own, seconds), await rateOf(reference, seconds)])
  const ratio = median(pairs.map(([a, b]) => a / b))
  console.log(
    `${own.name.padEnd(20)} ${Math.round(median(pairs.map(([a]) => a)))} requests/s, bare node:http ${Math.round(median(pairs.map(([, b]) => b)))}: ${ratio.toFixed(2)}`,
  )
}

await Effect.runPromise(
  Effect.flatMap(SqlClient.SqlClient, (sql) => sql`ALTER DATABASE api SET log_statement = 'all'`.unprepared).pipe(
    Effect.provide(poolLayer(url, 1)),
  ),
)
await ours.stop()
const counted = await startServer({ ...env, WORKERS: "0" })
for (const one of cases(counted.origin))
  console.log(`${one.name.padEnd(20)} ${(await statements(one, {})).toFixed(1)} statements a request`)
console.log(
  `${"… with a key".padEnd(20)} ${(await statements(cases(counted.origin)[0]!, { "idempotency-key": "bench" })).toFixed(1)} statements a request`,
)
await counted.stop()
await bare.kill()
instance.stop()
process.exit(0)
