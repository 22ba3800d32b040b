/** Tests reading sessions that are assigned to a request that has already been cancelled. */
import { expect, it } from "@effect/vitest"
import { Deferred, Effect, Fiber, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { poolLayer } from "../../src/db/database.ts"
import { TenantDatabase } from "../../src/db/TenantDatabase.ts"
import { useDatabase } from "../support/database.ts"

const database = useDatabase()

/** The maximum number of requests on one session. */
const SESSIONS = 8

it.live("show each next request its own rows", () => {
  const tenant = (n: number) => ({ account_id: `acct_${n}`, livemode: false })
  const looking = Effect.gen(function* () {
    const { reading } = yield* TenantDatabase
    const free = yield* Deferred.make<void>()
    const started = yield* Effect.forEach(Array.from({ length: SESSIONS }).keys(), () => Deferred.make<void>())
    for (const [n, began] of started.entries())
      yield* Effect.forkChild(
        reading(tenant(n), Effect.andThen(Deferred.succeed(began, undefined), Deferred.await(free))),
      )
    for (const began of started) yield* Deferred.await(began)
    // It waits for a session, and is cancelled.
    const gone = yield* Effect.forkChild(reading(tenant(SESSIONS), Effect.void), { startImmediately: true })
    const going = yield* Effect.forkChild(Fiber.interrupt(gone), { startImmediately: true })
    yield* Deferred.succeed(free, undefined)
    yield* Fiber.join(going)
    const shown = Effect.flatMap(
      SqlClient.SqlClient,
      (sql) => sql<{ account: string }>`SELECT current_setting('billing.account_id') AS account`,
    )
    expect(yield* Effect.timeout(reading(tenant(SESSIONS), shown), "30 seconds")).toEqual([
      { account: `acct_${SESSIONS}` },
    ])
  })
  const services = Layer.provideMerge(TenantDatabase.layer(database.url()), poolLayer(database.url(), 1))
  return Effect.provide(looking, services)
})
