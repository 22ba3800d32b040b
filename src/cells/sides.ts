/** The two databases of a move: source and target. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { type MovedTable, movedTables } from "./tables.ts"

export interface Databases {
  /** The database of the cell that the account leaves. */
  readonly source: SqlClient.SqlClient
  /** The database of the cell that it moves to. */
  readonly target: SqlClient.SqlClient
}

export interface Sides {
  readonly at: <A, E, R>(
    side: keyof Databases,
    program: Effect.Effect<A, E, R>,
  ) => Effect.Effect<A, E, Exclude<R, SqlClient.SqlClient>>
  readonly tables: ReadonlyArray<MovedTable>
}

export const sidesOf = Effect.fnUntraced(function* (databases: Databases) {
  const at: Sides["at"] = (side, program) => Effect.provideService(program, SqlClient.SqlClient, databases[side])
  return { at, tables: yield* at("source", movedTables) } satisfies Sides
})
