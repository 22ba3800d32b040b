/** Tests listening to notifications: all channels on one connection, which is opened again if it is lost or silent. */
import { Effect, Layer, Logger, Queue, type Redacted, type Scope } from "effect"
import { SqlClient } from "effect/sql"
import { expect, it } from "vitest"
import { poolLayer } from "../../src/db/database.ts"
import { Listener } from "../../src/process/Listener.ts"
import { useDatabase } from "../support/database.ts"
import { LISTENING } from "../support/listening.ts"
import { startProxy } from "../support/proxy.ts"

const database = useDatabase()

/** Notifications arrive through `url`. All other queries go directly to the database. */
const run = <A, E>(
  program: Effect.Effect<A, E, Listener | SqlClient.SqlClient | Scope.Scope>,
  url: Redacted.Redacted<string> = database.url(),
) =>
  Effect.runPromise(
    Effect.scoped(program).pipe(
      Effect.provide(
        Listener.layer(url).pipe(Layer.provideMerge(poolLayer(database.url(), 1)), Layer.provide(Logger.layer([]))),
      ),
    ),
  )

/** The calls of a listener, in order. */
const record = Effect.fnUntraced(function* (channel: string) {
  const queue = yield* Queue.unbounded<string>()
  yield* (yield* Listener).listen(channel, {
    notice: (payload) => Queue.offerUnsafe(queue, payload),
    began: () => Queue.offerUnsafe(queue, "began"),
    ended: () => Queue.offerUnsafe(queue, "ended"),
  })
  return Queue.take(queue)
})

const notify = (channel: string, payload: string) =>
  Effect.flatMap(SqlClient.SqlClient, (sql) => sql`SELECT pg_notify(${channel}, ${payload})`)

it("delivers each channel to its listener, on one connection, also for channels added later", async () => {
  const received = await run(
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const first = yield* record("first_channel")
      expect(yield* first).toBe("began")
      const later = yield* record("later_channel")
      expect(yield* later).toBe("began")
      yield* notify("later_channel", "1")
      yield* notify("first_channel", "2")
      yield* notify("nobodys_channel", "3")
      yield* notify("later_channel", "4")
      const sessions = yield* sql`SELECT pid FROM pg_stat_activity WHERE ${sql.literal(LISTENING)}`
      return [yield* first, yield* later, yield* later, sessions.length]
    }),
  )
  expect(received).toEqual(["2", "1", "4", 1])
})

it("listens again after the connection was lost, and reports the gap", async () => {
  await run(
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const [one, other] = [yield* record("one_channel"), yield* record("other_channel")]
      expect([yield* one, yield* other]).toEqual(["began", "began"])
      yield* sql`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE ${sql.literal(LISTENING)}`
      for (const next of [one, other]) expect([yield* next, yield* next]).toEqual(["ended", "began"])
      yield* notify("one_channel", "1")
      yield* notify("other_channel", "2")
      expect([yield* one, yield* other]).toEqual(["1", "2"])
    }),
  )
})

it("listens again after the connection died silently", async () => {
  const proxy = await startProxy(database.url())
  await run(
    Effect.gen(function* () {
      const next = yield* record("one_channel")
      expect(yield* next).toBe("began")
      yield* Effect.sync(proxy.hush)
      expect(yield* next).toBe("ended")
      yield* Effect.sync(proxy.mend)
      expect(yield* next).toBe("began")
      yield* notify("one_channel", "1")
      expect(yield* next).toBe("1")
    }),
    proxy.url,
  ).finally(proxy.close)
})

it("keeps one listener's failure from the others", async () => {
  await run(
    Effect.gen(function* () {
      const fail = () => {
        throw new Error("a defect")
      }
      yield* (yield* Listener).listen("one_channel", { notice: fail, began: fail, ended: fail })
      const other = yield* record("other_channel")
      expect(yield* other).toBe("began")
      yield* notify("one_channel", "1")
      yield* notify("other_channel", "2")
      expect(yield* other).toBe("2")
    }),
  )
})

it("stops listening on a channel without listeners", async () => {
  await run(
    Effect.gen(function* () {
      const stays = yield* record("one_channel")
      expect(yield* stays).toBe("began")
      const gone = yield* Effect.scoped(Effect.tap(record("one_channel"), (next) => next))
      yield* notify("one_channel", "1")
      expect(yield* stays).toBe("1")
      const other = yield* Effect.raceFirst(gone, Effect.as(Effect.yieldNow, "nothing"))
      expect(other).toBe("nothing")
    }),
  )
})
