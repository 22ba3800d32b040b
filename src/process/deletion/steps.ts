/**
 * Steps of deletions, table by table. A step goes through its table by key, in an index of what is deleted, and never looks
 * at what is gone already: the dead entries of earlier batches stay where they are for as long as the oldest transaction.
 */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { ofTenant } from "../../db/tenant.ts"
import { type Deleted, type Deletion, SANDBOX, type Step } from "./deletion.ts"

interface Of {
  readonly table: string
  /** What tells the tenant's rows apart, in order. */
  readonly key?: string
  /** What else they must be, as SQL. */
  readonly where?: string
  /** Where it is not by `test_clock_id` that a clock's rows are found. */
  readonly clock?: string
  /** A clock's rows are found by its customers, which are still there, in an index by `customer_id` and ID. */
  readonly ofCustomers?: true
  /** Where a table has more than one step. */
  readonly name?: string
}

/** A row that is to be deleted, locked. */
interface Doomed {
  /** Where it is: nothing moves it while it is locked. */
  readonly place: string
  readonly key: string
  /** After which to go on. */
  readonly position: string
}

/** What a look at the next rows has found. */
interface Next<Row extends Doomed> {
  readonly doomed: ReadonlyArray<Row>
  /** Others that it looked at, which had nothing to delete. */
  readonly empty: number
  /** Where to go on; null: nothing is left. */
  readonly to: string | null
}

/** Locks the next rows of the table itself, in the order of their keys. */
const nextRows = <Row extends Doomed>(of: Of, deletion: Deletion, after: string, limit: number, columns: string) =>
  Effect.flatMap(SqlClient.SqlClient, (sql) => {
    const { table, key = "id", where = "true", clock = "test_clock_id" } = of
    const onClock = deletion.id === SANDBOX ? sql`true` : sql`${sql(clock)} = ${deletion.id}`
    return Effect.map(
      sql<Row>`
        SELECT ctid::text AS place, ${sql(key)} AS key, ${sql(key)} AS position ${sql.literal(columns)} FROM ${sql(table)}
        WHERE ${ofTenant(sql, deletion)} AND ${onClock} AND ${sql.literal(where)} AND ${sql(key)} > ${after}
        ORDER BY ${sql(key)} LIMIT ${limit} FOR UPDATE`,
      (doomed): Next<Row> => ({ doomed, empty: 0, to: doomed.length < limit ? null : doomed.at(-1)!.position }),
    )
  })

/** Sorts behind everything that IDs are made of. */
const BEHIND = "~"

/** Locks the next rows of a clock's customers, customer by customer; those who have none count too. */
const nextOfCustomers = <Row extends Doomed>(
  { table }: Of,
  deletion: Deletion,
  after: string,
  limit: number,
  columns: string,
) =>
  Effect.flatMap(SqlClient.SqlClient, (sql) => {
    const [customer = "", last = ""] = after.split(" ")
    return Effect.map(
      sql<Row | { readonly place: null; readonly position: string }>`
        SELECT t.place, t.id AS key, k.id || coalesce(' ' || t.id, ${BEHIND}) AS position ${sql.literal(columns)}
        FROM (
          SELECT account_id, livemode, id FROM customer
          WHERE ${ofTenant(sql, deletion)} AND test_clock_id = ${deletion.id} AND id >= ${customer} ORDER BY id LIMIT ${limit}
        ) k LEFT JOIN LATERAL (
          SELECT ctid::text AS place, id ${sql.literal(columns)} FROM ${sql(table)}
          WHERE (account_id, livemode, customer_id) = (k.account_id, k.livemode, k.id) AND id > CASE WHEN k.id = ${customer} THEN ${last} ELSE '' END
          ORDER BY id FOR UPDATE
        ) t ON true LIMIT ${limit}`,
      (found): Next<Row> => {
        const doomed = found.flatMap((row) => (row.place === null ? [] : [row]))
        const to = found.length < limit ? null : found.at(-1)!.position
        return { doomed, empty: found.length - doomed.length, to }
      },
    )
  })

/** Locks the next rows in order, `limit` at most, and reads these `columns` of them too. */
const next = <Row extends Doomed>(of: Of, deletion: Deletion, after: string, limit: number, columns = "") =>
  of.ofCustomers && deletion.id !== SANDBOX
    ? nextOfCustomers<Row>(of, deletion, after, limit, columns)
    : nextRows<Row>(of, deletion, after, limit, columns)

/**
 * Deletes locked rows where they are. By key, a planner that last saw a small table takes whatever index it has for the one
 * that suits.
 */
const remove = (table: string, rows: ReadonlyArray<Doomed>) =>
  rows.length === 0
    ? Effect.void
    : Effect.flatMap(SqlClient.SqlClient, (sql) => {
        const places = rows.map(({ place }) => place)
        return Effect.asVoid(sql`DELETE FROM ${sql(table)} WHERE ctid = ANY(${places}::text[]::tid[])`)
      })

/** Deletes what hangs on rows, in a table that knows them as `column`. */
const removeOf = (table: string, column: string, deletion: Deletion, rows: ReadonlyArray<Doomed>) =>
  rows.length === 0
    ? Effect.void
    : Effect.flatMap(SqlClient.SqlClient, (sql) => {
        const keys = rows.map(({ key }) => key)
        return Effect.asVoid(
          sql`DELETE FROM ${sql(table)} WHERE ${ofTenant(sql, deletion)} AND ${sql(column)} = ANY(${keys}::text[])`,
        )
      })

/** Rows that nothing hangs on but what their foreign keys take along. */
export const rowsOf = (of: Of): Step => ({
  name: of.name ?? of.table,
  run: Effect.fnUntraced(function* (deletion, after, limit) {
    const { doomed, empty, to } = yield* next(of, deletion, after, limit)
    yield* remove(of.table, doomed)
    return { rows: doomed.length + empty, to } satisfies Deleted
  }),
})

interface Actor extends Doomed {
  readonly version: number
}

/** The actors that are deleted whole within `limit` rows, those of their journals counted. */
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
 * Actors with their journals and timers. They are locked first and what is theirs is looked for after that: whoever was
 * settling one of them is through, or finds it gone. Of one whose journal alone is too long the newest rows go, and its
 * version says what is left.
 */
export const actorsOf = (of: Of): Step => ({
  name: of.name ?? of.table,
  run: Effect.fnUntraced(function* (deletion, after, limit) {
    const sql = yield* SqlClient.SqlClient
    const { doomed: actors, empty, to } = yield* next<Actor>(of, deletion, after, limit, ", version")
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

/** Ledger entries, each with all of its lines, so that the books balance after every batch. Only a sandbox's ever go. */
export const ledgerEntries: Step = {
  name: "ledger_entry",
  run: Effect.fnUntraced(function* (deletion, after, limit) {
    const sql = yield* SqlClient.SqlClient
    // The database lets nobody else take anything out of the books (migrations/0006_lifecycle_complete.sql).
    yield* sql`SELECT set_config('billing.sandbox_reset', ${deletion.account_id}, true)`
    const { doomed, to } = yield* next({ table: "ledger_entry" }, deletion, after, limit)
    yield* removeOf("ledger_line", "entry_id", deletion, doomed)
    yield* remove("ledger_entry", doomed)
    return { rows: doomed.length, to } satisfies Deleted
  }),
}
