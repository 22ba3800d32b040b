/**
 * Measures how hostile tenants affect a quiet tenant: its latency alone, and during each load of isolation-loads.ts, as a Markdown table. Each
 * load has a new database and server. Exit code 1 if a load misses the aim.
 *
 *   npm run bench:isolation -- --seconds 10 --only validation
 */
import { readFile } from "node:fs/promises"
import { Effect, Redacted } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import { poolLayer } from "../../src/db/database.ts"
import { createAccount } from "../../src/merchants/account/accounts.ts"
import { type Server, startServer } from "../server.ts"
import { rate, sizes, startInstance } from "./instance.ts"
import type { Running, Tally } from "./isolation-clients.ts"
import { type Load, loads, type Place, type Tenant } from "./isolation-loads.ts"
import { BODY, createAgent, createRead, type Latency, measure, type Quiet, send } from "./isolation-quiet.ts"

const { seconds, only } = sizes({ seconds: 10 }, ["only"])
const chosen = only === undefined ? loads : loads.filter(({ name }) => name === only)
if (chosen.length === 0) throw new Error(`--only takes one of ${loads.map(({ name }) => name).join(", ")}.`)

/** The aim for the median during any load: this many times the median alone, plus this much. */
const AIM_TIMES = 3
const AIM_MORE_MS = 20

/** The limits of production, and a secret that callbacks are checked against. */
const SETTINGS = {
  RATE_LIMIT_LIVE: "100",
  RATE_LIMIT_SANDBOX: "50",
  RATE_LIMIT_PUBLIC: "10",
  IN_FLIGHT: "50",
  ALLOW_LOOPBACK_WEBHOOKS: "true",
  WHATSAPP_URL: "http://127.0.0.1:9",
  WHATSAPP_PHONE_NUMBER_ID: "1",
  WHATSAPP_TOKEN: "token",
  WHATSAPP_APP_SECRET: "secret",
  WHATSAPP_VERIFY_TOKEN: "verify",
}

const ACCOMPLICES = 3
/** How many tenants warm up the server, each within its own limits. */
const WARMING = 10
const WARMING_REQUESTS = 40
/** A call that starts a load takes no longer, unless the server is blocked. */
const CALL_LIMIT_MS = 30_000
const LOOK_AT_MEMORY_EVERY_MS = 100

interface Row {
  readonly what: string
  readonly quiet: Quiet
  /** Undefined without a load. */
  readonly tally: Tally | undefined
  /** The maximum in megabytes; undefined if the system does not report it. */
  readonly memory: number | undefined
  /** A fault other than slowness, such as the end of the server. */
  readonly fault: string | undefined
}

const say = (line: string): void => void process.stderr.write(`${line}\n`)

const run = <A>(url: Redacted.Redacted<string>, work: Effect.Effect<A, SqlError.SqlError, SqlClient.SqlClient>) =>
  Effect.runPromise(Effect.provide(work, poolLayer(url, 1)))

const createTenant = Effect.map(
  createAccount({ businessName: "Bench", liveAccess: "approved" }),
  ({ account, keys }): Tenant => ({ id: account.id, keys: keys as Tenant["keys"] }),
)

const createTenants = Effect.all({
  quiet: createTenant,
  hostile: createTenant,
  accomplices: Effect.all(Array.from({ length: ACCOMPLICES }, () => createTenant)),
  warming: Effect.all(Array.from({ length: WARMING }, () => createTenant)),
})

/** Makes the database look old: nothing is left to vacuum or write out during the measurement. */
const settle = Effect.flatMap(SqlClient.SqlClient, (sql) =>
  Effect.andThen(sql`VACUUM (ANALYZE)`.unprepared, sql`CHECKPOINT`.unprepared),
)

/** Measures the memory of a process until it is stopped; returns the maximum, in megabytes. */
const watchMemory = (pid: number): (() => number | undefined) => {
  let most: number | undefined
  const timer = setInterval(async () => {
    const status = await readFile(`/proc/${pid}/status`, "utf8").catch(() => "")
    const kilobytes = /^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1]
    if (kilobytes !== undefined) most = Math.max(most ?? 0, Math.round(Number(kilobytes) / 1024))
  }, LOOK_AT_MEMORY_EVERY_MS)
  return () => {
    clearInterval(timer)
    return most
  }
}

const instance = await startInstance()
const template = await instance.database("tenants")
const tenants = await run(template, createTenants)

const createPost = (origin: string): Place["post"] => {
  const key = tenants.hostile.keys.sk_test
  return async (path, body) => {
    const answer = await fetch(`${origin}/sandbox/v1${path}`, {
      method: "POST",
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
      body: JSON.stringify(body),
      signal: AbortSignal.timeout(CALL_LIMIT_MS),
    })
    await answer.text()
    return answer.status
  }
}

const hasEnded = ({ process: { exitCode, signalCode } }: Server): boolean => exitCode !== null || signalCode !== null

/** Sends the first requests of a process, which take longer than all others. */
const warmUp = async (agent: ReturnType<typeof createAgent>, origin: string): Promise<void> => {
  await Promise.all(
    tenants.warming.map(async ({ keys }) => {
      const path = await createRead(agent, origin, keys)
      for (let n = 0; n < WARMING_REQUESTS; n++) {
        await send(agent, origin, keys.sk_live, path)
        await send(agent, origin, keys.sk_test, "/sandbox/v1/customers", BODY)
      }
    }),
  )
}

const NO_ANSWERS: Quiet = {
  read: { median: Number.POSITIVE_INFINITY, p99: Number.POSITIVE_INFINITY },
  write: { median: Number.POSITIVE_INFINITY, p99: Number.POSITIVE_INFINITY },
  failed: {},
}

/** Measures the quiet tenant during a load, or alone, on a new database and server. */
const measureBeside = async (load: Load | undefined, name: string): Promise<Row> => {
  const what = load?.what ?? "alone"
  say(`${name} …`)
  const url = await instance.database(name, "tenants")
  if (load?.seed !== undefined) await run(url, load.seed(tenants))
  await run(url, settle)
  const server = await startServer({ DATABASE_URL: Redacted.value(url), ...SETTINGS })
  const memory = watchMemory(server.process.pid!)
  const agent = createAgent()
  let running: Running | undefined
  let quiet = NO_ANSWERS
  let fault: string | undefined
  try {
    const { origin } = server
    const readPath = await createRead(agent, origin, tenants.quiet.keys)
    await warmUp(agent, origin)
    running = await load?.start({ origin, ...tenants, run: (work) => run(url, work), post: createPost(origin) })
    quiet = await measure(agent, origin, tenants.quiet.keys, readPath, seconds)
  } catch (error) {
    // The preparation of the load also fails if the server ends or is blocked.
    fault = `it could not start: ${error instanceof Error ? error.message : error}`
  }
  const tally = await running?.stop()
  if (hasEnded(server)) fault = "the server ended"
  await server.kill()
  await agent.destroy()
  await instance.drop(name)
  return { what, quiet, tally, memory: memory(), fault }
}

const shownMs = (value: number): string => {
  if (value === Number.POSITIVE_INFINITY) return "none"
  return value < 10 ? value.toFixed(1) : String(Math.round(value))
}

const shownCounts = (counts: Readonly<Record<string, number>>): string =>
  Object.entries(counts)
    .filter(([, count]) => count > 0)
    .map(([status, count]) => `${status}: ${count}`)
    .join(", ") || "–"

const shownTally = ({ sent, answers, ms }: Tally): ReadonlyArray<string> => {
  const unanswered = sent - Object.values(answers).reduce((sum, count) => sum + count, 0)
  return [String(rate(sent, ms)), shownCounts({ ...answers, unanswered })]
}

interface Alone {
  readonly read: number
  readonly write: number
}

const isWithinAim = (median: number, alone: number): boolean => median <= AIM_TIMES * alone + AIM_MORE_MS
const meetsAim = ({ quiet, fault }: Row, alone: Alone): boolean =>
  fault === undefined && isWithinAim(quiet.read.median, alone.read) && isWithinAim(quiet.write.median, alone.write)

const shownLatency = ({ median, p99 }: Latency, alone: number): ReadonlyArray<string> => [
  shownMs(median),
  shownMs(p99),
  median === Number.POSITIVE_INFINITY ? "–" : (median / alone).toFixed(1),
]

const shownAim = (row: Row, alone: Alone): string => {
  if (row.fault !== undefined) return `missed: ${row.fault}`
  if (row.tally === undefined) return "–"
  return meetsAim(row, alone) ? "met" : "missed"
}

const shownRow = (row: Row, alone: Alone): string =>
  `| ${[
    row.what,
    ...(row.tally === undefined ? ["–", "–"] : shownTally(row.tally)),
    ...shownLatency(row.quiet.read, alone.read),
    ...shownLatency(row.quiet.write, alone.write),
    shownCounts(row.quiet.failed),
    row.memory ?? "–",
    shownAim(row, alone),
  ].join(" | ")} |`

const HEAD = [
  "beside",
  "requests/s",
  "answers",
  "read, median ms",
  "read, 99 %",
  "× alone",
  "write, median ms",
  "write, 99 %",
  "× alone",
  "not served",
  "server, MB",
  "aim",
]

const first = await measureBeside(undefined, "alone")
const beside: Array<Row> = []
for (const load of chosen) beside.push(await measureBeside(load, load.name))
const last = await measureBeside(undefined, "alone_again")
/** The better of the two: other work of the machine must not make the aim easier. */
const alone: Alone = {
  read: Math.min(first.quiet.read.median, last.quiet.read.median),
  write: Math.min(first.quiet.write.median, last.quiet.write.median),
}

console.log(`| ${HEAD.join(" | ")} |\n|${" --- |".repeat(HEAD.length)}`)
for (const row of [first, ...beside, { ...last, what: "alone again" }]) console.log(shownRow(row, alone))
const missed = beside.filter((row) => !meetsAim(row, alone))
console.log(
  `\n${seconds} s each. Aim: at most ${AIM_TIMES} × alone + ${AIM_MORE_MS} ms at the median, that is ${shownMs(AIM_TIMES * alone.read + AIM_MORE_MS)} ms for a read and ${shownMs(AIM_TIMES * alone.write + AIM_MORE_MS)} ms for a write: ${beside.length - missed.length} of ${beside.length} loads are within it.
Everything shares the same cores: server, Postgres, the quiet tenant's client and the hostile ones, which send prepared bytes from a separate process.`,
)
instance.stop()
process.exit(missed.length === 0 ? 0 : 1)
