/** The response to a failure: the failure itself where the caller can act on it, else no more than that something went wrong. */
import { Cause } from "effect"
import { SqlError } from "effect/sql"
import { isAway, isUnwritable } from "../db/sqlState.ts"
import { isOutcomeUnknown } from "../db/takenBack.ts"
import { ACCOUNT_MOVING, isFenced } from "../db/tenant.ts"
import { type Problem, problem } from "../problem.ts"

export type Failure = Problem | SqlError.SqlError

/** The refusal of a write that may have been done (decision N4). */
export const OUTCOME_UNKNOWN = problem(
  "outcome_unknown",
  "The database was lost while this request was being written: it may have been done. Look for what it makes, or send it again with the same Idempotency-Key.",
)

/** Whether the database cannot be reached, used or written just now. */
const isUnusable = (error: SqlError.SqlError): boolean => {
  const { _tag, isRetryable } = error.reason
  return _tag === "ConnectionError" || isRetryable || isAway(error) || isUnwritable(error)
}

/** The refusal of a request that failed; `unexpected` ones are ours to look at. */
export const refusalOf = (cause: Cause.Cause<Failure>): { readonly refusal: Problem; readonly unexpected: boolean } => {
  const error = cause.reasons.find(Cause.isFailReason)?.error
  if (error?._tag === "Problem") return { refusal: error, unexpected: false }
  const defect = cause.reasons.find(Cause.isDieReason)?.defect
  const sqlError = error ?? (SqlError.isSqlError(defect) ? defect : undefined)
  if (isFenced(sqlError)) return { refusal: ACCOUNT_MOVING, unexpected: false }
  if (sqlError !== undefined && isOutcomeUnknown(sqlError)) return { refusal: OUTCOME_UNKNOWN, unexpected: false }
  if (sqlError !== undefined && isUnusable(sqlError)) {
    return {
      refusal: problem("service_unavailable", "The service cannot reach its database just now."),
      unexpected: isUnwritable(sqlError),
    }
  }
  return { refusal: problem("internal_error", "Something went wrong on our side."), unexpected: true }
}
