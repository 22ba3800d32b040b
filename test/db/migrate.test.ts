/** Migrating: as long as it takes. */
import { Effect } from "effect"
import { expect, it } from "vitest"
import { poolLayer } from "../../src/db/database.ts"
import { LOCKS } from "../../src/db/locks.ts"
import { migrate } from "../../src/db/migrate.ts"
import { useDatabase } from "../support/database.ts"
import { hold } from "../support/hold.ts"
import { eventually } from "../support/story.ts"

const database = useDatabase()

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
