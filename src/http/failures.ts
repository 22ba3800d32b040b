/** The response to a failure: the failure itself where the caller can act on it, else no more than that something went wrong. */
import { Cause } from "effect"
import { SqlError } from "effect/sql"
import { isTakenBack } from "../db/pipelining.ts"
import { sqlStateOf } from "../db/sqlState.ts"
import { type Problem, problem } from "../problem.ts"

export type Failure = Problem | SqlError.SqlError

/** SQLSTATEs of a server that is shutting down, starting up, recovering or full, and of broken connections. */
const AWAY = /^(57P0[123]|53300|08...)$/

/** Whether the database cannot be reached or used just now. */
const isUnreachable = (error: SqlError.SqlError): boolean => {
  const { _tag, isRetryable } = error.reason
  return _tag === "ConnectionError" || isRetryable || AWAY.test(sqlStateOf(error) ?? "")
}

/** What is written of an account that is fenced fails with this (migrations/0025_cells.sql). */
const MOVING = "BM001"
const ACCOUNT_MOVING = problem("account_moving", "This account is moving to another machine: try again in a moment.")

/**
 * Whether a transaction that failed so has certainly done nothing: it was given up before its end, or the database itself has said
 * why. Of one whose connection was lost nobody knows.
 */
export const hasDoneNothing = (cause: Cause.Cause<Failure>): boolean => {
  const error = cause.reasons.find(Cause.isFailReason)?.error
  if (error === undefined || !SqlError.isSqlError(error)) return true
  const state = sqlStateOf(error)
  return isTakenBack(error) || (state !== undefined && !AWAY.test(state))
}

/** The refusal of a request that failed; `unexpected` ones are ours to look at. */
export const refusalOf = (cause: Cause.Cause<Failure>): { readonly refusal: Problem; readonly unexpected: boolean } => {
  const error = cause.reasons.find(Cause.isFailReason)?.error
  if (error?._tag === "Problem") return { refusal: error, unexpected: false }
  const defect = cause.reasons.find(Cause.isDieReason)?.defect
  const sqlError = error ?? (SqlError.isSqlError(defect) ? defect : undefined)
  if (sqlStateOf(sqlError) === MOVING) return { refusal: ACCOUNT_MOVING, unexpected: false }
  if (sqlError !== undefined && isUnreachable(sqlError)) {
    return {
      refusal: problem("service_unavailable", "The service cannot reach its database just now."),
      unexpected: false,
    }
  }
  return { refusal: problem("internal_error", "Something went wrong on our side."), unexpected: true }
}
