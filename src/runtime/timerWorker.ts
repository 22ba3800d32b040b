/** Fires wall-clock timers: woken by jobs, and every minute in case one was lost. */
import { Effect, Semaphore } from "effect"
import type { SqlClient } from "effect/sql"
import { every } from "../process/workers.ts"
import { MINUTE_MS } from "../time.ts"
import { sweep, type TimerHandler } from "./fire.ts"
import { Wakeups } from "./Wakeups.ts"

/** Fires wall-clock timers for as long as the scope is open. */
export const timerWorker = Effect.fnUntraced(function* <R>(handlers: ReadonlyArray<TimerHandler<R>>) {
  const wakeups = yield* Wakeups
  const context = yield* Effect.context<R | SqlClient.SqlClient>()
  // One sweep at a time in a process: a second one would only race the first for the same rows.
  const turn = yield* Semaphore.make(1)
  const once = turn.withPermits(1)(sweep(handlers))
  const woken = once.pipe(Effect.catchCause((cause) => Effect.logError("timer sweep", cause)))
  yield* wakeups.onWake(() => Effect.runPromiseWith(context)(woken))
  yield* every("timer sweep", MINUTE_MS, once)
})
