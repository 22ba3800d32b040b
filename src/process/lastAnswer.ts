/** An answer that is asked for by many at once and that holds for a while: one question for all of them. */
import { Effect } from "effect"

/**
 * Asks `question` for all who want its answer within `ageMs` of the last time. It has a fiber of its own: a caller that goes away takes
 * nothing from the others. An instant that lies ahead is of another machine's monotonic clock, as one long past is.
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
