/**
 * A database whose machine is gone, or stands still, closes no connection: whatever asks it would wait for as long as that lasts. Where it
 * has not answered for some seconds, the connections are closed, so that all that waits fails as by a broken line, and is begun again.
 */
import { PgClient } from "@effect/sql-pg"
import { Effect, type Redacted, Schedule } from "effect"
import { Reactivity } from "effect/reactivity"
import { SECOND_MS } from "../time.ts"
import { poolConfig } from "./database.ts"
import { socketsTo } from "./sockets.ts"

const ASK_EVERY_MS = 2 * SECOND_MS
const SILENT_AFTER_S = 8

/** Closes the connections to the database at `url` whenever it is silent, for as long as the scope is open. */
export const closeWhenSilent = Effect.fnUntraced(function* (url: Redacted.Redacted<string>) {
  const sql = yield* Effect.provide(PgClient.make(poolConfig(url, 1, {})), Reactivity.layer)
  // Second by second: a process that stood still itself first hears what was answered meanwhile.
  const silence = Effect.repeat(Effect.sleep(SECOND_MS), { times: SILENT_AFTER_S - 1 })
  const close = Effect.logWarning(
    `the database has not answered for ${SILENT_AFTER_S} s: its connections are closed`,
  ).pipe(Effect.andThen(Effect.sync(() => socketsTo(url).closeAll())))
  // One that refuses is not silent: whoever asks it is told.
  const asking = Effect.exit(sql`SELECT 1`)
  yield* Effect.forkScoped(
    Effect.repeat(Effect.raceFirst(asking, Effect.andThen(silence, close)), Schedule.spaced(ASK_EVERY_MS)),
  )
})
