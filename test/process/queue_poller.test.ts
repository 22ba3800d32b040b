/** Tests the poller that reports which queues have work. */
import { Effect, Exit, Layer, Logger, Queue, Scope } from "effect"
import { SqlClient } from "effect/sql"
import { expect, it } from "vitest"
import { poolLayer } from "../../src/db/database.ts"
import { QueuePoller } from "../../src/process/QueuePoller.ts"
import { useDatabase } from "../support/database.ts"
import { lockUntilReleased } from "../support/hold.ts"

const database = useDatabase()

const run = <A, E>(program: Effect.Effect<A, E, QueuePoller | SqlClient.SqlClient | Scope.Scope>) =>
  Effect.runPromise(
    Effect.scoped(program).pipe(
      Effect.provide(
        Layer.merge(QueuePoller.layer(database.url()), poolLayer(database.url(), 1)).pipe(
          Layer.provide(Logger.layer([])),
        ),
      ),
    ),
  )

it("notifies each queue as long as it has work", async () => {
  const notified = await run(
    Effect.gen(function* () {
      const [sql, poller, found] = [yield* SqlClient.SqlClient, yield* QueuePoller, yield* Queue.unbounded<string>()]
      yield* sql`CREATE TABLE full_queue AS SELECT 1 AS id`
      yield* sql`CREATE TABLE empty_queue AS SELECT 1 AS id LIMIT 0`
      const scope = yield* Scope.make()
      const watch = (name: string) =>
        poller.watch(sql`SELECT FROM ${sql(name)} ORDER BY id LIMIT 1`, () => Queue.offerUnsafe(found, name))
      yield* watch("empty_queue")
      yield* Scope.provide(watch("full_queue"), scope)
      const first = yield* Effect.forEach([1, 2, 3], () => Queue.take(found))
      // Nothing polls it any more.
      yield* Scope.close(scope, Exit.void)
      yield* sql`INSERT INTO empty_queue VALUES (1)`
      yield* Queue.clear(found)
      return { first, later: yield* Effect.forEach([1, 2, 3], () => Queue.take(found)) }
    }),
  )
  expect(notified).toEqual({
    first: ["full_queue", "full_queue", "full_queue"],
    later: ["empty_queue", "empty_queue", "empty_queue"],
  })
})

it("polls again after a failed poll", async () => {
  const notified = await run(
    Effect.gen(function* () {
      const [sql, poller, found] = [yield* SqlClient.SqlClient, yield* QueuePoller, yield* Queue.unbounded<string>()]
      yield* poller.watch(sql`SELECT FROM late_queue LIMIT 1`, () => Queue.offerUnsafe(found, "late_queue"))
      // The table does not exist yet: the first polls fail.
      const failed = sql<{
        n: number
      }>`SELECT xact_rollback::integer AS n FROM pg_stat_database WHERE datname = current_database()`
      const { n: before } = (yield* failed)[0]!
      yield* Effect.repeat(failed, { until: ([row]) => row!.n > before })
      yield* sql`CREATE TABLE late_queue AS SELECT 1 AS id`
      return yield* Queue.take(found)
    }),
  )
  expect(notified).toBe("late_queue")
})

it("delays no queue because of another that cannot be polled", async () => {
  await database.run((sql) => sql`CREATE TABLE locked_queue AS SELECT 1 AS id LIMIT 0`)
  await database.run((sql) => sql`CREATE TABLE other_queue AS SELECT 1 AS id`)
  const { release } = await lockUntilReleased(database, (sql) => sql`LOCK TABLE locked_queue IN ACCESS EXCLUSIVE MODE`)
  const notified = await run(
    Effect.gen(function* () {
      const [sql, poller, found] = [yield* SqlClient.SqlClient, yield* QueuePoller, yield* Queue.unbounded<string>()]
      for (const name of ["locked_queue", "other_queue"])
        yield* poller.watch(sql`SELECT FROM ${sql(name)} LIMIT 1`, () => Queue.offerUnsafe(found, name))
      // A notified worker polls by itself while the poll is still in progress.
      const first = yield* Effect.forEach([1, 2], () =>
        Effect.tap(Queue.take(found), () => sql`SELECT id FROM other_queue`),
      )
      yield* Effect.promise(release)
      return first
    }),
  )
  expect(notified).toEqual(["locked_queue", "other_queue"])
})
