/**
 * Measures several cells on one machine: requests a second of one cell, of the same through HAProxy, and of two cells through it. Then an
 * account with many rows moves from one cell to the other during writes, and the time of refused writes is measured.
 *
 *   npm run bench:cells -- --seconds 8 --connections 32 --rows 1000000
 */
import { type ChildProcess, execFile } from "node:child_process"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { setTimeout as sleep } from "node:timers/promises"
import { Effect, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { CLI, runCli } from "../../examples/cells/cli.ts"
import { Cell } from "../../src/base/cell.ts"
import { haproxyConfig } from "../../src/cells/haproxy.ts"
import { poolLayer } from "../../src/db/database.ts"
import { createAccount } from "../../src/merchants/account/accounts.ts"
import { createApi } from "../../test/support/api.ts"
import { findHaproxy, HAPROXY_MISSING, startHaproxy } from "../haproxy.ts"
import { ENCRYPTION_KEY, startServer } from "../server.ts"
import { median, sizes, startInstance } from "./instance.ts"
import { load } from "./load.ts"

const { seconds, connections, rounds, rows } = sizes({ seconds: 8, connections: 32, rounds: 3, rows: 1_000_000 })
const CELLS = ["00", "01"] as const
const PROXY_PORT = 18_080
const ADMIN_PORT = 18_081
const WARM_UP_SECONDS = 3
/** Rows inserted by one statement. */
const SEED = 50_000
/** The pause between two writes while the account moves. */
const PAUSE_MS = 5

const startCell = async (cell: string) => {
  const instance = await startInstance()
  const url = await instance.database("cells")
  const settings = { DATABASE_URL: Redacted.value(url), CELL: cell, ENCRYPTION_KEY }
  const server = await startServer(settings)
  const run = <A, E>(program: Effect.Effect<A, E, SqlClient.SqlClient>): Promise<A> =>
    Effect.runPromise(
      Effect.provide(Effect.provideService(program, Cell, cell), poolLayer(url, 1, { statement_timeout: "0" })),
    )
  const { account, keys } = await run(createAccount({ businessName: `Of ${cell}` }))
  return { cell, instance, url: Redacted.value(url), settings, server, run, account, keys }
}

const program = findHaproxy()
if (program === undefined) throw new Error(HAPROXY_MISSING)
const cells = [await startCell(CELLS[0]), await startCell(CELLS[1])] as const
const [first, second] = cells
runCli(second.settings, "cell", "join", "--from", first.url)
const folder = mkdtempSync(join(tmpdir(), "recurring-billing-bench-cells-"))
const config = join(folder, "haproxy.cfg")
writeFileSync(join(folder, "cells.map"), "")
writeFileSync(
  config,
  haproxyConfig({
    cells: cells.map(({ cell, server }) => ({ cell, servers: [new URL(server.origin).host] })),
    bind: `127.0.0.1:${PROXY_PORT}`,
    admin: `127.0.0.1:${ADMIN_PORT}`,
    folder,
  }),
)
const proxy: ChildProcess = await startHaproxy(program, config)
const proxied = `http://127.0.0.1:${PROXY_PORT}`

interface Kind {
  readonly name: string
  readonly method: "GET" | "POST"
  readonly body?: string
}
const KINDS: ReadonlyArray<Kind> = [
  { name: "POST /customers", method: "POST", body: JSON.stringify({ name: "Ada Obi", email: "ada@example.com" }) },
  { name: "GET /customers?limit=1", method: "GET" },
]

const rateOf = async ({ method, body }: Kind, origin: string, key: string, many: number, time = seconds) => {
  const url = `${origin}/sandbox/v1/customers${method === "GET" ? "?limit=1" : ""}`
  const requests = body === undefined ? {} : { requests: [{ body }] }
  return (await load({ url, key, method, connections: many, seconds: time, ...requests })).perSecond
}

for (const kind of KINDS) {
  const key = first.keys.sk_test
  for (const { server, keys } of cells) await rateOf(kind, server.origin, keys.sk_test, connections, WARM_UP_SECONDS)
  const found: Array<readonly [number, number, number]> = []
  for (let round = 0; round < rounds; round++) {
    const direct = await rateOf(kind, first.server.origin, key, connections)
    const through = await rateOf(kind, proxied, key, connections)
    const both = await Promise.all(cells.map(({ keys }) => rateOf(kind, proxied, keys.sk_test, connections / 2)))
    found.push([direct, through, both[0]! + both[1]!])
  }
  const [direct, through, both] = [0, 1, 2].map((at) => Math.round(median(found.map((one) => one[at]!))))
  console.log(
    `${kind.name.padEnd(24)} one cell ${direct} a second; through the proxy ${through} (${(through! / direct!).toFixed(2)}); two cells through it ${both} (${(both! / through!).toFixed(2)})`,
  )
}

const seed = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  for (let done = 0; done < rows; done += SEED)
    yield* sql`
      INSERT INTO customer (account_id, livemode, id, name, email, metadata, created_at)
      SELECT ${first.account.id}, false, 'cus_seed' || lpad((${done}::integer + n)::text, 18, '0'), 'Buyer ' || n, 'b' || n || '@example.com', '{}', now()
      FROM generate_series(1, ${Math.min(SEED, rows - done)}::integer) AS n`
  yield* sql`ANALYZE customer`
})
await first.run(seed)

/** Writes through the proxy, one after the other; returns how many rows were created, and the longest time without one. */
const writing = () => {
  const api = createApi(proxied, first.keys.sk_test)
  let running = true
  let refused = 0
  let longest = 0
  let made = 0
  const done = (async () => {
    for (let last = performance.now(); running; ) {
      const { status, body } = await api.post("/customers", { name: "Under way" })
      if (status === 503) refused++
      else if (status !== 201) throw new Error(JSON.stringify(body))
      else {
        made++
        longest = Math.max(longest, performance.now() - last)
        last = performance.now()
      }
      await sleep(PAUSE_MS)
    }
    return { made, refused, longest }
  })()
  return {
    stop: () => {
      running = false
      return done
    },
  }
}

/** Runs the command while this process keeps writing. */
const moveAccount = (
  settings: Readonly<Record<string, string>>,
  account: string,
  to: string,
): Promise<{ readonly rows: number; readonly gap_ms: number }> =>
  new Promise((resolve, reject) => {
    const args = ["account", "move", account, "--to", to, "--proxy", `127.0.0.1:${ADMIN_PORT}`, "--json"]
    const options = { env: { PATH: process.env.PATH, ...settings } }
    execFile(process.execPath, ["--disable-warning=ExperimentalWarning", CLI, ...args], options, (error, output) =>
      error === null ? resolve(JSON.parse(output)) : reject(error),
    )
  })

const caller = writing()
const startedAt = performance.now()

const moved = await moveAccount(first.settings, first.account.id, second.url)
const took = performance.now() - startedAt
const { made, refused, longest } = await caller.stop()
console.log(
  `account move: ${moved.rows} rows in ${(took / 1000).toFixed(1)} s; writes refused for ${moved.gap_ms} ms (aim 3000); a caller wrote ${made} meanwhile, was refused ${refused} times, and waited ${Math.round(longest)} ms at most`,
)

proxy.kill("SIGTERM")
for (const { server, instance } of cells) {
  await server.stop()
  instance.stop()
}
rmSync(folder, { recursive: true, force: true })
process.exit(0)
