/**
 * The steps of deletions, one per table. A step goes through its table by key, in an index of the deleted rows, and never reads deleted
 * entries again: dead entries of earlier batches stay in the index for as long as the oldest transaction.
 */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { ofTenant } from "../../db/tenant.ts"
import { LOCKS } from "../../postgres/advisoryLocks.ts"
import { type Deleted, type Deletion, SANDBOX, type Step } from "./deletion.ts"

interface RowSource {
  readonly table: string
  /** The column that identifies and orders the tenant's rows. */
  readonly key?: string
  /** A further condition on the rows, as SQL. */
  readonly where?: string
  /** The column that finds a clock's rows, if it is not `test_clock_id`. */
  readonly clock?: string
  /** A clock's rows are found by its customers, which still exist, in an index by `customer_id` and ID. */
  readonly ofCustomers?: true
  /** The name of the step, if a table has more than one. */
  readonly name?: string
}

/** A locked row to delete. */
interface LockedRow {
  /** Its ctid, which does not change while it is locked. */
  readonly place: string
  readonly key: string
  /** The position to continue after. */
  readonly position: string
}

/** The next rows to delete. */
interface Next<Row extends LockedRow> {
  readonly lockedRows: ReadonlyArray<Row>
  /** How many customers it checked that have no rows. */
  readonly empty: number
  /** The position to continue after; null: nothing is left. */
  readonly to: string | null
}

/** Locks the next rows of the table itself, in the order of their keys. */
const nextRows = <Row extends LockedRow>(
  of: RowSource,
  deletion: Deletion,
  after: string,
  limit: number,
  columns: string,
) =>
  Effect.flatMap(SqlClient.SqlClient, (sql) => {
    const { table, key = "id", where = "true", clock = "test_clock_id" } = of
    const onClock = deletion.id === SANDBOX ? sql`true` : sql`${sql(clock)} = ${deletion.id}`
    return Effect.map(
      sql<Row>`
        SELECT ctid::text AS place, ${sql(key)} AS key, ${sql(key)} AS position ${sql.literal(columns)} FROM ${sql(table)}
        WHERE ${ofTenant(sql, deletion)} AND ${onClock} AND ${sql.literal(where)} AND ${sql(key)} > ${after}
        ORDER BY ${sql(key)} LIMIT ${limit} FOR UPDATE`,
      (lockedRows): Next<Row> => ({
        lockedRows,
        empty: 0,
        to: lockedRows.length < limit ? null : lockedRows.at(-1)!.position,
      }),
    )
  })

/** Sorts after all characters of IDs. */
const AFTER_ALL_IDS = "~"

/** Locks the next rows of a clock's customers, customer by customer; customers without rows count too. */
const nextOfCustomers = <Row extends LockedRow>(
  { table }: RowSource,
  deletion: Deletion,
  after: string,
  limit: number,
  columns: string,
) =>
  Effect.flatMap(SqlClient.SqlClient, (sql) => {
    const [customer = "", last = ""] = after.split(" ")
    return Effect.map(
      sql<Row | { readonly place: null; readonly position: string }>`
        SELECT t.place, t.id AS key, k.id || coalesce(' ' || t.id, ${AFTER_ALL_IDS}) AS position ${sql.literal(columns)}
        FROM (
          SELECT account_id, livemode, id FROM customer
          WHERE ${ofTenant(sql, deletion)} AND test_clock_id = ${deletion.id} AND id >= ${customer} ORDER BY id LIMIT ${limit}
        ) k LEFT JOIN LATERAL (
          SELECT ctid::text AS place, id ${sql.literal(columns)} FROM ${sql(table)}
          WHERE (account_id, livemode, customer_id) = (k.account_id, k.livemode, k.id) AND id > CASE WHEN k.id = ${customer} THEN ${last} ELSE '' END
          ORDER BY id FOR UPDATE
        ) t ON true LIMIT ${limit}`,
      (found): Next<Row> => {
        const lockedRows = found.flatMap((row) => (row.place === null ? [] : [row]))
        const to = found.length < limit ? null : found.at(-1)!.position
        return { lockedRows, empty: found.length - lockedRows.length, to }
      },
    )
  })

/** Locks the next rows in order, at most `limit`, and also reads these `columns`. */
const next = <Row extends LockedRow>(of: RowSource, deletion: Deletion, after: string, limit: number, columns = "") =>
  of.ofCustomers && deletion.id !== SANDBOX
    ? nextOfCustomers<Row>(of, deletion, after, limit, columns)
    : nextRows<Row>(of, deletion, after, limit, columns)

/**
 * Deletes locked rows by ctid. By key, a planner that last saw a small table could choose the wrong index.
 */
const remove = (table: string, rows: ReadonlyArray<LockedRow>) =>
  rows.length === 0
    ? Effect.void
    : Effect.flatMap(SqlClient.SqlClient, (sql) => {
        const places = rows.map(({ place }) => place)
        return Effect.asVoid(sql`DELETE FROM ${sql(table)} WHERE ctid = ANY(${places}::text[]::tid[])`)
      })

/** Deletes the rows that refer to these rows, in a table that references them by `column`. */
const removeOf = (table: string, column: string, deletion: Deletion, rows: ReadonlyArray<LockedRow>) =>
  rows.length === 0
    ? Effect.void
    : Effect.flatMap(SqlClient.SqlClient, (sql) => {
        const keys = rows.map(({ key }) => key)
        return Effect.asVoid(
          sql`DELETE FROM ${sql(table)} WHERE ${ofTenant(sql, deletion)} AND ${sql(column)} = ANY(${keys}::text[])`,
        )
      })

/** Deletes rows without dependent rows, except those that foreign keys delete. */
export const rowsOf = (of: RowSource): Step => ({
  name: of.name ?? of.table,
  run: Effect.fnUntraced(function* (deletion, after, limit) {
    const { lockedRows, empty, to } = yield* next(of, deletion, after, limit)
    yield* remove(of.table, lockedRows)
    return { rows: lockedRows.length + empty, to } satisfies Deleted
  }),
})

interface Actor extends LockedRow {
  readonly version: number
}

/** The actors that can be deleted completely within `limit` rows, including their journal rows. */
const wholeWithin = (actors: ReadonlyArray<Actor>, limit: number) => {
  const whole: Array<Actor> = []
  let rows = 0
  for (const actor of actors) {
    if (rows + actor.version + 1 > limit) break
    rows += actor.version + 1
    whole.push(actor)
  }
  return { whole, rows }
}

/**
 * Deletes actors with their journals and timers. It locks the actors before it looks for their rows: a concurrent settlement has finished by
 * then, or finds the actor deleted. If the journal of one actor alone is too long, its newest rows are deleted, and the actor's version says
 * which rows are left.
 */
export const actorsOf = (of: RowSource): Step => ({
  name: of.name ?? of.table,
  run: Effect.fnUntraced(function* (deletion, after, limit) {
    const sql = yield* SqlClient.SqlClient
    const { lockedRows: actors, empty, to } = yield* next<Actor>(of, deletion, after, limit, ", version")
    const { whole, rows } = wholeWithin(actors, limit)
    const [first] = actors
    if (first !== undefined && whole.length === 0) {
      const version = first.version - limit
      yield* sql`
        DELETE FROM lifecycle_journal
        WHERE ${ofTenant(sql, deletion)} AND actor_id = ${first.key} AND version > ${version} AND version <= ${first.version}`
      yield* sql`UPDATE ${sql(of.table)} SET version = ${version} WHERE ctid = ${first.place}::text::tid`
      return { rows: limit, to: after } satisfies Deleted
    }
    yield* removeOf("lifecycle_journal", "actor_id", deletion, whole)
    yield* removeOf("timer", "actor_id", deletion, whole)
    yield* remove(of.table, whole)
    return {
      rows: rows + empty,
      to: whole.length === actors.length ? to : (whole.at(-1)?.position ?? after),
    } satisfies Deleted
  }),
})

/** Deletes ledger entries, each with all its lines, so that the books balance after every batch. Only a sandbox's entries are ever deleted. */
export const ledgerEntries: Step = {
  name: "ledger_entry",
  run: Effect.fnUntraced(function* (deletion, after, limit) {
    const sql = yield* SqlClient.SqlClient
    // Without this setting the database forbids deleting from the books (migrations/0006_ledger.sql).
    yield* sql`SELECT set_config('billing.sandbox_reset', ${deletion.account_id}, true)`
    const { lockedRows, to } = yield* next({ table: "ledger_entry" }, deletion, after, limit)
    yield* removeOf("ledger_line", "entry_id", deletion, lockedRows)
    yield* remove("ledger_entry", lockedRows)
    return { rows: lockedRows.length, to } satisfies Deleted
  }),
}

/** Deletes what sums up the books of a sandbox: the closings of its months, and the totals of its days. Its entries are deleted before. */
export const bookSums: Step = {
  name: "day_total",
  run: Effect.fnUntraced(function* (deletion, after, limit) {
    const sql = yield* SqlClient.SqlClient
    yield* sql`SELECT set_config('billing.sandbox_reset', ${deletion.account_id}, true)`
    // A merge under way would add what it has read to an empty table.
    yield* sql`SELECT pg_advisory_xact_lock(${LOCKS.dayTotals}, 0)`
    yield* sql`DELETE FROM account_closing WHERE ${ofTenant(sql, deletion)}`
    const deleted = (table: "day_total_new" | "day_total") => sql`
      DELETE FROM ${sql(table)} WHERE ctid = ANY(ARRAY(
        SELECT ctid FROM ${sql(table)} WHERE ${ofTenant(sql, deletion)} LIMIT ${limit})) RETURNING 1`
    const fresh = yield* deleted("day_total_new")
    const rows = fresh.length < limit ? yield* deleted("day_total") : fresh
    return { rows: rows.length, to: rows.length < limit ? null : after } satisfies Deleted
  }),
}
