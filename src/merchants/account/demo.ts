/** The demo account of a development machine, and its key, which is kept beside the data for its owner's eyes. */
import { appendFileSync, existsSync, mkdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { ConfigProblem } from "../../config/Config.ts"
import { LOCKS } from "../../postgres/advisoryLocks.ts"
import { createKey } from "../../security/key/apiKeys.ts"
import { hashKey } from "../../security/key/key.ts"
import { insertAccount, listAccounts } from "./accounts.ts"

const DEMO_NAME = "Demo merchant"
/** Keys looked at: of the databases that were used last. */
const MAX_KEPT = 100

/** Does something to what is in DATA_DIR. */
const attempt = <A>(what: "read" | "written", path: string, work: () => A): Effect.Effect<A, ConfigProblem> =>
  Effect.try({
    try: work,
    catch: () => new ConfigProblem({ message: `DATA_DIR cannot be ${what}: ${path}.` }),
  })

const readText = (file: string): string => (existsSync(file) ? readFileSync(file, "utf8") : "")

/** The keys in the file: one for each database that was used with this DATA_DIR, and such as never came to be. */
const readKept = (file: string) =>
  attempt("read", file, () => readText(file).split("\n").filter(Boolean).slice(-MAX_KEPT))

const keep = (file: string, key: string) =>
  attempt("written", file, () => {
    // A process that died may have left a part of a line.
    const end = /[^\n]$/.test(readText(file)) ? "\n" : ""
    appendFileSync(file, `${end}${key}\n`, { mode: 0o600, flush: true })
  })

/** Which of these keys the database knows as active. */
const findKnown = Effect.fnUntraced(function* (keys: ReadonlyArray<string>) {
  const sql = yield* SqlClient.SqlClient
  const found = yield* sql<{ hash: Uint8Array }>`
    SELECT hash FROM api_key WHERE hash = ANY(${keys.map(hashKey)}::bytea[]) AND revoked_at IS NULL`
  const known = new Set(found.map(({ hash }) => Buffer.from(hash).toString("hex")))
  return keys.findLast((key) => known.has(Buffer.from(hashKey(key)).toString("hex")))
})

/** A key of the demo account, which is created where there is no account at all; undefined where there are others only. */
const createDemoKey = Effect.gen(function* () {
  const accounts = yield* listAccounts
  if (accounts.length === 0) return (yield* insertAccount({ businessName: DEMO_NAME })).keys.sk_test
  const demo = accounts.find(({ business_name }) => business_name === DEMO_NAME)
  if (demo === undefined) return undefined
  return (yield* createKey({ account_id: demo.id, livemode: false }, "secret")).key
})

/**
 * The demo account's sandbox key: created on the first start, the same ever after. It is in the file before it is in the
 * database for others to see: a process that dies in between leaves no key that works and that nobody knows.
 */
export const demoKey = Effect.fnUntraced(function* (dataDir: string) {
  const sql = yield* SqlClient.SqlClient
  const file = join(dataDir, "demo-key")
  yield* attempt("written", dataDir, () => mkdirSync(dataDir, { recursive: true }))
  return yield* sql.withTransaction(
    Effect.gen(function* () {
      yield* sql`SELECT pg_advisory_xact_lock(${LOCKS.demo})`
      const known = yield* findKnown(yield* readKept(file))
      if (known !== undefined) return known
      const key = yield* createDemoKey
      if (key !== undefined) yield* keep(file, key)
      return key
    }),
  )
})
