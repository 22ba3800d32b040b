/** Lists the tables that have rows of accounts, from the Postgres catalogue. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export interface MovedTable {
  readonly name: string
  /** The column with the account's ID. */
  readonly owner: string
  /** The columns of its primary key after `owner`, with their types. */
  readonly key: ReadonlyArray<{ readonly name: string; readonly type: string }>
  /** Whether its rows count their changes in `version`. */
  readonly versioned: boolean
}

/** The tables of the moves themselves, which are not moved. */
const MOVE_TABLES = ["account_move", "account_kept", "account_mark"]

/** Reads the tables with rows of accounts; `account` itself is last. */
export const movedTables = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<{
    name: string
    names: ReadonlyArray<string>
    types: ReadonlyArray<string>
    versioned: boolean
  }>`
    SELECT c.relname::text AS name, array_agg(a.attname::text ORDER BY k.n) AS names,
      array_agg(format_type(a.atttypid, a.atttypmod) ORDER BY k.n) AS types,
      EXISTS (SELECT 1 FROM pg_attribute v WHERE v.attrelid = c.oid AND v.attname = 'version') AS versioned
    FROM pg_class c JOIN pg_index i ON i.indrelid = c.oid AND i.indisprimary
    CROSS JOIN LATERAL unnest(i.indkey) WITH ORDINALITY AS k (attnum, n)
    JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.attnum
    WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'r' AND c.relname <> ALL(${MOVE_TABLES}::text[])
      AND (c.relname = 'account' OR EXISTS (
        SELECT 1 FROM pg_attribute o WHERE o.attrelid = c.oid AND o.attname = 'account_id' AND NOT o.attisdropped))
    GROUP BY c.oid, c.relname ORDER BY c.relname = 'account', c.relname`
  return rows.map(({ name, names, types, versioned }): MovedTable => {
    const [owner, ...rest] = names
    return { name, owner: owner!, key: rest.map((column, at) => ({ name: column, type: types[at + 1]! })), versioned }
  })
})

/** Updates the statistics of tables that were just filled. Query plans made for empty tables would scan them row by row. */
export const analyse = (tables: ReadonlyArray<MovedTable>) =>
  Effect.flatMap(
    SqlClient.SqlClient,
    (sql) => sql`ANALYZE ${sql.csv(tables.map(({ name }) => sql`${sql(name)}`))}`.unprepared,
  )

/** An account's rows in a table, and the sum of their versions. */
interface Counted {
  readonly rows: number
  readonly changes: string
}

/** Counts an account's rows in each table. */
export const countRows = Effect.fnUntraced(function* (tables: ReadonlyArray<MovedTable>, account: string) {
  const sql = yield* SqlClient.SqlClient
  const counts = yield* Effect.forEach(tables, ({ name, owner, versioned }) =>
    Effect.map(
      sql<Counted>`
        SELECT count(*) AS rows, ${sql.literal(versioned ? "coalesce(sum(version), 0)" : "0")}::text AS changes
        FROM ${sql(name)} WHERE ${sql(owner)} = ${account}`,
      ([row]) => [name, row!] as const,
    ),
  )
  return new Map(counts)
})
