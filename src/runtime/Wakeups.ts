/**
 * Wakeups are jobs that wake the sweep of due timers. They are inserted in the transaction that sets the timers, one per second, and only
 * for the next minutes: sweeps find later timers by looking ahead (timerWorker.ts), so that a million subscriptions with different due
 * instants need no jobs. A lost or duplicate job is harmless.
 */
import type { Redacted } from "effect"
import { Context, Effect, Layer, Redacted as Secret } from "effect"
import { PgBoss } from "pg-boss"
import { MINUTE_MS, SECOND_MS } from "../base/time.ts"
import { currentTime } from "../base/wallClock.ts"
import { columnParameter } from "../db/rows.ts"
import type { UnitOfWork } from "../db/UnitOfWork.ts"

export const TIMERS_DUE = "timers.due"
/** pg-boss's own pool: it polls one queue and does its maintenance. */
const BOSS_CONNECTIONS = 2
const POLL_SECONDS = 0.5
/** Twice the look-ahead of a sweep: a sweep that takes a minute is still in time. */
const NEAR_MS = 2 * MINUTE_MS

/** The seconds that need a wake-up for these instants; all past instants share one. */
const nearSeconds = (instants: ReadonlyArray<number>, now: number): ReadonlyArray<number> => {
  const near = instants.filter((at) => at <= now + NEAR_MS)
  return [...new Set(near.map((at) => (at <= now ? Math.floor(now / SECOND_MS) : Math.ceil(at / SECOND_MS))))]
}

/** Wakes the sweep at these instants (ms since the epoch, wall clock), after the running transaction commits. */
export const wakeAt = (unit: UnitOfWork, instants: ReadonlyArray<number>): void => {
  const seconds = nearSeconds(instants, currentTime())
  if (seconds.length === 0) return
  const starts = seconds.map((second) => ({ at: second * SECOND_MS }))
  unit.call(unit.sql`add_wakeups(${TIMERS_DUE}, ${columnParameter(starts, "at", "timestamptz")})`)
}

export class Wakeups extends Context.Service<
  Wakeups,
  {
    /** Calls `notice` whenever a job is due, for as long as the layer lives. */
    readonly onWake: (notice: () => void) => Effect.Effect<void>
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
        // Requests and sweeps report an unavailable database themselves.
        const context = yield* Effect.context<never>()
        boss.on("error", (error) => void Effect.runForkWith(context)(Effect.logDebug("pg-boss", error)))
        yield* Effect.promise(() => boss.start())
        yield* Effect.addFinalizer(() =>
          Effect.tryPromise(() => boss.stop({ graceful: false, close: true })).pipe(
            Effect.ignore({ log: "Warn", message: "pg-boss did not stop" }),
          ),
        )
        // A job is only an alarm: one try, deleted within the hour.
        yield* Effect.promise(() =>
          boss.createQueue(TIMERS_DUE, { retryLimit: 0, deleteAfterSeconds: 3600, expireInSeconds: 600 }),
        )
        return Wakeups.of({
          onWake: (notice) =>
            Effect.promise(() =>
              boss.work(TIMERS_DUE, { pollingIntervalSeconds: POLL_SECONDS, batchSize: 100 }, async () => notice()),
            ).pipe(Effect.asVoid),
        })
      }),
    )
}
