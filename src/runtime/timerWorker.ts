/**
 * Fires wall-clock timers. A sweep looks ahead: the next sweep runs when the next timer is due, at most a minute later. A timer set after that
 * look and due before the next sweep has a job, which wakes a sweep of any process (Wakeups.ts).
 */
import { PgTypes } from "@effect/sql-pg"
import { Effect, Queue } from "effect"
import { SqlClient } from "effect/sql"
import { MINUTE_MS, SECOND_MS } from "../base/time.ts"
import { currentTime } from "../base/wallClock.ts"
import { every } from "../process/workers.ts"
import { sweep, type TimerHandler } from "./fire.ts"
import type { ActorKind } from "./lifecycle.ts"
import { Wakeups } from "./Wakeups.ts"

/** Reads when the next timer of these kinds is due that was not due at `since`; undefined if there is none. */
export const nextDue = Effect.fnUntraced(function* (kinds: ReadonlyArray<ActorKind>, since: number) {
  const sql = yield* SqlClient.SqlClient
  const [next] = yield* sql<{ due_at: number }>`
    SELECT n.due_at FROM unnest(${kinds}::text[]) AS k (kind) CROSS JOIN LATERAL (
      SELECT due_at FROM timer
      WHERE actor_kind = k.kind AND test_clock_id IS NULL AND due_at > ${PgTypes.timestamptz(since)} ORDER BY due_at LIMIT 1
    ) n ORDER BY n.due_at LIMIT 1`
  return next?.due_at
})

/** How long to pause from `now` until the next sweep: to the end of the second in which the next timer is due, at most a minute. */
export const pauseMs = (due: number | undefined, now: number): number =>
  due === undefined ? MINUTE_MS : Math.min(Math.max(Math.ceil(due / SECOND_MS) * SECOND_MS - now, 0), MINUTE_MS)

/** Fires wall-clock timers for as long as the scope is open. */
export const timerWorker = Effect.fnUntraced(function* <R>(handlers: ReadonlyArray<TimerHandler<R>>) {
  const kinds = handlers.map(({ kind }) => kind)
  // All wake-ups during a sweep cause one more sweep.
  const wake = yield* Queue.sliding<void>(1)
  yield* (yield* Wakeups).onWake(() => void Queue.offerUnsafe(wake, undefined))
  let due: number | undefined
  const ahead = Effect.gen(function* () {
    const since = currentTime()
    yield* sweep(handlers)
    due = yield* nextDue(kinds, since)
  })
  const pause = Effect.suspend(() => Effect.raceFirst(Effect.sleep(pauseMs(due, currentTime())), Queue.take(wake)))
  yield* every("timer sweep", pause, ahead)
})
