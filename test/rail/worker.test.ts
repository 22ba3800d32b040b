/** Tests the worker of rail calls beside the other workers of its process. */
import { PgTypes } from "@effect/sql-pg"
import { Effect, Layer, Logger } from "effect"
import { SqlClient } from "effect/sql"
import { expect, it } from "vitest"
import { poolLayer } from "../../src/db/database.ts"
import { createAccount } from "../../src/merchants/account/accounts.ts"
import { ProcessLease } from "../../src/process/ProcessLease.ts"
import { QueuePoller } from "../../src/process/QueuePoller.ts"
import { unclear } from "../../src/rails/rail/http.ts"
import { callLease } from "../../src/rails/rail_call/queue.ts"
import { type CallHandler, railCallWorker } from "../../src/rails/rail_call/worker.ts"
import { useDatabase } from "../support/database.ts"
import { eventually } from "../support/story.ts"

const database = useDatabase()

/** A worker's pool: one connection shows that this process is alive, which leaves one. */
const pool = () =>
  Layer.provideMerge(
    Layer.mergeAll(ProcessLease.layer, QueuePoller.layer(database.url())),
    poolLayer(database.url(), 2),
  )

it("uses no connection while it waits for its turn to take calls", async () => {
  const idle = {
    kinds: ["charge" as const],
    prepare: () => Effect.succeed([]),
    write: () => Effect.die("no call"),
    askAgain: () => Effect.void,
  }
  const takes = Effect.gen(function* () {
    const [sql, runner] = [yield* SqlClient.SqlClient, yield* ProcessLease]
    const { account } = yield* createAccount({ businessName: "Fit Lagos" })
    yield* sql`INSERT INTO rail_call (account_id, livemode, id, rail, kind, rank) VALUES (${account.id}, true, 'chg_1', 'paystack', 'charge', 0)`
    yield* railCallWorker([idle])
    // The worker polls several times, as a call is queued. If it kept a connection, the second statement would wait.
    return yield* runner.takeOneAtATime(callLease.name)(Effect.andThen(sql`SELECT pg_sleep(0.4)`, sql`SELECT 1 AS one`))
  }).pipe(Effect.scoped)
  expect(await Effect.runPromise(Effect.provide(takes, pool()))).toEqual([{ one: 1 }])
})

it("leaves a call unchanged that cannot be prepared, and makes the others", async () => {
  const SENT_AT = Date.UTC(2026, 0, 31, 12)
  const prepared = new Map<string, number | null>()
  const failed: Array<number | null> = []
  const caller: CallHandler<never> = {
    kinds: ["charge"],
    prepare: (calls) => {
      const broken = calls.find(({ id }) => id === "chg_broken")
      if (broken !== undefined) {
        if (calls.length === 1) failed.push(broken.was_sent_at)
        return Effect.die("the database has gone away")
      }
      for (const call of calls) prepared.set(call.id, call.was_sent_at)
      return Effect.succeed(calls.map((call) => ({ call, talk: Effect.succeed(unclear("HTTP 500", true)) })))
    },
    write: () => Effect.succeed({ again: [], later: [], after: Effect.void }),
    askAgain: () => Effect.void,
  }
  const left = Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const { account } = yield* createAccount({ businessName: "Fit Ibadan" })
    // Two of them were queued by a process that died.
    for (const [id, sentAt] of [
      ["chg_new", null],
      ["chg_sent", SENT_AT],
      ["chg_broken", SENT_AT],
    ] as const)
      yield* sql`
        INSERT INTO rail_call (account_id, livemode, id, rail, kind, rank, runner, sent_at)
        VALUES (${account.id}, true, ${id}, 'flutterwave', 'charge', 0, ${sentAt === null ? null : 424_242}, ${PgTypes.timestamptz(sentAt)})`
    yield* railCallWorker([caller])
    yield* Effect.promise(() => eventually(async () => (failed.length > 1 ? true : undefined)))
    return yield* sql`SELECT runner, sent_at FROM rail_call WHERE id = 'chg_broken'`
  }).pipe(Effect.scoped)
  expect(await Effect.runPromise(Effect.provide(left, Layer.merge(pool(), Logger.layer([]))))).toEqual([
    { runner: null, sent_at: SENT_AT },
  ])
  expect([prepared.get("chg_new"), prepared.get("chg_sent")]).toEqual([null, SENT_AT])
  expect(new Set(failed)).toEqual(new Set([SENT_AT]))
})
