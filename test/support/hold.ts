/** Locks rows or tables that other transactions need, so that these stop in the middle of their work. */
import { Effect } from "effect"
import type { SqlError } from "effect/sql"
import type { Sql, TestDatabase } from "./database.ts"
import { eventually } from "./story.ts"

/** Keeps `lock`'s locks until `release`, so that other transactions stop when they need them. */
export const lockUntilReleased = async (
  database: TestDatabase,
  lock: (sql: Sql) => Effect.Effect<unknown, SqlError.SqlError>,
) => {
  const [reached, release] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const holding = database.run((sql) =>
    sql.withTransaction(
      Effect.gen(function* () {
        yield* lock(sql)
        reached.resolve()
        yield* Effect.promise(() => release.promise)
      }),
    ),
  )
  await Promise.race([reached.promise, holding])
  const waiting = (sql: Sql) => sql<{ pid: number; since: string }>`
    SELECT pid, xact_start::text AS since FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`
  return {
    /** Waits until this many transactions wait for a lock. Returns their pids. */
    waiters: (count = 1) =>
      eventually(async () => {
        const all = await database.run(waiting)
        return all.length >= count ? all : undefined
      }),
    /** Waits until this many of them are left: the transactions of the others have ended. */
    waitUntilLeft: (waited: ReadonlyArray<{ readonly pid: number; readonly since: string }>, count: number) =>
      eventually(async () => {
        const left = await database.run(
          (sql) => sql`
            SELECT 1 FROM pg_stat_activity JOIN unnest(${waited.map(({ pid }) => pid)}::integer[], ${waited.map(({ since }) => since)}::text[]) AS w (pid, since)
            ON pg_stat_activity.pid = w.pid AND xact_start = w.since::timestamptz`,
        )
        return left.length <= count ? true : undefined
      }),
    release: async () => {
      release.resolve()
      await holding
    },
    /** The clients that wait for it have died with their machine. */
    end: async () => {
      await database.run((sql) =>
        Effect.flatMap(waiting(sql), (all) =>
          Effect.forEach(all, ({ pid }) => sql`SELECT pg_terminate_backend(${pid})`),
        ),
      )
      release.resolve()
      await holding
    },
  }
}

/** Locks a table against writes. */
export const holdTable = (database: TestDatabase, table: string) =>
  lockUntilReleased(database, (sql) => sql.unsafe(`LOCK TABLE ${table} IN EXCLUSIVE MODE`))
