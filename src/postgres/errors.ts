/** Why a statement failed, in Postgres's own words or in those of the connection to it. */
import { SqlError } from "effect/sql"

/**
 * The SQLSTATE with which the server refused something; undefined where it is not the server that speaks: a socket that broke has
 * codes of its own (ECONNRESET, EPIPE), which say nothing of what became of the statement.
 */
export const sqlStateOf = (error: unknown): string | undefined => {
  if (!SqlError.isSqlError(error)) return undefined
  const { code, severity } = (error.reason.cause ?? {}) as { readonly code?: unknown; readonly severity?: unknown }
  return typeof code === "string" && severity !== undefined ? code : undefined
}

/** SQLSTATEs of a server that is shutting down, starting up, recovering or full, and of broken connections. */
const AWAY = /^(57P0[1-5]|53300|08...)$/
/** Of one that takes no writes: a standby, or one whose disk or memory is full. */
const UNWRITABLE = /^(25006|53[12]00)$/

/** Whether the server says that it is not to be had just now. */
export const isAway = (error: unknown): boolean => AWAY.test(sqlStateOf(error) ?? "")

/** Whether the server says that it cannot write just now: for its operator to see to. */
export const isUnwritable = (error: unknown): boolean => UNWRITABLE.test(sqlStateOf(error) ?? "")

interface Caused {
  readonly message?: string
  readonly code?: string
  readonly cause?: Caused
}

/** Why the database did not do something, in one line: the innermost reason there is. Undefined where it is not about the database. */
export const databaseReason = (error: unknown): string | undefined => {
  if (!SqlError.isSqlError(error)) return undefined
  let reason: string = error.message
  for (let at: Caused | undefined = error.cause as Caused; at !== undefined; at = at.cause)
    reason = at.message || at.code || reason
  return reason.split("\n")[0]!
}

/** Whether the database cannot be reached, or lets nobody in. */
export const isUnreachable = (error: unknown): boolean =>
  SqlError.isSqlError(error) && ["ConnectionError", "AuthenticationError"].includes(error.reason._tag)
