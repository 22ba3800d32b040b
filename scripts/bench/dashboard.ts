/**
 * Measures the dashboard on an account with many subscriptions and charges: the server's time for each page, the bytes of each document and of
 * the script, and the API's requests a second beside open pages that follow what happens. Exit code 1 if a limit is exceeded.
 *
 *   npm run bench:dashboard -- --subscriptions 1000000 --months 10
 *   npm run bench:dashboard -- --subscriptions 10000 --rounds 3      a quick look
 */
import { Effect, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { poolLayer } from "../../src/db/database.ts"
import { createAccount } from "../../src/merchants/account/accounts.ts"
import { countJournal } from "../../src/runtime/counting.ts"
import { recountNew } from "../../src/runtime/recounting.ts"
import { createKey } from "../../src/security/key/apiKeys.ts"
import { crawl } from "../../test/support/crawl.ts"
import { type Member, signedIn } from "../../test/support/member.ts"
import { startServer } from "../server.ts"
import { seedAccount, seededId } from "./dashboard-seed.ts"
import { median, seconds, sizes, startInstance } from "./instance.ts"
import { filling } from "./ledger-seed.ts"
import { load } from "./load.ts"

const { subscriptions, months, plans, repeats, rounds, open } = sizes({
  subscriptions: 1_000_000,
  months: 10,
  plans: 20,
  /** Loads of each page. */
  repeats: 11,
  /** Loads of the API, with and without open pages. */
  rounds: 5,
  open: 50,
})
const LIMIT_MS = 100
const LIMIT_BYTES = 60_000
/** What is left of the API's rate beside open pages. */
const LEAST_SHARE = 0.95
const LOAD_SECONDS = 4
const CONNECTIONS = 32

const HOME = "/dashboard/live"
const charge = `chg_${String(months).padStart(3, "0")}${seededId("", subscriptions).slice(4)}`
const overdue = seededId("sub", Math.floor((subscriptions - 1) / 40) * 40 + 1)

/** Pages to begin with: the first of a kind is the one that is measured. Links lead to the rest. */
const FIRST: ReadonlyArray<string> = [
  "",
  `/customers?email=customer-${subscriptions}@example.com`,
  "/subscriptions?status=past_due",
  `/subscriptions/${overdue}`,
  "/charges?status=failed",
  `/charges/${charge}`,
  "/events?type=subscription.past_due",
  `/books?at=${new Date().toISOString().slice(0, 10)}`,
  `/books/entries/${charge.replace("chg_", "le_")}`,
  `/search?q=customer-${subscriptions}@example.com`,
].map((path) => `${HOME}${path}`)

const instance = await startInstance()
const url = await instance.database("dashboard")
const run = <A, E>(program: Effect.Effect<A, E, SqlClient.SqlClient>): Promise<A> =>
  Effect.runPromise(Effect.provide(program, poolLayer(url, 2)))

const startedAt = performance.now()
const { account } = await run(createAccount({ businessName: "Bench", liveAccess: "approved" }))
const { key } = await run(createKey({ account_id: account.id, livemode: true }, "secret"))
await run(filling(seedAccount(account.id, { subscriptions, months, plans })))
await run(
  Effect.flatMap(SqlClient.SqlClient, (sql) =>
    Effect.andThen(sql`SET statement_timeout = 0`.unprepared, sql`VACUUM ANALYZE`.unprepared),
  ),
)
// The first counting only notes where it starts.
await run(Effect.andThen(countJournal(), recountNew))
console.log(
  `${subscriptions} subscriptions and ${subscriptions * months} charges in ${seconds(performance.now() - startedAt)}`,
)

const server = await startServer({ DATABASE_URL: Redacted.value(url) })
const database = {
  url: () => url,
  run: <A, E>(program: (sql: SqlClient.SqlClient) => Effect.Effect<A, E, SqlClient.SqlClient>) =>
    run(Effect.flatMap(SqlClient.SqlClient, program)),
}
const owner = await signedIn(database, server.origin, account.id)

const faults: Array<string> = []
const check = (isRight: boolean, fault: string): void => {
  if (!isRight) faults.push(fault)
}

/** Measures a page. Returns the paths of the parts that it follows. */
const measure = async (member: Member, path: string): Promise<ReadonlyArray<string>> => {
  const times: Array<number> = []
  const { status, text } = await member.get(path)
  for (let n = 0; n < repeats; n++) {
    const start = performance.now()
    await member.get(path)
    times.push(performance.now() - start)
  }
  const [ms, bytes] = [median(times), Buffer.byteLength(text)]
  console.log(`${path.padEnd(72)} ${String(status)} ${ms.toFixed(1).padStart(7)} ms ${String(bytes).padStart(7)} bytes`)
  // A search for one object leads to it.
  check(status === 200 || (status === 303 && path.includes("/search?")), `${path}: ${status}`)
  check(ms <= LIMIT_MS, `${path}: ${ms.toFixed(1)} ms`)
  check(bytes <= LIMIT_BYTES, `${path}: ${bytes} bytes`)
  return [...text.matchAll(/hx-sse:connect="([^"]+)"/g)].map(([, one]) => one!)
}

const followed: Array<string> = []
for (const { path } of await crawl(owner, 1, FIRST)) followed.push(...(await measure(owner, path)))

const { text: home } = await owner.get(HOME)
for (const [, path] of home.matchAll(/(?:href|src)="(\/dashboard\/assets\/[^"]+)"/g)) {
  const bytes = (await (await fetch(server.origin + path!)).arrayBuffer()).byteLength
  console.log(`${path!.padEnd(72)} ${bytes} bytes`)
  check(bytes <= LIMIT_BYTES, `${path}: ${bytes} bytes`)
}

/** Opens pages that follow what happens, and waits until each has its first event. Returns a function that closes them. */
const openPages = async (paths: ReadonlyArray<string>): Promise<() => void> => {
  const ending = new AbortController()
  const begin = async (path: string): Promise<void> => {
    const { body } = await fetch(server.origin + path, {
      signal: ending.signal,
      headers: { cookie: `session=${owner.cookie}`, accept: "text/event-stream" },
    })
    const reader = body!.getReader()
    await reader.read()
    const readOn = async (): Promise<void> => {
      while (!(await reader.read()).done);
    }
    readOn().catch(() => {})
  }
  await Promise.all(Array.from({ length: open }, (_, n) => begin(paths[n % paths.length]!)))
  return () => ending.abort()
}

const rateOf = async (): Promise<number> => {
  const { perSecond } = await load({
    url: `${server.origin}/v1/customers`,
    key,
    method: "POST",
    requests: [{ body: JSON.stringify({ name: "Ada Obi", email: "ada@example.com" }) }],
    connections: CONNECTIONS,
    seconds: LOAD_SECONDS,
  })
  return perSecond
}

if (followed.length === 0) console.log("No page follows what happens.")
else {
  await rateOf()
  const pairs: Array<readonly [number, number]> = []
  for (let round = 0; round < rounds; round++) {
    const end = await openPages(followed)
    const beside = await rateOf()
    end()
    pairs.push([beside, await rateOf()])
  }
  const share = median(pairs.map(([beside, alone]) => beside / alone))
  const [beside, alone] = [median(pairs.map(([one]) => one)), median(pairs.map(([, one]) => one))]
  console.log(
    `POST /customers: ${Math.round(alone)} a second, ${Math.round(beside)} beside ${open} open pages: ${share.toFixed(2)}`,
  )
  check(share >= LEAST_SHARE, `beside open pages the API keeps ${share.toFixed(2)}`)
}

await server.stop()
instance.stop()
for (const fault of faults) console.error(`Above the limit: ${fault}`)
process.exit(faults.length === 0 ? 0 : 1)
