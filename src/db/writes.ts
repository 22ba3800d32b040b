/** Writes to several tables as one statement: what each statement costs by itself is paid once. */
import type { SqlClient } from "effect/sql"
import type { Statement } from "effect/sql/Statement"
import type { OneStatement } from "./pipelining.ts"

/** A part of a statement, by whose name those behind it may refer to it. */
export type Write = readonly [name: string, statement: Statement<object>]

/**
 * All of `writes` as one statement; undefined where there are none. They write side by side, seeing nothing of each other but what
 * they return: none changes a row that another makes or changes. `last`: what is to be done beside them that writes by itself
 * (a function, say), which Postgres would leave out anywhere else.
 */
export const inOneStatement = (
  sql: SqlClient.SqlClient,
  writes: ReadonlyArray<Write>,
  last: OneStatement = undefined,
): OneStatement => {
  const statement = last ?? writes.at(-1)?.[1]
  const parts = last === undefined ? writes.slice(0, -1) : writes
  if (statement === undefined || parts.length === 0) return statement
  return sql`WITH ${sql.csv(parts.map(([name, part]) => sql`${sql.literal(name)} AS (${part})`))} ${statement}`
}
