/** Migrating: as long as it takes, and in nobody's way. */
import { Effect } from "effect"
import { expect, it } from "vitest"
import { poolLayer } from "../../src/db/database.ts"
import { LOCKS } from "../../src/postgres/advisoryLocks.ts"
import { migrate, migrateThrough } from "../../src/postgres/migrate.ts"
import { useDatabase } from "../support/database.ts"
import { hold } from "../support/hold.ts"
import { eventually } from "../support/story.ts"

const database = useDatabase()
/** Without any table. */
const early = useDatabase("template0")

it("waits for another process's migration beyond the limit of other statements", async () => {
  const held = await hold(database, (sql) => sql`SELECT pg_advisory_xact_lock(${LOCKS.migration})`)
  const waiting = Effect.runPromise(Effect.provide(migrate, poolLayer(database.url(), 1, { statement_timeout: "50" })))
  await held.stands()
  await eventually(() =>
    database
      .run(
        (sql) => sql`
          SELECT 1 FROM pg_stat_activity
          WHERE datname = current_database() AND wait_event_type = 'Lock' AND query_start < clock_timestamp() - interval '200 milliseconds'`,
      )
      .then(([row]) => row),
  )
  await held.release()
  expect(await waiting).toEqual([])
})

it("makes room while a table that it changes is in use", async () => {
  await early.run(() => migrateThrough("0039_lookups"))
  const reader = await hold(early, (sql) => sql`SELECT count(*) FROM test_clock`)
  const migrating = Effect.runPromise(Effect.provide(migrate, poolLayer(early.url(), 1)))
  await reader.stands()
  const isWaiting = () =>
    early
      .run((sql) => sql`SELECT 1 FROM pg_locks WHERE relation = 'test_clock'::regclass AND NOT granted`)
      .then(([row]) => row)
  await eventually(isWaiting)
  // Behind the migration, which waits for the reader, this waits until the migration makes room.
  await early.run((sql) => sql`SELECT count(*) FROM test_clock`)
  await reader.release()
  expect(await migrating).toContain("0040_clocks_in_turn")
})

it("refuses a database that was restored without what the roles may do", async () => {
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
