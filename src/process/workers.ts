/**
 * Background work, all of one kind: it runs for as long as its scope is open, is interrupted when that closes, goes on after
 * a failure, which is logged and counted, and says how often and how long it ran. No run begins while the machine's clock is wrong.
 */
import { Cause, Effect, Metric, Queue, Semaphore } from "effect"
import { SECOND_MS } from "../base/time.ts"
import { clocksAgree } from "../base/wallClock.ts"

/** After a failure: the database is away, say. */
const AFTER_FAILURE_MS = SECOND_MS

const runs = Metric.counter("billing_worker_runs_total", {
  description: "Runs of background work, by worker and result",
  incremental: true,
})
const durations = Metric.histogram("billing_worker_run_seconds", {
  description: "How long runs of background work took, by worker",
  boundaries: [0.001, 0.005, 0.025, 0.1, 0.5, 1, 5, 30, 120],
})

/** Goes on after a failure of `work` with `otherwise`; work that is being stopped stops. */
export const orElseUnlessStopped =
  <E, A2, E2, R2>(otherwise: (cause: Cause.Cause<E>) => Effect.Effect<A2, E2, R2>) =>
  <A, R>(work: Effect.Effect<A, E, R>): Effect.Effect<A | A2, E | E2, R | R2> =>
    Effect.catchCause(
      work,
      (cause): Effect.Effect<A2, E | E2, R2> =>
        Cause.hasInterruptsOnly(cause) ? Effect.failCause(cause) : otherwise(cause),
    )

/** How soon work goes on once the clocks agree again. */
const AGREE_AGAIN_MS = 100

/** Waits while this machine's clock and the database's disagree: what is due by a wrong clock is not due (decision D10). */
export const untilClocksAgree: Effect.Effect<void> = Effect.suspend(() =>
  clocksAgree()
    ? Effect.void
    : Effect.asVoid(Effect.repeat(Effect.sleep(AGREE_AGAIN_MS), { until: () => clocksAgree() })),
)

/** One run, observed. Returns whether it succeeded. */
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

/** For how long a first run keeps the next one from beginning. */
const TURN_MS = 50
const firstRuns = Semaphore.makeUnsafe(1)

/**
 * First runs begin one after the other: else the work of a process that starts would ask the database all at once, then and each time
 * that it is repeated.
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
 * Does `work` as soon as it is its turn and, each time it is over, again after a pause: so many milliseconds, or until that effect
 * ends.
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

/** Does `work` as soon as it is its turn and each time it is woken. What wakes it while it is under way is one more run. */
export const whenWoken = <A, E, R>(name: string, wake: Queue.Dequeue<void>, work: Effect.Effect<A, E, R>) =>
  every(name, Queue.take(wake), work)
