/** A cached answer: callers at the same time share one question. */
import { Effect } from "effect"

/**
 * Runs `question` for all callers that want an answer at most `ageMs` old. It runs in its own fiber: a caller that is interrupted does not
 * affect the others. An instant in the future is from another machine's monotonic clock, and counts as too old.
 */
export const lastAnswer = <A, R>(ageMs: number, question: Effect.Effect<A, never, R>) =>
  Effect.map(Effect.context<R>(), (context) => {
    let askedAt = Number.NEGATIVE_INFINITY
    let answer: Promise<A> | undefined
    return Effect.promise(() => {
      const now = performance.now()
      if (answer === undefined || Math.abs(now - askedAt) >= ageMs) {
        askedAt = now
        answer = Effect.runPromiseWith(context)(question)
      }
      return answer
    })
  })
