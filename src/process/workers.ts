/**
 * Workers run background work while their scope is open. Closing the scope interrupts them. After a failure, which is logged and counted,
 * they continue. They measure the number and duration of runs. No run starts while the machine's clock is wrong.
 */
import { Cause, Effect, Metric, Queue, Semaphore } from "effect"
import { SECOND_MS } from "../base/time.ts"
import { clocksAgree } from "../base/wallClock.ts"

/** The pause after a failure: the database may be unavailable. */
const AFTER_FAILURE_MS = SECOND_MS

const runs = Metric.counter("billing_worker_runs_total", {
  description: "Runs of background work, by worker and result",
  incremental: true,
})
const durations = Metric.histogram("billing_worker_run_seconds", {
  description: "How long runs of background work took, by worker",
  boundaries: [0.001, 0.005, 0.025, 0.1, 0.5, 1, 5, 30, 120],
})

/** Handles a failure of `work` with `otherwise`; an interruption still stops it. */
export const orElseUnlessStopped =
  <E, A2, E2, R2>(otherwise: (cause: Cause.Cause<E>) => Effect.Effect<A2, E2, R2>) =>
  <A, R>(work: Effect.Effect<A, E, R>): Effect.Effect<A | A2, E | E2, R | R2> =>
    Effect.catchCause(
      work,
      (cause): Effect.Effect<A2, E | E2, R2> =>
        Cause.hasInterruptsOnly(cause) ? Effect.failCause(cause) : otherwise(cause),
    )

/** How often to check whether the clocks agree again. */
const AGREE_AGAIN_MS = 100

/** Waits while this machine's clock and the database's disagree: a wrong clock must not decide what is due (decision D10). */
export const untilClocksAgree: Effect.Effect<void> = Effect.suspend(() =>
  clocksAgree()
    ? Effect.void
    : Effect.asVoid(Effect.repeat(Effect.sleep(AGREE_AGAIN_MS), { until: () => clocksAgree() })),
)

/** Runs work once and measures it. Returns whether it succeeded. */
const observed = (name: string) => {
  const succeeded = Metric.withAttributes(runs, { worker: name, result: "succeeded" })
  const failed = Metric.withAttributes(runs, { worker: name, result: "failed" })
  const took = Metric.withAttributes(durations, { worker: name })
  return <A, E, R>(work: Effect.Effect<A, E, R>) =>
    Effect.suspend(() => {
      const startedAt = performance.now()
      return work.pipe(
        Effect.flatMap(() => Effect.as(Metric.update(succeeded, 1), true)),
        orElseUnlessStopped((cause) =>
          Effect.logError(name, cause).pipe(Effect.andThen(Metric.update(failed, 1)), Effect.as(false)),
        ),
        Effect.tap(() => Metric.update(took, (performance.now() - startedAt) / SECOND_MS)),
      )
    })
}

/** How long a first run at most delays the start of the next one. */
const TURN_MS = 50
const firstRuns = Semaphore.makeUnsafe(1)

/**
 * Starts first runs one after the other: otherwise all workers of a new process would query the database at the same time, now and at each
 * repetition.
 */
const inTurn = <A, E, R>(first: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.uninterruptibleMask((restore) =>
    Effect.gen(function* () {
      yield* restore(firstRuns.take(1))
      const leave = yield* Effect.cached(firstRuns.release(1))
      yield* Effect.forkDetach(Effect.delay(leave, TURN_MS))
      return yield* Effect.ensuring(restore(first), leave)
    }),
  )

/**
 * Runs `work` in its turn and, after each run, again after a pause: a number of milliseconds, or until an effect ends.
 */
export const every = <A, E, R, B, R2 = never>(
  name: string,
  pause: number | Effect.Effect<B, never, R2>,
  work: Effect.Effect<A, E, R>,
) => {
  const pausing = typeof pause === "number" ? Effect.sleep(pause) : Effect.asVoid(pause)
  const afterFailure = Effect.all([pausing, Effect.sleep(AFTER_FAILURE_MS)], { concurrency: 2 })
  const wait = (ok: boolean): Effect.Effect<unknown, never, R2> => (ok ? pausing : afterFailure)
  const run = Effect.andThen(untilClocksAgree, observed(name)(work))
  const again = Effect.flatMap(run, wait)
  return Effect.forkScoped(Effect.andThen(Effect.flatMap(inTurn(run), wait), Effect.forever(again)))
}

/** Runs `work` in its turn and at each wake-up. Wake-ups during a run cause one more run. */
export const whenWoken = <A, E, R>(name: string, wake: Queue.Dequeue<void>, work: Effect.Effect<A, E, R>) =>
  every(name, Queue.take(wake), work)
