/**
 * Declares a table once: each column with its type, whether it changes, and its source in a machine's context or state. The declaration
 * gives the row type, insert, update, look-ups and locks, and converts a row to the machine's context and back. The SQL texts are in
 * statementTexts.ts. test/schema.test.ts compares declarations with the database's catalogue.
 */
import { Effect } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import type { Fragment, Statement } from "effect/sql/Statement"
import type { IdKind } from "../base/ids.ts"
import { noSuch, type Problem } from "../base/problem.ts"
import * as column from "./columns.ts"
import { CurrentRowLoader } from "./RowLoader.ts"
import { cellOf, columnParameter, rowsAs, type Typed } from "./rows.ts"
import { KEY_COLUMNS, type LockMode, type Shape, selected, shapesOf, textsOf } from "./statementTexts.ts"
import { type Ref, type Tenant, tenantOf } from "./tenant.ts"

/** Whether a column changes: `immutable` ones are written once, `mutable` ones whenever they change. */
type Life = "immutable" | "mutable"

/** Computes a column's value from a machine's snapshot. */
type Derived<C, V> = (state: string, context: C) => V

/** Marks a column that is computed from the whole snapshot. Other columns come from a field of the context or (never) from the noun. */
type FromSnapshot = "(follows)"

export interface Column<V, C, From extends PropertyKey> {
  readonly kind: column.ColumnKind<V>
  readonly life: Life
  /** The field of the context that it copies. */
  readonly contextField: From | undefined
  readonly derived: Derived<C, V> | undefined
}

type ContextFieldOf<C, V> = { readonly [K in keyof C]: C[K] extends V ? K : never }[keyof C]

interface Declare<C> {
  <V>(kind: column.ColumnKind<V>): Column<V, C, never>
  <V, const K extends ContextFieldOf<C, V>>(kind: column.ColumnKind<V>, contextField: K): Column<V, C, K>
  <V>(kind: column.ColumnKind<V>, derived: Derived<C, V>): Column<V, C, FromSnapshot>
}

const declareAs = <C>(life: Life): Declare<C> => {
  function declare<V>(of: column.ColumnKind<V>): Column<V, C, never>
  function declare<V, const K extends ContextFieldOf<C, V>>(of: column.ColumnKind<V>, contextField: K): Column<V, C, K>
  function declare<V>(of: column.ColumnKind<V>, derived: Derived<C, V>): Column<V, C, FromSnapshot>
  function declare<V>(of: column.ColumnKind<V>, from?: PropertyKey | Derived<C, V>): Column<V, C, PropertyKey> {
    return typeof from === "function"
      ? { kind: of, life, contextField: undefined, derived: from }
      : { kind: of, life, contextField: from, derived: undefined }
  }
  return declare
}

/** Returns the functions that declare columns of a table whose rows contain a machine's context `C` (`object` if there is no machine). */
export const columnsOf = <C extends object = object>() => ({
  immutable: declareAs<C>("immutable"),
  mutable: declareAs<C>("mutable"),
})

type AnyColumn = Column<unknown, never, PropertyKey>

interface Columns {
  // biome-ignore lint/suspicious/noExplicitAny: a column of any value, context and mirror; a column takes its context and gives its value, so no one type is above all of them
  readonly [name: string]: Column<any, any, any>
}

type Cells<Cols extends Columns> = {
  readonly [K in keyof Cols]: Cols[K] extends Column<infer V, infer _, infer __> ? V : never
}
type SourceOf<Col> = Col extends Column<infer _, infer __, infer From> ? From : never
type FieldsOf<Cols extends Columns> = Exclude<{ [K in keyof Cols]: SourceOf<Cols[K]> }[keyof Cols], FromSnapshot>
/** The columns that come from a snapshot. */
type SnapshotCells<Cols extends Columns> = { readonly state: string } & {
  readonly [K in keyof Cols as [SourceOf<Cols[K]>] extends [never] ? never : K]: Cells<Cols>[K]
}

type Sql<A, E = never> = Effect.Effect<A, SqlError.SqlError | E, SqlClient.SqlClient>

/** A locked row as it was read, and its new value. */
export interface Change<Row> {
  readonly before: Row
  readonly after: Row
}

/** The statements of a table. They are methods, so that a table of specific rows is also a table of general rows. */
export interface Table<Row extends Ref> {
  readonly name: string
  /** The kind of its IDs, if they are in order of creation. */
  readonly ids: IdKind | undefined
  readonly columns: Readonly<Record<string, AnyColumn>>
  /** Whether an inserted row may exist already: then the existing row stays unchanged. */
  readonly mayExist: boolean
  /** The statement that inserts rows (at least one). */
  inserting(sql: SqlClient.SqlClient, rows: ReadonlyArray<Row>): Statement<object>
  /** The statement that writes the changed mutable columns of locked rows; undefined if none changed. */
  updating(sql: SqlClient.SqlClient, changes: ReadonlyArray<Change<Row>>): Statement<object> | undefined
  /** Inserts rows immediately, into a table with `once`; returns the IDs of the rows that are new. */
  insertNew(rows: ReadonlyArray<Row>): Sql<ReadonlySet<string>>
  /** Reads the rows of a custom statement: it selects `columns`, which are those of `alias`. */
  read(
    alias: string,
    statement: (sql: SqlClient.SqlClient, columns: Fragment) => Statement<object>,
  ): Sql<ReadonlyArray<Row>>
  /** The tenant's rows with these IDs, by ID. */
  find(tenant: Tenant, ids: ReadonlyArray<string>): Sql<ReadonlyMap<string, Row>>
  /** The tenant's row with this ID; fails with `resource_missing`. */
  get(tenant: Tenant, id: string): Sql<Row, Problem>
  /**
   * Locks rows and reads them, in ID order, so that no two transactions wait for each other. It waits for rows that another transaction has
   * locked, or leaves them out (`SKIP LOCKED`). `only` is a condition in SQL that the rows must meet.
   */
  lock(refs: ReadonlyArray<Ref>, mode?: LockMode, only?: string): Sql<ReadonlyArray<Row>>
  /** Locks the tenant's row with this ID and reads it; fails with `resource_missing`. */
  lockOne(tenant: Tenant, id: string, mode?: LockMode): Sql<Row, Problem>
}

/** A table whose rows are the snapshots of a machine with the context `C`. */
export interface ActorTable<Row extends Ref, C, Snapshot = object> extends Table<Row> {
  /** Reads the machine's context from a row. */
  contextOf(row: Row): C
  /** Returns the columns that come from a snapshot, including `state`. */
  snapshotColumns(state: string, context: C): Snapshot
  /** Returns a copy of the row with the columns that come from a snapshot. */
  withSnapshot(row: Row, state: string, context: C): Row
}

export type RowOf<T> = T extends Table<infer Row> ? Row : never

interface Options {
  /** The name of one of its objects in messages. */
  readonly noun: string
  /** The kind of its IDs, if lists are in ID order. */
  readonly ids?: IdKind
  /** The unique key of existing rows that an insert leaves unchanged, in the syntax of ON CONFLICT. */
  readonly once?: string
}

const KEY = columnsOf().immutable
const REF = { account_id: KEY(column.text), livemode: KEY(column.flag), id: KEY(column.text) }

const typed = (columns: Readonly<Record<string, AnyColumn>>, ...lives: ReadonlyArray<Life>): Typed =>
  Object.entries(columns).flatMap(([name, { life, kind }]) => (lives.includes(life) ? [[name, kind.sql] as const] : []))

const parametersOf = (rows: ReadonlyArray<object>, columns: Typed): ReadonlyArray<unknown> =>
  columns.map(([name, type]) => columnParameter(rows, name, type))

/**
 * Returns an object with these fields, to copy and fill. V8 keeps a parsed object and its copies in its fast form; an object that grows by
 * computed names becomes a hash table, which is several times slower to read and copy.
 */
const emptyOf = (fields: ReadonlyArray<string>): Readonly<Record<string, unknown>> =>
  JSON.parse(JSON.stringify(Object.fromEntries(fields.map((field) => [field, null]))))

/** Returns a statement that can be part of another one. */
const writing = <A extends object>(
  sql: SqlClient.SqlClient,
  { given: columns, text: [before, behind] }: Shape,
  rows: ReadonlyArray<object>,
) => sql<A>`${sql.literal(before)}${rowsAs(rows, columns)}${sql.literal(behind)}`

const statements = <Row extends Ref>(
  name: string,
  columns: Readonly<Record<string, AnyColumn>>,
  { noun, ids, once }: Options,
): Table<Row> => {
  const all = typed(columns, "immutable", "mutable")
  const texts = textsOf(name, all, once)
  const insertOf = shapesOf(all, texts.insert)
  const mutableColumns = typed(columns, "mutable")
  const updateOf = shapesOf(mutableColumns, texts.update, KEY_COLUMNS)
  const names = Object.keys(columns)
  const emptyRow = emptyOf(names)
  /** Reads the rows of a result whose columns are in the declared order. */
  const readValues = (results: ReadonlyArray<ReadonlyArray<unknown>>): ReadonlyArray<Row> =>
    results.map((values) => {
      const row: Record<string, unknown> = { ...emptyRow }
      for (let i = 0; i < names.length; i++) row[names[i]!] = values[i]
      // It has exactly the declared columns.
      return row as object as Row
    })
  const rowsOf = (statement: Statement<object>): Effect.Effect<ReadonlyArray<Row>, SqlError.SqlError> =>
    Effect.map(statement.values, readValues)
  const find = (tenant: Tenant, ids: ReadonlyArray<string>): Sql<ReadonlyMap<string, Row>> =>
    Effect.flatMap(SqlClient.SqlClient, (sql) =>
      Effect.map(
        rowsOf(
          ids.length === 1
            ? sql.unsafe(texts.findOne, [tenant.account_id, tenant.livemode, ids[0]])
            : sql.unsafe(texts.find, [tenant.account_id, tenant.livemode, ids]),
        ),
        (rows) => new Map(rows.map((row) => [row.id, row])),
      ),
    )
  const findOne = (tenant: Tenant, id: string): Sql<Row | undefined> =>
    Effect.flatMap(CurrentRowLoader, (shared) =>
      shared === undefined
        ? Effect.map(find(tenant, [id]), (rows) => rows.get(id))
        : shared.find(name, find, { ...tenantOf(tenant), id }),
    )
  const lock = (refs: ReadonlyArray<Ref>, mode: LockMode = "UPDATE", only = "true"): Sql<ReadonlyArray<Row>> => {
    const [first, ...others] = refs
    if (first === undefined) return Effect.succeed([])
    return Effect.flatMap(SqlClient.SqlClient, (sql) =>
      rowsOf(
        others.length === 0
          ? sql.unsafe(texts.lockOne(mode, only), [first.account_id, first.livemode, first.id])
          : sql.unsafe(texts.lock(mode, only), parametersOf(refs, KEY_COLUMNS)),
      ),
    )
  }
  // Leaves out columns that are null in all rows: null is the default.
  const inserting = (sql: SqlClient.SqlClient, rows: ReadonlyArray<Row>): Statement<{ id: string }> =>
    writing(
      sql,
      insertOf((column) => rows.some((row) => cellOf(row, column) !== null)),
      rows,
    )
  const updating = (sql: SqlClient.SqlClient, changes: ReadonlyArray<Change<Row>>): Statement<object> | undefined => {
    const rows = changes.map(({ after }) => after)
    // If a row changed twice, Postgres would write either change.
    if (new Set(rows.map(({ account_id, livemode, id }) => `${account_id} ${livemode} ${id}`)).size < rows.length)
      throw new Error(`${name}: a row changes twice`)
    const shape = updateOf((column) =>
      changes.some(({ before, after }) => cellOf(before, column) !== cellOf(after, column)),
    )
    return shape.given.length === KEY_COLUMNS.length ? undefined : writing(sql, shape, rows)
  }
  const orMissing = (id: string, row: Row | undefined): Effect.Effect<Row, Problem> =>
    row === undefined ? Effect.fail(noSuch(noun, id)) : Effect.succeed(row)
  return {
    name,
    ids,
    columns,
    mayExist: once !== undefined,
    inserting,
    updating,
    insertNew: (rows) =>
      rows.length === 0
        ? Effect.succeed(new Set())
        : Effect.flatMap(SqlClient.SqlClient, (sql) =>
            Effect.map(inserting(sql, rows), (inserted) => new Set(inserted.map(({ id }) => id))),
          ),
    read: (alias, statement) =>
      Effect.flatMap(SqlClient.SqlClient, (sql) => rowsOf(statement(sql, sql.literal(selected(all, alias))))),
    find,
    get: (tenant, id) => Effect.flatMap(findOne(tenant, id), (row) => orMissing(id, row)),
    lock,
    lockOne: ({ account_id, livemode }, id, mode) =>
      Effect.flatMap(lock([{ account_id, livemode, id }], mode), ([row]) => orMissing(id, row)),
  }
}

type Complete<C, Cols extends Columns> =
  Exclude<keyof C, FieldsOf<Cols>> extends never ? unknown : { readonly missing: Exclude<keyof C, FieldsOf<Cols>> }

type TenantRow<Cols extends Columns> = Ref & Cells<Cols>

/** Declares a table of a tenant's objects: `account_id`, `livemode` and `id`, then the given columns. */
export const table = <const Cols extends Columns>(
  name: string,
  options: Options,
  columns: Cols,
): Table<TenantRow<Cols>> => statements(name, { ...REF, ...columns }, options)

/** The columns of every actor's row, besides its key. */
const actor = columnsOf()
const ACTOR = {
  state: actor.mutable(column.text),
  /** Number of the newest transition in the journal. */
  version: actor.mutable(column.integer),
}

type ActorCells<Cols extends Columns> = TenantRow<Cols> & Omit<Cells<typeof ACTOR>, keyof Cols>

/** Declares a table of actors: {@link table} with `state` and `version`. Every field of the machine's context has a column. */
export const actorTable =
  <C extends object>() =>
  <const Cols extends Columns>(
    name: string,
    options: Options,
    columns: Cols & Complete<C, Cols>,
  ): ActorTable<ActorCells<Cols>, C, SnapshotCells<Cols>> => {
    const all: Readonly<Record<string, Column<unknown, C, PropertyKey>>> = { ...REF, ...ACTOR, ...columns }
    const fromContext = Object.entries(all).flatMap(([column, { contextField }]) =>
      contextField === undefined ? [] : [[column, String(contextField)] as const],
    )
    const fromSnapshot = Object.entries(all).flatMap(([column, { derived }]) =>
      derived === undefined ? [] : [[column, derived] as const],
    )
    const emptyContext = emptyOf(fromContext.map(([, field]) => field))
    const emptyCells = emptyOf([
      "state",
      ...fromContext.map(([column]) => column),
      ...fromSnapshot.map(([column]) => column),
    ])
    const fill = (cells: Record<string, unknown>, state: string, context: C): object => {
      cells.state = state
      for (const [column, field] of fromContext) cells[column] = cellOf(context, field)
      for (const [column, derived] of fromSnapshot) cells[column] = derived(state, context)
      return cells
    }
    return {
      ...statements<ActorCells<Cols>>(name, all, options),
      // The declaration's type has checked that every field exists with its type.
      contextOf: (row) => {
        const context: Record<string, unknown> = { ...emptyContext }
        for (const [column, field] of fromContext) context[field] = cellOf(row, column)
        return context as C
      },
      snapshotColumns: (state, context) => fill({ ...emptyCells }, state, context) as SnapshotCells<Cols>,
      withSnapshot: (row, state, context) => fill({ ...row }, state, context) as ActorCells<Cols>,
    }
  }
