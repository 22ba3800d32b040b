/**
 * A table, declared once: each column with its type, whether it changes, and what of a machine's context it mirrors or how
 * it follows from the state. The declaration gives the row's type, insert, update, look-ups and locks, and the machine's
 * context from a row and back. The texts of its statements are in statementTexts.ts. test/schema.test.ts holds declarations to the database's catalogue.
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

/** What becomes of a column: `fixed` ones are written once, `moving` ones whenever they change. */
type Life = "immutable" | "mutable"

/** How a column's value follows from a machine's snapshot. */
type Derived<C, V> = (state: string, context: C) => V

/** Where a column's value comes from: a field of the context, the snapshot as a whole, or (never) its noun. */
type FromSnapshot = "(follows)"

export interface Column<V, C, From extends PropertyKey> {
  readonly kind: column.ColumnKind<V>
  readonly life: Life
  /** The field of the context that it mirrors. */
  readonly contextField: From | undefined
  readonly derived: Derived<C, V> | undefined
}

type Mirrorable<C, V> = { readonly [K in keyof C]: C[K] extends V ? K : never }[keyof C]

interface Declare<C> {
  <V>(kind: column.ColumnKind<V>): Column<V, C, never>
  <V, const K extends Mirrorable<C, V>>(kind: column.ColumnKind<V>, mirrors: K): Column<V, C, K>
  <V>(kind: column.ColumnKind<V>, follows: Derived<C, V>): Column<V, C, FromSnapshot>
}

const declareAs = <C>(life: Life): Declare<C> => {
  function declare<V>(of: column.ColumnKind<V>): Column<V, C, never>
  function declare<V, const K extends Mirrorable<C, V>>(of: column.ColumnKind<V>, mirrors: K): Column<V, C, K>
  function declare<V>(of: column.ColumnKind<V>, follows: Derived<C, V>): Column<V, C, FromSnapshot>
  function declare<V>(of: column.ColumnKind<V>, from?: PropertyKey | Derived<C, V>): Column<V, C, PropertyKey> {
    return typeof from === "function"
      ? { kind: of, life, contextField: undefined, derived: from }
      : { kind: of, life, contextField: from, derived: undefined }
  }
  return declare
}

/** The ways to declare the columns of a table whose rows hold a machine's context `C` (of none: `object`). */
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
type MirroredBy<Cols extends Columns> = Exclude<{ [K in keyof Cols]: SourceOf<Cols[K]> }[keyof Cols], FromSnapshot>
/** The columns that a snapshot decides. */
type SnapshotCells<Cols extends Columns> = { readonly state: string } & {
  readonly [K in keyof Cols as [SourceOf<Cols[K]>] extends [never] ? never : K]: Cells<Cols>[K]
}

type Sql<A, E = never> = Effect.Effect<A, SqlError.SqlError | E, SqlClient.SqlClient>

/** A locked row as it was read, and as it is to be. */
export interface Change<Row> {
  readonly before: Row
  readonly after: Row
}

/** The statements of a table. Methods, so that a table of some rows is also one of rows in general. */
export interface Table<Row extends Ref> {
  readonly name: string
  /** The kind of its IDs, where they are in order of creation. */
  readonly ids: IdKind | undefined
  readonly columns: Readonly<Record<string, AnyColumn>>
  /** Whether a row that is inserted may exist already: then it is left as it is. */
  readonly mayExist: boolean
  /** The statement that inserts rows, at least one. */
  inserting(sql: SqlClient.SqlClient, rows: ReadonlyArray<Row>): Statement<object>
  /** The statement that writes the mutable columns that differ, of locked rows; undefined where none do. */
  updating(sql: SqlClient.SqlClient, changes: ReadonlyArray<Change<Row>>): Statement<object> | undefined
  /** Inserts rows now, of a table with `once`; returns the IDs of those that were not there already. */
  insertNew(rows: ReadonlyArray<Row>): Sql<ReadonlySet<string>>
  /** Rows that a statement of one's own finds: it selects `columns`, which are those of `alias`. */
  read(
    alias: string,
    statement: (sql: SqlClient.SqlClient, columns: Fragment) => Statement<object>,
  ): Sql<ReadonlyArray<Row>>
  /** The tenant's rows with these IDs, by ID. */
  find(tenant: Tenant, ids: ReadonlyArray<string>): Sql<ReadonlyMap<string, Row>>
  /** The tenant's row with this ID; fails with `resource_missing`. */
  get(tenant: Tenant, id: string): Sql<Row, Problem>
  /**
   * Locks rows and reads them, in ID order: so does everybody, and no two transactions wait for each other. Those that somebody else
   * holds are waited for, or left out (`SKIP LOCKED`). `only`: those for which this holds, a condition in SQL.
   */
  lock(refs: ReadonlyArray<Ref>, mode?: LockMode, only?: string): Sql<ReadonlyArray<Row>>
  /** Locks the tenant's row with this ID and reads it; fails with `resource_missing`. */
  lockOne(tenant: Tenant, id: string, mode?: LockMode): Sql<Row, Problem>
}

/** A table whose rows are the snapshots of a machine with the context `C`. */
export interface ActorTable<Row extends Ref, C, Snapshot = object> extends Table<Row> {
  /** The machine's context as the row has it. */
  contextOf(row: Row): C
  /** The columns that follow from a snapshot, `state` among them. */
  snapshotColumns(state: string, context: C): Snapshot
  /** A copy of the row with the columns that follow from a snapshot. */
  withSnapshot(row: Row, state: string, context: C): Row
}

export type RowOf<T> = T extends Table<infer Row> ? Row : never

interface Options {
  /** What messages call one of its objects. */
  readonly noun: string
  /** The kind of its IDs, where lists are in their order. */
  readonly ids?: IdKind
  /** The unique key by which a row that is there already is left alone, as ON CONFLICT names it. */
  readonly once?: string
}

const KEY = columnsOf().immutable
const REF = { account_id: KEY(column.text), livemode: KEY(column.flag), id: KEY(column.text) }

const typed = (columns: Readonly<Record<string, AnyColumn>>, ...lives: ReadonlyArray<Life>): Typed =>
  Object.entries(columns).flatMap(([name, { life, kind }]) => (lives.includes(life) ? [[name, kind.sql] as const] : []))

const parametersOf = (rows: ReadonlyArray<object>, columns: Typed): ReadonlyArray<unknown> =>
  columns.map(([name, type]) => columnParameter(rows, name, type))

/**
 * An object with these fields, to be copied and filled. V8 keeps a parsed object and its copies in its fast form; one that
 * grows by computed names it turns into a hash table, several times as slow to read and to copy.
 */
const emptyOf = (fields: ReadonlyArray<string>): Readonly<Record<string, unknown>> =>
  JSON.parse(JSON.stringify(Object.fromEntries(fields.map((field) => [field, null]))))

/** A statement that may be part of another. */
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
  const moving = typed(columns, "mutable")
  const updateOf = shapesOf(moving, texts.update, KEY_COLUMNS)
  const names = Object.keys(columns)
  const emptyRow = emptyOf(names)
  /** The rows of a result that has the columns in the order in which they are declared. */
  const readValues = (results: ReadonlyArray<ReadonlyArray<unknown>>): ReadonlyArray<Row> =>
    results.map((values) => {
      const row: Record<string, unknown> = { ...emptyRow }
      for (let i = 0; i < names.length; i++) row[names[i]!] = values[i]
      // Its columns are those that the declaration gives a row.
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
  // A column that is null in all rows is left out: it is null by default.
  const inserting = (sql: SqlClient.SqlClient, rows: ReadonlyArray<Row>): Statement<{ id: string }> =>
    writing(
      sql,
      insertOf((column) => rows.some((row) => cellOf(row, column) !== null)),
      rows,
    )
  const updating = (sql: SqlClient.SqlClient, changes: ReadonlyArray<Change<Row>>): Statement<object> | undefined => {
    const rows = changes.map(({ after }) => after)
    // Of two changes of one row Postgres would write either.
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
  Exclude<keyof C, MirroredBy<Cols>> extends never ? unknown : { readonly missing: Exclude<keyof C, MirroredBy<Cols>> }

type TenantRow<Cols extends Columns> = Ref & Cells<Cols>

/** Declares a table of a tenant's objects, with `account_id`, `livemode` and `id` before its own columns. */
export const table = <const Cols extends Columns>(
  name: string,
  options: Options,
  columns: Cols,
): Table<TenantRow<Cols>> => statements(name, { ...REF, ...columns }, options)

/** What the runtime needs of every actor's row beside its key. */
const actor = columnsOf()
const ACTOR = {
  state: actor.mutable(column.text),
  /** Number of the newest transition in the journal. */
  version: actor.mutable(column.integer),
}

type ActorCells<Cols extends Columns> = TenantRow<Cols> & Omit<Cells<typeof ACTOR>, keyof Cols>

/** Declares a table of actors: {@link table} with `state` and `version`. Every field of the machine's context is mirrored. */
export const actorTable =
  <C extends object>() =>
  <const Cols extends Columns>(
    name: string,
    options: Options,
    columns: Cols & Complete<C, Cols>,
  ): ActorTable<ActorCells<Cols>, C, SnapshotCells<Cols>> => {
    const all: Readonly<Record<string, Column<unknown, C, PropertyKey>>> = { ...REF, ...ACTOR, ...columns }
    const mirrored = Object.entries(all).flatMap(([column, { contextField }]) =>
      contextField === undefined ? [] : [[column, String(contextField)] as const],
    )
    const following = Object.entries(all).flatMap(([column, { derived }]) =>
      derived === undefined ? [] : [[column, derived] as const],
    )
    const emptyContext = emptyOf(mirrored.map(([, field]) => field))
    const emptyCells = emptyOf(["state", ...mirrored.map(([column]) => column), ...following.map(([column]) => column)])
    const fill = (cells: Record<string, unknown>, state: string, context: C): object => {
      cells.state = state
      for (const [column, field] of mirrored) cells[column] = cellOf(context, field)
      for (const [column, follows] of following) cells[column] = follows(state, context)
      return cells
    }
    return {
      ...statements<ActorCells<Cols>>(name, all, options),
      // That every field is there, and of its type, the declaration's own type has checked.
      contextOf: (row) => {
        const context: Record<string, unknown> = { ...emptyContext }
        for (const [column, field] of mirrored) context[field] = cellOf(row, column)
        return context as C
      },
      snapshotColumns: (state, context) => fill({ ...emptyCells }, state, context) as SnapshotCells<Cols>,
      withSnapshot: (row, state, context) => fill({ ...row }, state, context) as ActorCells<Cols>,
    }
  }
