/** Why a statement failed, as reported by Postgres or by the connection. */
import { SqlError } from "effect/sql"

/**
 * The SQLSTATE with which the server refused a statement; undefined if the error is not from the server. A broken socket has other codes
 * (ECONNRESET, EPIPE), which do not say whether the statement was executed.
 */
export const sqlStateOf = (error: unknown): string | undefined => {
  if (!SqlError.isSqlError(error)) return undefined
  const { code, severity } = (error.reason.cause ?? {}) as { readonly code?: unknown; readonly severity?: unknown }
  return typeof code === "string" && severity !== undefined ? code : undefined
}

/** The name of the constraint for which the server refused a statement. */
export const constraintOf = (error: SqlError.SqlError): string | undefined => {
  const { constraint } = (error.reason.cause ?? {}) as { readonly constraint?: unknown }
  return typeof constraint === "string" ? constraint : undefined
}

/** SQLSTATEs of a server that is shutting down, starting up, recovering or full, and of broken connections. */
const AWAY = /^(57P0[1-5]|53300|08...)$/
/** SQLSTATEs of a server that accepts no writes: a standby, or one whose disk or memory is full. */
const UNWRITABLE = /^(25006|53[12]00)$/

/** Whether the server reports that it is unavailable. */
export const isAway = (error: unknown): boolean => AWAY.test(sqlStateOf(error) ?? "")

/** Whether the server reports that it cannot write. Its operator has to act. */
export const isUnwritable = (error: unknown): boolean => UNWRITABLE.test(sqlStateOf(error) ?? "")

interface Caused {
  readonly message?: string
  readonly code?: string
  readonly cause?: Caused
}

/** Why the database failed, in one line: the innermost reason. Undefined if the error is not from the database. */
export const databaseReason = (error: unknown): string | undefined => {
  if (!SqlError.isSqlError(error)) return undefined
  let reason: string = error.message
  for (let at: Caused | undefined = error.cause as Caused; at !== undefined; at = at.cause)
    reason = at.message || at.code || reason
  return reason.split("\n")[0]!
}

/** Whether the database cannot be reached, or rejects the login. */
export const isUnreachable = (error: unknown): boolean =>
  SqlError.isSqlError(error) && ["ConnectionError", "AuthenticationError"].includes(error.reason._tag)
