/**
 * Steps of deletions, table by table. A step goes through its table by key, in an index of what is deleted, and never looks
 * at what is gone already: the dead entries of earlier batches stay where they are for as long as the oldest transaction.
 */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import type { Fragment } from "effect/sql/Statement"
import { records } from "../db/records.ts"
import { ofTenant } from "../db/tenant.ts"
import { type Deleted, type Deletion, SANDBOX, type Step } from "./deletion.ts"

interface Of {
  readonly table: string
  /** What tells the tenant's rows apart, in order. */
  readonly key?: string
  /** What else they must be, as SQL. */
  readonly where?: string
  /** Where it is not by `test_clock_id` that a clock's rows are found. */
  readonly clock?: string
  /** Where a table has more than one step. */
  readonly name?: string
}

/** The next keys to delete, locked in their order, as SQL. */
export const nextKeys = (
  sql: SqlClient.SqlClient,
  { table, key = "id", where = "true", clock = "test_clock_id" }: Of,
  deletion: Deletion,
  after: string,
  limit: number,
  columns = key,
): Fragment => {
  const onClock = deletion.id === SANDBOX ? sql`true` : sql`${sql(clock)} = ${deletion.id}`
  return sql`
    SELECT ${sql.literal(columns)} FROM ${sql(table)}
    WHERE ${ofTenant(sql, deletion)} AND ${onClock} AND ${sql.literal(where)} AND ${sql(key)} > ${after}
    ORDER BY ${sql(key)} LIMIT ${limit} FOR UPDATE`
}

/** Rows that nothing hangs on but what their foreign keys take along. */
export const rowsOf = (of: Of): Step => ({
  name: of.name ?? of.table,
  run: Effect.fnUntraced(function* (deletion, after, limit) {
    const sql = yield* SqlClient.SqlClient
    const { table, key = "id" } = of
    const [gone] = yield* sql<{ rows: number; last: string | null }>`
      WITH next AS MATERIALIZED (${nextKeys(sql, of, deletion, after, limit)}),
        gone AS (DELETE FROM ${sql(table)} t USING next WHERE ${ofTenant(sql, deletion, "t")} AND t.${sql(key)} = next.${sql(key)})
      SELECT count(*) AS rows, max(${sql(key)}) AS last FROM next`
    const { rows, last } = gone!
    return { rows, to: rows < limit ? null : last } satisfies Deleted
  }),
})

interface Actor {
  readonly id: string
  readonly version: number
}

const ACTOR = { id: "text", version: "integer" } as const

/** The actors that are deleted whole within `limit` rows, those of their journals counted. */
const wholeWithin = (actors: ReadonlyArray<Actor>, limit: number) => {
  let rows = 0
  const end = actors.findIndex(({ version }) => {
    rows += version + 1
    return rows > limit
  })
  const whole = end === -1 ? actors : actors.slice(0, end)
  return { whole, rows: whole.reduce((sum, { version }) => sum + version + 1, 0) }
}

/**
 * Actors with their journals and timers. They are locked first and what is theirs is looked for after that: whoever was
 * settling one of them is through, or finds it gone. Of one whose journal alone is too long the newest rows go, and its
 * version says what is left.
 */
export const actorsOf = (of: Of): Step => ({
  name: of.name ?? of.table,
  run: Effect.fnUntraced(function* (deletion, after, limit) {
    const sql = yield* SqlClient.SqlClient
    const actors = yield* sql<Actor>`${nextKeys(sql, of, deletion, after, limit, "id, version")}`
    const { whole, rows } = wholeWithin(actors, limit)
    const [first] = actors
    if (first !== undefined && whole.length === 0) {
      yield* sql`
        DELETE FROM lifecycle_journal WHERE ${ofTenant(sql, deletion)} AND actor_id = ${first.id}
          AND version > ${first.version - limit} AND version <= ${first.version}`
      yield* sql`
        UPDATE ${sql(of.table)} SET version = ${first.version - limit} WHERE ${ofTenant(sql, deletion)} AND id = ${first.id}`
      return { rows: limit, to: after } satisfies Deleted
    }
    const gone = records(sql, whole, ACTOR)
    yield* sql`
      DELETE FROM lifecycle_journal j USING ${gone} g
      WHERE ${ofTenant(sql, deletion, "j")} AND j.actor_id = g.id AND j.version <= g.version`
    yield* sql`DELETE FROM timer t USING ${gone} g WHERE ${ofTenant(sql, deletion, "t")} AND t.actor_id = g.id`
    yield* sql`DELETE FROM ${sql(of.table)} t USING ${gone} g WHERE ${ofTenant(sql, deletion, "t")} AND t.id = g.id`
    const isEnd = whole.length === actors.length && actors.length < limit
    return { rows, to: isEnd ? null : (whole.at(-1)?.id ?? after) } satisfies Deleted
  }),
})

/** Ledger entries, each with all of its lines, so that the books balance after every batch. Only a sandbox's ever go. */
export const ledgerEntries: Step = {
  name: "ledger_entry",
  run: Effect.fnUntraced(function* (deletion, after, limit) {
    const sql = yield* SqlClient.SqlClient
    // The database lets nobody else take anything out of the books (migrations/0006_lifecycle_complete.sql).
    yield* sql`SELECT set_config('billing.sandbox_reset', ${deletion.account_id}, true)`
    const [gone] = yield* sql<{ rows: number; last: string | null }>`
      WITH next AS MATERIALIZED (${nextKeys(sql, { table: "ledger_entry" }, deletion, after, limit)}),
        lines AS (DELETE FROM ledger_line l USING next WHERE ${ofTenant(sql, deletion, "l")} AND l.entry_id = next.id),
        gone AS (DELETE FROM ledger_entry e USING next WHERE ${ofTenant(sql, deletion, "e")} AND e.id = next.id)
      SELECT count(*) AS rows, max(id) AS last FROM next`
    const { rows, last } = gone!
    return { rows, to: rows < limit ? null : last } satisfies Deleted
  }),
}
