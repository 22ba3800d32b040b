/** Fires wall-clock timers: woken by jobs, and every minute by itself. */
import { Cause, Effect, Schedule, Semaphore } from "effect"
import { MINUTE_MS } from "../time.ts"
import { type AnyFiring, sweep } from "./sweep.ts"
import { Wakeups } from "./Wakeups.ts"

/** Goes on after a failure; a worker that is being stopped stops. */
export const orElseUnlessStopped =
  <E, A2, E2, R2>(otherwise: (cause: Cause.Cause<E>) => Effect.Effect<A2, E2, R2>) =>
  <A, R>(work: Effect.Effect<A, E, R>): Effect.Effect<A | A2, E | E2, R | R2> =>
    Effect.catchCause(
      work,
      (cause): Effect.Effect<A2, E | E2, R2> =>
        Cause.hasInterruptsOnly(cause) ? Effect.failCause(cause) : otherwise(cause),
    )

/**
 * Works for as long as the scope is open. `recover` finishes what dead processes left and runs before each minute's
 * sweep, first at once: a restart goes on where the last run stopped.
 */
export const timerWorker = <R, E, R2>(firings: ReadonlyArray<AnyFiring<R>>, recover: Effect.Effect<unknown, E, R2>) =>
  Effect.gen(function* () {
    const wakeups = yield* Wakeups
    const context = yield* Effect.context<R | R2>()
    // One sweep at a time in a process: a second one would only race the first for the same rows.
    const turn = yield* Semaphore.make(1)
    const once = turn
      .withPermits(1)(sweep(firings))
      .pipe(orElseUnlessStopped((cause) => Effect.logError("timer sweep", cause)))
    yield* wakeups.onWake(() => Effect.runPromiseWith(context)(once as Effect.Effect<unknown, never, R>))
    const minute = Effect.andThen(
      recover.pipe(orElseUnlessStopped((cause) => Effect.logError("charge recovery", cause))),
      once,
    )
    yield* Effect.forkScoped(Effect.repeat(minute, Schedule.spaced(MINUTE_MS)))
  })
