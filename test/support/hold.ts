/** Holding what others want, so that they stand still in the middle of what they do. */
import { Effect } from "effect"
import type { SqlError } from "effect/sql"
import type { Sql, TestDatabase } from "./database.ts"
import { eventually } from "./story.ts"

/** Holds what `lock` locks until `release`, so that whoever wants it stands still in the middle of what it does. */
export const hold = async (held: TestDatabase, lock: (sql: Sql) => Effect.Effect<unknown, SqlError.SqlError>) => {
  const [reached, release] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const holding = held.run((sql) =>
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
    /** So many wait for a lock; returns who. */
    stands: (count = 1) =>
      eventually(async () => {
        const all = await held.run(waiting)
        return all.length >= count ? all : undefined
      }),
    /** Of those that waited, so many are left: the transactions of the others are over. */
    left: (waited: ReadonlyArray<{ readonly pid: number; readonly since: string }>, count: number) =>
      eventually(async () => {
        const left = await held.run(
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
    /** Those who wait for it are gone with their machine. */
    end: async () => {
      await held.run((sql) =>
        Effect.flatMap(waiting(sql), (all) =>
          Effect.forEach(all, ({ pid }) => sql`SELECT pg_terminate_backend(${pid})`),
        ),
      )
      release.resolve()
      await holding
    },
  }
}

/** Holds a table: nobody writes to it. */
export const holdTable = (held: TestDatabase, table: string) =>
  hold(held, (sql) => sql.unsafe(`LOCK TABLE ${table} IN EXCLUSIVE MODE`))
