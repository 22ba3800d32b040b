/** The worker of calls beside the others of its process. */
import { Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { expect, it } from "vitest"
import { poolLayer } from "../../src/db/database.ts"
import { Runner } from "../../src/process/Runner.ts"
import { railCallWorker } from "../../src/rail_call/worker.ts"
import { useDatabase } from "../support/database.ts"

const database = useDatabase()

it("holds no connection while it waits for its turn to take", async () => {
  const idle = {
    kinds: ["charge" as const],
    prepare: () => Effect.succeed([]),
    write: () => Effect.die("no call"),
    askAgain: () => Effect.void,
  }
  const takes = Effect.gen(function* () {
    const [sql, runner] = [yield* SqlClient.SqlClient, yield* Runner]
    yield* railCallWorker([idle])
    // The worker looks several times meanwhile; were a connection held by it, the second statement would wait for that.
    return yield* runner.taking(Effect.andThen(sql`SELECT pg_sleep(0.4)`, sql`SELECT 1 AS one`))
  }).pipe(Effect.scoped)
  // One connection is what says that this process lives, which leaves one.
  const pool = Layer.provideMerge(Runner.layer, poolLayer(database.url(), 2))
  expect(await Effect.runPromise(Effect.provide(takes, pool))).toEqual([{ one: 1 }])
})
