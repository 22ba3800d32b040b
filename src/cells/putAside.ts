/** Taking an account's rows out of a cell's tables, in batches; kept for some days where it has left. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import type { Fragment } from "effect/sql/Statement"
import type { MovedTable } from "./tables.ts"

/** Some tens of milliseconds. */
const BATCH = 2_000
/** How long the rows of an account that has left are kept. */
const KEPT_FOR = "7 days"

interface Place {
  readonly place: string
  readonly key: ReadonlyArray<string>
}

/** As a replica does: no trigger fires, and no foreign key is looked after, of which all the other rows go as well. */
export const asReplica = <A, E, R>(work: Effect.Effect<A, E, R>) =>
  Effect.flatMap(SqlClient.SqlClient, (sql) =>
    sql.withTransaction(Effect.andThen(sql`SELECT set_config('session_replication_role', 'replica', true)`, work)),
  )

const behind = (sql: SqlClient.SqlClient, { key }: MovedTable, after: ReadonlyArray<string> | undefined): Fragment => {
  if (after === undefined || key.length === 0) return sql`true`
  const columns = sql.csv(key.map(({ name }) => sql`${sql(name)}`))
  const values = sql.csv(key.map(({ type }, at) => sql`${after[at]!}::text::${sql.literal(type)}`))
  return sql`(${columns}) > (${values})`
}

/** Takes out the next rows of a table in the order of its key; returns the key behind which to go on. */
const takeOut = Effect.fnUntraced(function* (
  table: MovedTable,
  account: string,
  keep: string | undefined,
  after: ReadonlyArray<string> | undefined,
) {
  const sql = yield* SqlClient.SqlClient
  const { name, owner, key } = table
  const order = sql.csv(key.length === 0 ? [sql`1`] : key.map((column) => sql`${sql(column.name)}`))
  const texts = key.map((column) => `${column.name}::text`).join(", ")
  const rows = yield* sql<Place>`
    SELECT ctid::text AS place, ARRAY[${sql.literal(texts)}]::text[] AS key FROM ${sql(name)}
    WHERE ${sql(owner)} = ${account} AND ${behind(sql, table, after)} ORDER BY ${order} LIMIT ${BATCH}`
  if (rows.length === 0) return undefined
  const places = rows.map(({ place }) => place)
  const gone = sql`DELETE FROM ${sql(name)} t WHERE ctid = ANY(${places}::text[]::tid[]) AND ${sql(owner)} = ${account}`
  yield* keep === undefined
    ? gone
    : sql`
        WITH gone AS (${gone} RETURNING to_jsonb(t) AS content)
        INSERT INTO account_kept (account_id, move_id, table_name, content, kept_until)
        SELECT ${account}, ${keep}, ${name}, content, now() + ${KEPT_FOR}::interval FROM gone`
  return rows.length < BATCH ? undefined : rows.at(-1)!.key
})

/** Takes all rows of an account out of the tables; `keep`: those of the move with this ID are kept. May be done again. */
export const putAside = Effect.fnUntraced(function* (
  tables: ReadonlyArray<MovedTable>,
  account: string,
  keep: string | undefined,
) {
  for (const table of tables) {
    let after: ReadonlyArray<string> | undefined
    do after = yield* asReplica(takeOut(table, account, keep, after))
    while (after !== undefined)
  }
})

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
