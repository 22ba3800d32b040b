/**
 * The watchdog closes the connections to a database that has not answered for some seconds: a database whose machine is gone or suspended
 * closes no connection. All waiting work then fails as after a broken connection, and is retried.
 */
import { PgConnection } from "@effect/sql-pg"
import { Effect, type Redacted, Schedule } from "effect"
import { SECOND_MS } from "../base/time.ts"
import { poolConfig } from "./poolConfig.ts"
import { socketsTo } from "./sockets.ts"

const PROBE_EVERY_MS = 2 * SECOND_MS
const SILENT_AFTER_S = 8

/** Closes the connections to the database at `url` when it is silent, while the scope is open. */
export const watchdog = Effect.fnUntraced(function* (url: Redacted.Redacted<string>) {
  // Sleeps second by second: a process that was itself suspended then first reads the answers that arrived meanwhile.
  const silence = Effect.repeat(Effect.sleep(SECOND_MS), { times: SILENT_AFTER_S - 1 })
  const close = Effect.logWarning(
    `the database has not answered for ${SILENT_AFTER_S} s: its connections are closed`,
  ).pipe(Effect.andThen(Effect.sync(() => socketsTo(url).closeAll())))
  // Uses a separate connection, outside all pools: in a pool it could wait although the database answers.
  const probing = Effect.flatMap(PgConnection.make(poolConfig(url, 1, {})), (connection) =>
    Effect.raceFirst(connection.query("SELECT 1", []), Effect.andThen(silence, close)).pipe(
      Effect.repeat(Schedule.spaced(PROBE_EVERY_MS)),
    ),
  )
  // A database that refuses or cannot be reached is not silent: its callers get the error.
  yield* Effect.forkScoped(Effect.ignore(Effect.scoped(probing)).pipe(Effect.repeat(Schedule.spaced(PROBE_EVERY_MS))))
})
