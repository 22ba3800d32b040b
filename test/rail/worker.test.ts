/** The worker of calls beside the others of its process. */
import { Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { expect, it } from "vitest"
import { createAccount } from "../../src/account/accounts.ts"
import { poolLayer } from "../../src/db/database.ts"
import { Lookout } from "../../src/process/Lookout.ts"
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
    const { account } = yield* createAccount({ businessName: "Fit Lagos" })
    yield* sql`INSERT INTO rail_call (account_id, livemode, id, rail, kind, rank) VALUES (${account.id}, true, 'chg_1', 'paystack', 'charge', 0)`
    yield* railCallWorker([idle])
    // The worker looks several times meanwhile, as a call is queued; were a connection held by it, the second statement would wait for that.
    return yield* runner.taking(Effect.andThen(sql`SELECT pg_sleep(0.4)`, sql`SELECT 1 AS one`))
  }).pipe(Effect.scoped)
  // One connection is what says that this process lives, which leaves one.
  const pool = Layer.provideMerge(
    Layer.mergeAll(Runner.layer, Lookout.layer(database.url())),
    poolLayer(database.url(), 2),
  )
  expect(await Effect.runPromise(Effect.provide(takes, pool))).toEqual([{ one: 1 }])
})
