/** What became of transactions that failed. */
import { Cause } from "effect"
import { SqlError } from "effect/sql"
import { isAway, sqlStateOf } from "./errors.ts"

export const unknownError = (operation: string, cause: unknown) =>
  new SqlError.SqlError({ reason: new SqlError.UnknownError({ cause, operation }) })

/** The operation that the error of a rolled back transaction names. */
const ROLLED_BACK = "roll back"

export const rolledBack = (cause: unknown) => unknownError(ROLLED_BACK, cause)

/** The operation that the error of a transaction names whose connection was lost at its end. */
const LOST_AT_COMMIT = "commit"

/** Marks the error of a transaction's end where it leaves open whether the transaction was committed. */
export const orOutcomeUnknown = (error: SqlError.SqlError): SqlError.SqlError =>
  isRolledBack(error) || (sqlStateOf(error) !== undefined && !isAway(error))
    ? error
    : unknownError(LOST_AT_COMMIT, error)

/** Whether a transaction failed in a way that leaves open whether it was committed. */
export const isOutcomeUnknown = ({ reason }: SqlError.SqlError): boolean =>
  reason._tag === "UnknownError" && reason.operation === LOST_AT_COMMIT

/** Whether a transaction's end failed because it was rolled back. */
export const isRolledBack = ({ reason }: SqlError.SqlError): boolean =>
  reason._tag === "UnknownError" && reason.operation === ROLLED_BACK

/**
 * Whether a transaction that failed so has certainly done nothing: it was given up before its end, or the database itself has said
 * why. Of one whose connection was lost nobody knows.
 */
export const isCertainlyRolledBack = (cause: Cause.Cause<unknown>): boolean => {
  // The sandbox's rail, which answers whatever happens, dies of its database.
  const errors = cause.reasons.flatMap((reason) =>
    Cause.isFailReason(reason) ? [reason.error] : Cause.isDieReason(reason) ? [reason.defect] : [],
  )
  const error = errors.find(SqlError.isSqlError)
  if (error === undefined) return true
  return isRolledBack(error) || (sqlStateOf(error) !== undefined && !isAway(error))
}
