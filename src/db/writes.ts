/** Writes to several tables as one statement: what each statement costs by itself is paid once. */
import { Effect } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import type { Fragment, Statement } from "effect/sql/Statement"
import { sentWhole } from "./PipeliningConnection.ts"
import type { OneStatement } from "./sending.ts"

/** A part of a statement, by whose name those behind it may refer to it. */
export type Write = readonly [name: string, statement: Statement<object>]

const behind = (
  sql: SqlClient.SqlClient,
  parts: ReadonlyArray<Write>,
  statement: Statement<object>,
): Statement<object> =>
  parts.length === 0
    ? statement
    : sql`WITH ${sql.csv(parts.map(([name, part]) => sql`${sql.literal(name)} AS (${part})`))} ${statement}`

/**
 * All of `writes` as one statement; undefined where there are none. They write side by side, seeing nothing of each other but what
 * they return: none changes a row that another makes or changes. `last`: what is to be done beside them that writes by itself
 * (a function, say), a SELECT of expressions, which Postgres would leave out anywhere else. `first`: an expression that is carried out
 * before all of that; what the statement reads then was read before it.
 */
export const inOneStatement = (
  sql: SqlClient.SqlClient,
  writes: ReadonlyArray<Write>,
  last: OneStatement = undefined,
  first: Fragment | undefined = undefined,
): OneStatement => {
  if (last === undefined && writes.length === 0) return undefined
  if (first !== undefined) return behind(sql, writes, sql`${last ?? sql`SELECT`} FROM (SELECT ${first} OFFSET 0) first`)
  return last === undefined ? behind(sql, writes.slice(0, -1), writes.at(-1)![1]) : behind(sql, writes, last)
}

/** Sends what writes one table, which may be all that the running transaction does. */
export const sentWrite = (
  writing: (sql: SqlClient.SqlClient) => OneStatement,
): Effect.Effect<void, SqlError.SqlError, SqlClient.SqlClient> =>
  Effect.flatMap(SqlClient.SqlClient, (sql) => {
    const write = writing(sql)
    return write === undefined
      ? Effect.void
      : sentWhole((first) => inOneStatement(sql, [["written", write]], undefined, first))
  })
