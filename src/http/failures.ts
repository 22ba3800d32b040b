/** Maps failures to refusals: a failure that the caller can act on as it is, any other to a general refusal. */
import { Cause, Effect } from "effect"
import { SqlError } from "effect/sql"
import { type Problem, problem } from "../base/problem.ts"
import { ACCOUNT_MOVING, isFenced } from "../db/tenant.ts"
import { isAway, isUnwritable } from "../postgres/errors.ts"
import { isOutcomeUnknown } from "../postgres/rollback.ts"

export type Failure = Problem | SqlError.SqlError

/** The refusal of a write that may have been done (decision N4). */
export const OUTCOME_UNKNOWN = problem(
  "outcome_unknown",
  "The connection to the database was lost while this request was being written: it may have been done. Look for the object that it makes, or send it again with the same Idempotency-Key.",
)

/** Whether the database cannot be reached, used or written at the moment. */
const isUnusable = (error: SqlError.SqlError): boolean => {
  const { _tag, isRetryable } = error.reason
  return _tag === "ConnectionError" || isRetryable || isAway(error) || isUnwritable(error)
}

/** Returns the refusal of a failed request, and whether it is `unexpected` and must be logged. A request that only `reads` can be retried safely (decision N4). */
export const refusalOf = (
  cause: Cause.Cause<Failure>,
  reads = false,
): { readonly refusal: Problem; readonly unexpected: boolean } => {
  const error = cause.reasons.find(Cause.isFailReason)?.error
  if (error?._tag === "Problem") return { refusal: error, unexpected: false }
  const defect = cause.reasons.find(Cause.isDieReason)?.defect
  const sqlError = error ?? (SqlError.isSqlError(defect) ? defect : undefined)
  if (isFenced(sqlError)) return { refusal: ACCOUNT_MOVING, unexpected: false }
  const isLost = sqlError !== undefined && isOutcomeUnknown(sqlError)
  if (isLost && !reads) return { refusal: OUTCOME_UNKNOWN, unexpected: false }
  if (isLost || (sqlError !== undefined && isUnusable(sqlError))) {
    return {
      refusal: problem("service_unavailable", "The service cannot reach its database just now."),
      unexpected: isUnwritable(sqlError),
    }
  }
  return { refusal: problem("internal_error", "Something went wrong on our side."), unexpected: true }
}

/**
 * Runs the second phase of a write. If it fails, the response is the object that the first phase `made`: a worker finishes the rest, and a
 * caller that repeats a refused request would do it twice (decision N4).
 */
export const orMade = <A, B, R>(work: Effect.Effect<A, Failure, R>, made: () => B): Effect.Effect<A | B, never, R> =>
  Effect.catchCause(work, (cause) => {
    const log = refusalOf(cause).unexpected ? Effect.logError : Effect.logWarning
    return Effect.map(log("a write was answered before its second phase was done", cause), made)
  })
