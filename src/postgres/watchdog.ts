/**
 * A database whose machine is gone, or stands still, closes no connection: whatever asks it would wait for as long as that lasts. Where it
 * has not answered for some seconds, the connections are closed, so that all that waits fails as by a broken line, and is begun again.
 */
import { PgConnection } from "@effect/sql-pg"
import { Effect, type Redacted, Schedule } from "effect"
import { SECOND_MS } from "../base/time.ts"
import { poolConfig } from "./poolConfig.ts"
import { socketsTo } from "./sockets.ts"

const ASK_EVERY_MS = 2 * SECOND_MS
const SILENT_AFTER_S = 8

/** Closes the connections to the database at `url` whenever it is silent, for as long as the scope is open. */
export const watchdog = Effect.fnUntraced(function* (url: Redacted.Redacted<string>) {
  // Second by second: a process that stood still itself first hears what was answered meanwhile.
  const silence = Effect.repeat(Effect.sleep(SECOND_MS), { times: SILENT_AFTER_S - 1 })
  const close = Effect.logWarning(
    `the database has not answered for ${SILENT_AFTER_S} s: its connections are closed`,
  ).pipe(Effect.andThen(Effect.sync(() => socketsTo(url).closeAll())))
  // By a connection of its own, of no pool: whoever waited for one of those would hear nothing of a database that answers.
  const asking = Effect.flatMap(PgConnection.make(poolConfig(url, 1, {})), (connection) =>
    Effect.raceFirst(connection.query("SELECT 1", []), Effect.andThen(silence, close)).pipe(
      Effect.repeat(Schedule.spaced(ASK_EVERY_MS)),
    ),
  )
  // One that refuses, or is not to be reached, is not silent: whoever asks it is told.
  yield* Effect.forkScoped(Effect.ignore(Effect.scoped(asking)).pipe(Effect.repeat(Schedule.spaced(ASK_EVERY_MS))))
})
