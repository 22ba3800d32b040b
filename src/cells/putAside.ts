/** Taking an account's rows out of a cell's tables, in batches; kept for some days where it has left. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import type { Fragment } from "effect/sql/Statement"
import { asReplica } from "./asReplica.ts"
import type { Move } from "./replication.ts"
import { requireStanding, type State } from "./standing.ts"
import type { MovedTable } from "./tables.ts"

/** Some tens of milliseconds. */
const BATCH = 2_000
/** How long the rows of an account that has left are kept. */
const KEPT_FOR = "7 days"

interface Place {
  readonly place: string
  readonly key: ReadonlyArray<string>
}

const behind = (sql: SqlClient.SqlClient, { key }: MovedTable, after: ReadonlyArray<string> | undefined): Fragment => {
  if (after === undefined || key.length === 0) return sql`true`
  const columns = sql.csv(key.map(({ name }) => sql`${sql(name)}`))
  const values = sql.csv(key.map(({ type }, at) => sql`${after[at]!}::text::${sql.literal(type)}`))
  return sql`(${columns}) > (${values})`
}

/** By what right rows are taken out: the move is in this state on this side, and `unless` does not hold. */
interface Warrant {
  readonly move: Move
  readonly state: State
  readonly isKept: boolean
  readonly unless: Fragment
}

/** Takes out the next rows of a table in the order of its key; returns the key behind which to go on. */
const takeOut = Effect.fnUntraced(function* (
  table: MovedTable,
  { move, state, isKept, unless }: Warrant,
  after: ReadonlyArray<string> | undefined,
) {
  yield* requireStanding(move, [state])
  const sql = yield* SqlClient.SqlClient
  const { account_id: account, move_id } = move
  const { name, owner, key } = table
  const order = sql.csv(key.length === 0 ? [sql`1`] : key.map((column) => sql`${sql(column.name)}`))
  const texts = key.map((column) => `${column.name}::text`).join(", ")
  const rows = yield* sql<Place>`
    SELECT ctid::text AS place, ARRAY[${sql.literal(texts)}]::text[] AS key FROM ${sql(name)}
    WHERE ${sql(owner)} = ${account} AND ${behind(sql, table, after)} ORDER BY ${order} LIMIT ${BATCH}`
  if (rows.length === 0) return undefined
  const places = rows.map(({ place }) => place)
  // In the statement itself: whoever sees a row that should stay sees why.
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

const takeAllOut = Effect.fnUntraced(function* (tables: ReadonlyArray<MovedTable>, warrant: Warrant) {
  for (const table of tables) {
    let after: ReadonlyArray<string> | undefined
    do after = yield* asReplica(takeOut(table, warrant, after))
    while (after !== undefined)
  }
})

/** Takes all rows of an account out of the tables of the cell that it has left, and keeps them. May be done again. */
export const putAside = (tables: ReadonlyArray<MovedTable>, move: Move) =>
  Effect.flatMap(SqlClient.SqlClient, (sql) =>
    takeAllOut(tables, { move, state: "left", isKept: true, unless: sql`false` }),
  )

/**
 * Takes out of the tables what was copied of an account that is arriving, by an earlier try, or that was to; nothing while it is being
 * copied. May be done again.
 */
export const clear = (tables: ReadonlyArray<MovedTable>, move: Move, state: "arriving" | "withdrawn") =>
  Effect.flatMap(SqlClient.SqlClient, (sql) =>
    takeAllOut(tables, {
      move,
      state,
      isKept: false,
      unless: sql`EXISTS (SELECT 1 FROM pg_subscription WHERE subname = ${move.move_id})`,
    }),
  )

const MAX_PURGED = 2_000

/** Deletes what was kept long enough. */
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
