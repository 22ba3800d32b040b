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

/** Does `work` now and every minute, for as long as the scope is open. */
export const everyMinute = <E, R>(name: string, work: Effect.Effect<unknown, E, R>) =>
  Effect.forkScoped(
    Effect.repeat(work.pipe(orElseUnlessStopped((cause) => Effect.logError(name, cause))), Schedule.spaced(MINUTE_MS)),
  )

/** Finishes what dead processes, and dropped work of this one, left behind: at once after a start, then every minute. */
export const recoveryWorker = <E, R>(recover: Effect.Effect<unknown, E, R>) => everyMinute("recovery", recover)

/** Fires wall-clock timers for as long as the scope is open. */
export const timerWorker = <R>(firings: ReadonlyArray<AnyFiring<R>>) =>
  Effect.gen(function* () {
    const wakeups = yield* Wakeups
    const context = yield* Effect.context<R>()
    // One sweep at a time in a process: a second one would only race the first for the same rows.
    const turn = yield* Semaphore.make(1)
    const once = turn.withPermits(1)(sweep(firings))
    const woken = once.pipe(Effect.catchCause((cause) => Effect.logError("timer sweep", cause)))
    yield* wakeups.onWake(() => Effect.runPromiseWith(context)(woken as Effect.Effect<unknown, never, R>))
    yield* everyMinute("timer sweep", once)
  })
