/**
 * Jobs that wake the sweep of due timers, inserted in the transaction that sets the timers and folded per second:
 * a million subscriptions due at midnight are one job. A lost or doubled job is harmless: the sweep looks at the rows,
 * and runs every minute anyway.
 */

import type { Redacted } from "effect"
import { Context, Effect, Layer, Redacted as Secret } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import { PgBoss } from "pg-boss"
import { SECOND_MS } from "../time.ts"

export const TIMERS_DUE = "timers.due"
/** pg-boss's own pool: it polls one queue and keeps its house. */
const BOSS_CONNECTIONS = 2
const POLL_SECONDS = 0.5

/** Requests insert jobs in their own transactions, in the role that is theirs (migrations/0010_isolation.sql). */
const GRANT = `DO $$ BEGIN
  IF NOT has_table_privilege('billing_request', 'pgboss.job', 'INSERT') THEN
    PERFORM pg_advisory_xact_lock(7301005);
    GRANT USAGE ON SCHEMA pgboss TO billing_request;
    GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA pgboss TO billing_request;
    GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA pgboss TO billing_request;
  END IF;
END $$`

export class Wakeups extends Context.Service<
  Wakeups,
  {
    /** Wakes the sweep at these instants (ms since the epoch, wall clock). Runs in the caller's transaction. */
    readonly at: (instants: ReadonlyArray<number>) => Effect.Effect<void, SqlError.SqlError, SqlClient.SqlClient>
    /** Calls `sweep` whenever a job is due, until the scope closes. */
    readonly onWake: (sweep: () => Promise<unknown>) => Effect.Effect<void>
  }
>()("billing/runtime/Wakeups") {
  static readonly layer = (url: Redacted.Redacted<string>): Layer.Layer<Wakeups> =>
    Layer.effect(
      Wakeups,
      Effect.gen(function* () {
        const boss = new PgBoss({
          connectionString: Secret.value(url),
          max: BOSS_CONNECTIONS,
          application_name: "recurring-billing jobs",
        })
        // The database being away shows in the requests and sweeps that need it.
        const context = yield* Effect.context<never>()
        boss.on("error", (error) => void Effect.runForkWith(context)(Effect.logDebug("pg-boss", error)))
        yield* Effect.promise(() => boss.start())
        yield* Effect.addFinalizer(() =>
          Effect.tryPromise(() => boss.stop({ graceful: false, close: true })).pipe(
            Effect.ignore({ log: "Warn", message: "pg-boss did not stop" }),
          ),
        )
        // A job is nothing but an alarm: one try, gone within the hour.
        yield* Effect.promise(() =>
          boss.createQueue(TIMERS_DUE, { retryLimit: 0, deleteAfterSeconds: 3600, expireInSeconds: 600 }),
        )
        yield* Effect.promise(() => boss.getDb().executeSql(GRANT))
        return Wakeups.of({
          at: (instants) =>
            Effect.gen(function* () {
              const seconds = [...new Set(instants.map((at) => Math.ceil(at / SECOND_MS)))]
              if (seconds.length === 0) return
              const sql = yield* SqlClient.SqlClient
              const starts = seconds.map((second) => new Date(second * SECOND_MS))
              const standing = yield* sql<{ start_after: number }>`
                SELECT DISTINCT start_after FROM pgboss.job
                WHERE name = ${TIMERS_DUE} AND state = 'created' AND start_after = ANY(${starts}::timestamptz[])`
              const known = new Set(standing.map((job) => job.start_after))
              const jobs = starts.filter((start) => !known.has(start.getTime())).map((startAfter) => ({ startAfter }))
              if (jobs.length === 0) return
              const context = yield* Effect.context<never>()
              const db = {
                executeSql: (text: string, values: Array<unknown> = []) =>
                  Effect.runPromiseWith(context)(
                    Effect.map(sql.unsafe<object>(text, values), (rows) => ({ rows: [...rows] })),
                  ),
              }
              yield* Effect.promise(() => boss.insert(TIMERS_DUE, jobs, { db }))
            }),
          onWake: (sweep) =>
            Effect.promise(() =>
              boss.work(
                TIMERS_DUE,
                { pollingIntervalSeconds: POLL_SECONDS, batchSize: 100 },
                async () => void (await sweep()),
              ),
            ).pipe(Effect.asVoid),
        })
      }),
    )
}
