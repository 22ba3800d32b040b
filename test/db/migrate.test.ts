/** Tests migrations: they may take long, and they block no other queries. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Effect } from "effect"
import { afterAll, describe, expect, it } from "vitest"
import { poolLayer } from "../../src/db/database.ts"
import { LOCKS } from "../../src/postgres/advisoryLocks.ts"
import { migrate, migrateFrom } from "../../src/postgres/migrate.ts"
import { useDatabase } from "../support/database.ts"
import { lockUntilReleased } from "../support/hold.ts"
import { eventually } from "../support/story.ts"

const database = useDatabase()
/** Has no tables. */
const early = useDatabase("template0")

it("waits for another process's migration beyond the statement timeout", async () => {
  const locked = await lockUntilReleased(database, (sql) => sql`SELECT pg_advisory_xact_lock(${LOCKS.migration})`)
  const waiting = Effect.runPromise(Effect.provide(migrate, poolLayer(database.url(), 1, { statement_timeout: "50" })))
  await locked.waiters()
  await eventually(() =>
    database
      .run(
        (sql) => sql`
          SELECT 1 FROM pg_stat_activity
          WHERE datname = current_database() AND wait_event_type = 'Lock' AND query_start < clock_timestamp() - interval '200 milliseconds'`,
      )
      .then(([row]) => row),
  )
  await locked.release()
  expect(await waiting).toEqual([])
})

describe("migrations of a folder", () => {
  const folder = mkdtempSync(join(tmpdir(), "migrations-"))
  const migrating = () => Effect.runPromise(Effect.provide(migrateFrom(folder), poolLayer(early.url(), 1)))
  const write = (name: string, text: string) => writeFileSync(join(folder, `${name}.sql`), text)
  afterAll(() => rmSync(folder, { recursive: true }))

  it("are applied once, in order", async () => {
    write("0002_second", "INSERT INTO shop VALUES ('Gym');")
    write("0001_first", "CREATE TABLE shop (name text);")
    expect(await migrating()).toEqual(["0001_first", "0002_second"])
    expect(await migrating()).toEqual([])
    expect(await early.run((sql) => sql`SELECT name FROM shop`)).toEqual([{ name: "Gym" }])
  })

  it("release a table that is in use", async () => {
    write("0003_third", "ALTER TABLE shop ADD COLUMN city text;")
    const reader = await lockUntilReleased(early, (sql) => sql`SELECT count(*) FROM shop`)
    const running = migrating()
    await reader.waiters()
    const isWaiting = () =>
      early
        .run((sql) => sql`SELECT 1 FROM pg_locks WHERE relation = 'shop'::regclass AND NOT granted`)
        .then(([row]) => row)
    await eventually(isWaiting)
    // This query waits for the migration, which waits for the reader. The migration then releases the table.
    await early.run((sql) => sql`SELECT count(*) FROM shop`)
    await reader.release()
    expect(await running).toEqual(["0003_third"])
  })

  it("are refused if an applied one was edited or is missing", async () => {
    write("0003_third", "ALTER TABLE shop ADD COLUMN town text;")
    await expect(migrating()).rejects.toThrow("Migration 0003_third was edited after it was applied")
    rmSync(join(folder, "0001_first.sql"))
    await expect(migrating()).rejects.toThrow("The database has a migration 0001_first that the service does not have")
  })
})

it("refuses a database that was restored without the roles' privileges", async () => {
  const restored = "The database was restored without the roles"
  const attempt = () => Effect.runPromise(Effect.provide(migrate, poolLayer(database.url(), 1)))
  for (const [lost, found] of [
    ["REVOKE INSERT ON customer FROM billing_request", "GRANT INSERT ON customer TO billing_request"],
    ["REVOKE USAGE ON SCHEMA finance FROM finance_reader", "GRANT USAGE ON SCHEMA finance TO finance_reader"],
    ["ALTER TABLE plan_of_test ENABLE ROW LEVEL SECURITY", "DROP TABLE plan_of_test"],
  ] as const) {
    await database.run((sql) => sql`CREATE TABLE IF NOT EXISTS plan_of_test (id text)`)
    await database.run((sql) => sql.unsafe(lost))
    await expect(attempt()).rejects.toThrow(restored)
    await database.run((sql) => sql.unsafe(found))
  }
  expect(await attempt()).toEqual([])
})
