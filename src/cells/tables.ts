/** What there is of an account in a cell: the rows of every table that knows accounts, found in the database's own catalogue. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export interface MovedTable {
  readonly name: string
  /** The column that says whose a row is. */
  readonly owner: string
  /** The columns of its primary key behind `owner`, with their types. */
  readonly key: ReadonlyArray<{ readonly name: string; readonly type: string }>
  /** Whether its rows count their changes, in `version`. */
  readonly versioned: boolean
}

/** What is about moves themselves. */
const OF_MOVES = ["account_move", "account_kept", "account_mark"]

/** The tables with rows of accounts, the accounts themselves last. */
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
    WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'r' AND c.relname <> ALL(${OF_MOVES}::text[])
      AND (c.relname = 'account' OR EXISTS (
        SELECT 1 FROM pg_attribute o WHERE o.attrelid = c.oid AND o.attname = 'account_id' AND NOT o.attisdropped))
    GROUP BY c.oid, c.relname ORDER BY c.relname = 'account', c.relname`
  return rows.map(({ name, names, types, versioned }): MovedTable => {
    const [owner, ...rest] = names
    return { name, owner: owner!, key: rest.map((column, at) => ({ name: column, type: types[at + 1]! })), versioned }
  })
})

/** Counts tables that were just filled: as what plans were made of, they were empty, and each row would be looked for among all. */
export const analyse = (tables: ReadonlyArray<MovedTable>) =>
  Effect.flatMap(
    SqlClient.SqlClient,
    (sql) => sql`ANALYZE ${sql.csv(tables.map(({ name }) => sql`${sql(name)}`))}`.unprepared,
  )

/** How many rows an account has in a table, and how often those that count it have changed. */
interface Counted {
  readonly rows: number
  readonly changes: string
}

/** What an account has in each table. */
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
