/** The demo account of a development machine, with its key in a file beside the data, readable by the file's owner only. */
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
/** The owner of the demo account. Nothing is sent to this address. */
export const DEMO_EMAIL = "owner@demo.example"
/** The newest keys that are read: those of the most recently used databases. */
const MAX_KEYS = 100

/** Reads or writes a file in DATA_DIR. */
const attempt = <A>(access: "read" | "written", path: string, work: () => A): Effect.Effect<A, ConfigProblem> =>
  Effect.try({
    try: work,
    catch: () => new ConfigProblem({ message: `DATA_DIR cannot be ${access}: ${path}.` }),
  })

const readText = (file: string): string => (existsSync(file) ? readFileSync(file, "utf8") : "")

/** Reads the keys in the file: one for each database used with this DATA_DIR, and keys whose transaction did not commit. */
const readKeys = (file: string) =>
  attempt("read", file, () => readText(file).split("\n").filter(Boolean).slice(-MAX_KEYS))

const appendKey = (file: string, key: string) =>
  attempt("written", file, () => {
    // A crashed process may have left an incomplete line.
    const end = /[^\n]$/.test(readText(file)) ? "\n" : ""
    appendFileSync(file, `${end}${key}\n`, { mode: 0o600, flush: true })
  })

/** Returns the newest of these keys that is active in the database. */
const findActive = Effect.fnUntraced(function* (keys: ReadonlyArray<string>) {
  const sql = yield* SqlClient.SqlClient
  const found = yield* sql<{ hash: Uint8Array }>`
    SELECT hash FROM api_key WHERE hash = ANY(${keys.map(hashKey)}::bytea[]) AND revoked_at IS NULL`
  const active = new Set(found.map(({ hash }) => Buffer.from(hash).toString("hex")))
  return keys.findLast((key) => active.has(Buffer.from(hashKey(key)).toString("hex")))
})

/** Creates a key of the demo account. Creates that account if there are no accounts; returns undefined if all are others. */
const createDemoKey = Effect.gen(function* () {
  const accounts = yield* listAccounts
  if (accounts.length === 0) return (yield* insertAccount({ businessName: DEMO_NAME, email: DEMO_EMAIL })).keys.sk_test
  const demo = accounts.find(({ business_name }) => business_name === DEMO_NAME)
  if (demo === undefined) return undefined
  return (yield* createKey({ account_id: demo.id, livemode: false }, "secret")).key
})

/**
 * Returns the demo account's sandbox key, created on the first start. The key is written to the file before the commit:
 * after a crash in between there is no active key that is missing from the file.
 */
export const demoKey = Effect.fnUntraced(function* (dataDir: string) {
  const sql = yield* SqlClient.SqlClient
  const file = join(dataDir, "demo-key")
  yield* attempt("written", dataDir, () => mkdirSync(dataDir, { recursive: true }))
  return yield* sql.withTransaction(
    Effect.gen(function* () {
      yield* sql`SELECT pg_advisory_xact_lock(${LOCKS.demo})`
      const existing = yield* findActive(yield* readKeys(file))
      if (existing !== undefined) return existing
      const key = yield* createDemoKey
      if (key !== undefined) yield* appendKey(file, key)
      return key
    }),
  )
})

/** The address of the demo account's owner; undefined: there is no demo account, or its owner has another address. */
export const demoOwner = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const found = yield* sql`
    SELECT FROM member m JOIN account a ON a.id = m.account_id
    WHERE m.email = ${DEMO_EMAIL} AND m.livemode AND m.removed_at IS NULL AND a.business_name = ${DEMO_NAME}`
  return found.length > 0 ? DEMO_EMAIL : undefined
})
