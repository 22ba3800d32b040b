/** Removes an account's rows from a cell's tables, in batches. The rows of an account that has left are kept for some days. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import type { Fragment } from "effect/sql/Statement"
import { asReplica } from "./asReplica.ts"
import { requireState, type State } from "./moveState.ts"
import type { Move } from "./replication.ts"
import type { MovedTable } from "./tables.ts"

/** Rows per statement: it takes some tens of milliseconds. */
const BATCH = 2_000
/** How long the rows of an account that has left are kept in `account_kept`. */
const KEPT_FOR = "7 days"

interface RowLocation {
  readonly place: string
  readonly key: ReadonlyArray<string>
}

const isAfter = (sql: SqlClient.SqlClient, { key }: MovedTable, after: ReadonlyArray<string> | undefined): Fragment => {
  if (after === undefined || key.length === 0) return sql`true`
  const columns = sql.csv(key.map(({ name }) => sql`${sql(name)}`))
  const values = sql.csv(key.map(({ type }, at) => sql`${after[at]!}::text::${sql.literal(type)}`))
  return sql`(${columns}) > (${values})`
}

/** The condition for removing rows: the move is in this state on this side, and `unless` is false. */
interface RemovalGuard {
  readonly move: Move
  readonly state: State
  readonly isKept: boolean
  readonly unless: Fragment
}

/** Removes the next batch of a table's rows in key order. Returns the last key; undefined at the end. */
const removeBatch = Effect.fnUntraced(function* (
  table: MovedTable,
  { move, state, isKept, unless }: RemovalGuard,
  after: ReadonlyArray<string> | undefined,
) {
  yield* requireState(move, [state])
  const sql = yield* SqlClient.SqlClient
  const { account_id: account, move_id } = move
  const { name, owner, key } = table
  const order = sql.csv(key.length === 0 ? [sql`1`] : key.map((column) => sql`${sql(column.name)}`))
  const texts = key.map((column) => `${column.name}::text`).join(", ")
  const rows = yield* sql<RowLocation>`
    SELECT ctid::text AS place, ARRAY[${sql.literal(texts)}]::text[] AS key FROM ${sql(name)}
    WHERE ${sql(owner)} = ${account} AND ${isAfter(sql, table, after)} ORDER BY ${order} LIMIT ${BATCH}`
  if (rows.length === 0) return undefined
  const places = rows.map(({ place }) => place)
  // Checked in the DELETE itself, so that the condition and the rows are read in one snapshot.
  const gone = sql`
    DELETE FROM ${sql(name)} t WHERE ctid = ANY(${places}::text[]::tid[]) AND ${sql(owner)} = ${account} AND NOT ${unless}`
  yield* isKept
    ? sql`
        WITH gone AS (${gone} RETURNING to_jsonb(t) AS content)
        INSERT INTO account_kept (account_id, move_id, table_name, content, kept_until)
        SELECT ${account}, ${move_id}, ${name}, content, now() + ${KEPT_FOR}::interval FROM gone`
    : gone
  return rows.length < BATCH ? undefined : rows.at(-1)!.key
})

const removeAll = Effect.fnUntraced(function* (tables: ReadonlyArray<MovedTable>, guard: RemovalGuard) {
  for (const table of tables) {
    let after: ReadonlyArray<string> | undefined
    do after = yield* asReplica(removeBatch(table, guard, after))
    while (after !== undefined)
  }
})

/** Moves all rows of an account that has left to `account_kept`. Idempotent. */
export const putAside = (tables: ReadonlyArray<MovedTable>, move: Move) =>
  Effect.flatMap(SqlClient.SqlClient, (sql) =>
    removeAll(tables, { move, state: "left", isKept: true, unless: sql`false` }),
  )

/**
 * Deletes the copied rows of an account that is arriving (from an earlier attempt) or withdrawn. Deletes nothing while its subscription
 * exists. Idempotent.
 */
export const clear = (tables: ReadonlyArray<MovedTable>, move: Move, state: "arriving" | "withdrawn") =>
  Effect.flatMap(SqlClient.SqlClient, (sql) =>
    removeAll(tables, {
      move,
      state,
      isKept: false,
      unless: sql`EXISTS (SELECT 1 FROM pg_subscription WHERE subname = ${move.move_id})`,
    }),
  )

const MAX_PURGED = 2_000

/** Deletes kept rows whose time is over. */
export const purgeKept = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  let purged = MAX_PURGED
  while (purged === MAX_PURGED) {
    const gone = yield* sql`
      DELETE FROM account_kept WHERE no IN (SELECT no FROM account_kept WHERE kept_until < now() ORDER BY kept_until LIMIT ${MAX_PURGED})
      RETURNING 1`
    purged = gone.length
  }
})
