/** Why Postgres refused a statement, in its own words. */
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
