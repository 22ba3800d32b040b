/** The outcome of transactions that failed: rolled back, or unknown. */
import { Cause } from "effect"
import { SqlError } from "effect/sql"
import { isAway, sqlStateOf } from "./errors.ts"

export const unknownError = (operation: string, cause: unknown) =>
  new SqlError.SqlError({ reason: new SqlError.UnknownError({ cause, operation }) })

/** The operation in the error of a rolled back transaction. */
const ROLLED_BACK = "roll back"

export const rolledBack = (cause: unknown) => unknownError(ROLLED_BACK, cause)

/** The operation in the error of a transaction whose connection was lost during the commit. */
const LOST_AT_COMMIT = "commit"

/** Marks an error at the end of a transaction if it is unknown whether the transaction was committed. */
export const orOutcomeUnknown = (error: SqlError.SqlError): SqlError.SqlError =>
  isRolledBack(error) || (sqlStateOf(error) !== undefined && !isAway(error))
    ? error
    : unknownError(LOST_AT_COMMIT, error)

/** Whether it is unknown if the failed transaction was committed. */
export const isOutcomeUnknown = ({ reason }: SqlError.SqlError): boolean =>
  reason._tag === "UnknownError" && reason.operation === LOST_AT_COMMIT

/** Whether a transaction's end failed because it was rolled back. */
export const isRolledBack = ({ reason }: SqlError.SqlError): boolean =>
  reason._tag === "UnknownError" && reason.operation === ROLLED_BACK

/**
 * Whether a failed transaction has certainly changed nothing: it ended before its COMMIT, or the database reported why it failed. If
 * its connection was lost, the outcome is unknown.
 */
export const isCertainlyRolledBack = (cause: Cause.Cause<unknown>): boolean => {
  // The sandbox's rail never fails: a database error ends it as a defect.
  const errors = cause.reasons.flatMap((reason) =>
    Cause.isFailReason(reason) ? [reason.error] : Cause.isDieReason(reason) ? [reason.defect] : [],
  )
  const error = errors.find(SqlError.isSqlError)
  if (error === undefined) return true
  return isRolledBack(error) || (sqlStateOf(error) !== undefined && !isAway(error))
}
