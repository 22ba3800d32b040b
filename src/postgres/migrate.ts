/** Forward-only migrations: the files of migrations/, each applied once, in order, in its own transaction. */
import { createHash } from "node:crypto"
import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { Effect, Schedule } from "effect"
import { SqlClient } from "effect/sql"
import { ConfigProblem } from "../config/Config.ts"
import { LOCKS } from "./advisoryLocks.ts"
import { withFullScans } from "./fullScan.ts"
import { isLockTimeout, setLockTimeout } from "./lockWait.ts"
import { checkRoles } from "./roles.ts"

const MIGRATIONS = join(import.meta.dirname, "../../migrations")
const MIN_SERVER_VERSION = 150_000
/** How long a migration waits for a table that others use; all later users wait behind it. Then it lets them pass, and tries again. */
const LOCK_WAIT_MS = 2_000
const PAUSE_MS = 1_000

interface Migration {
  readonly name: string
  readonly text: string
  readonly checksum: string
}

const migrationsIn = (folder: string): ReadonlyArray<Migration> =>
  readdirSync(folder)
    .filter((file) => /^\d{4}_\w+\.sql$/.test(file))
    .sort()
    .map((file) => {
      const text = readFileSync(join(folder, file), "utf8")
      return { name: file.slice(0, -4), text, checksum: createHash("sha256").update(text).digest("hex") }
    })

const appliedNames = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const [table] = yield* sql<{ found: boolean }>`SELECT to_regclass('schema_migration') IS NOT NULL AS found`
  if (!table!.found) return new Map<string, string>()
  const rows = yield* sql<{ name: string; checksum: string }>`SELECT name, checksum FROM schema_migration ORDER BY name`
  return new Map(rows.map((row) => [row.name, row.checksum]))
})

/** The applied and the pending migrations (names of migration files). */
export const migrationStatus = Effect.map(appliedNames, (applied) => ({
  applied: [...applied.keys()],
  pending: migrationsIn(MIGRATIONS)
    .filter((migration) => !applied.has(migration.name))
    .map((migration) => migration.name),
}))

/** Applies the first of the files that is pending, if any, and returns its name. */
const applyNext = Effect.fnUntraced(function* (files: ReadonlyArray<Migration>) {
  const sql = yield* SqlClient.SqlClient
  // No time limit: it may wait for another process, and read whole tables.
  yield* withFullScans
  yield* sql`SELECT pg_advisory_xact_lock(${LOCKS.migration})`
  yield* sql`CREATE TABLE IF NOT EXISTS schema_migration (name text PRIMARY KEY, checksum text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now())`
  const applied = yield* appliedNames
  // A newer version may have added migrations after ours. Before ours there are only our own.
  const last = files.at(-1)?.name ?? ""
  const unknown = [...applied.keys()].find((name) => name < last && files.every((file) => file.name !== name))
  if (unknown !== undefined)
    return yield* new ConfigProblem({
      message: `The database has a migration ${unknown} that the service does not have: use a database that this service has made.`,
    })
  const edited = files.find(({ name, checksum }) => applied.has(name) && applied.get(name) !== checksum)
  if (edited !== undefined)
    return yield* new ConfigProblem({
      message: `Migration ${edited.name} was edited after it was applied: add a new one instead.`,
    })
  const next = files.find(({ name }) => !applied.has(name))
  if (next === undefined) return undefined
  yield* setLockTimeout(LOCK_WAIT_MS)
  // The protocol sees one statement; the server runs the file's statements one by one.
  yield* sql.unsafe(`DO $migration$ BEGIN EXECUTE $file$${next.text}$file$; END $migration$`).unprepared
  yield* sql`INSERT INTO schema_migration (name, checksum) VALUES (${next.name}, ${next.checksum})`
  return next.name
})

const logLockTimeout = (error: unknown) =>
  isLockTimeout(error)
    ? Effect.logWarning(
        "a migration waits for a table that a longer transaction uses: it tries again until that has ended",
      )
    : Effect.void

/**
 * Applies the pending files of a folder and returns their names. Processes that start together wait for each other. Fails with
 * ConfigProblem if the server is too old, or if an applied file was edited or is missing.
 */
export const migrateFrom = Effect.fn("migrate")(function* (folder: string) {
  const sql = yield* SqlClient.SqlClient
  const [server] = yield* sql<{ version: number }>`SELECT current_setting('server_version_num')::int AS version`
  if (server!.version < MIN_SERVER_VERSION) {
    return yield* new ConfigProblem({
      message: `Postgres 15 or newer is needed; DATABASE_URL names ${Math.floor(server!.version / 10_000)}.`,
    })
  }
  const files = migrationsIn(folder)
  const done: Array<string> = []
  for (;;) {
    const name = yield* Effect.retry(Effect.tapError(sql.withTransaction(applyNext(files)), logLockTimeout), {
      while: isLockTimeout,
      schedule: Schedule.spaced(PAUSE_MS),
    })
    if (name === undefined) return done
    done.push(name)
  }
})

/** Runs {@link migrateFrom} on the service's own migrations. Also fails with ConfigProblem if the roles lack privileges that migrations granted. */
export const migrate = Effect.tap(migrateFrom(MIGRATIONS), () => checkRoles)
