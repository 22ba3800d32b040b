/** Rows as parameters: a set-based statement takes its rows as one typed array per column, one row by itself as a parameter per cell. */
import { PgTypes } from "@effect/sql-pg"
import { Result } from "effect"
import { type Fragment, fragment, literal, parameter } from "effect/sql/Statement"
import { types } from "../postgres/codecs.ts"

const { OID } = PgTypes

/** Instants are given as milliseconds since the epoch, jsonb as any value. */
export type ColumnType =
  | "text"
  | "boolean"
  | "smallint"
  | "integer"
  | "bigint"
  | "timestamptz"
  | "jsonb"
  | "date"
  | "bytea"
  | "text[]"

/** How a column travels: the type of its elements, and one cell by itself. jsonb, dates and arrays go as text and are read by the server. */
interface Travel {
  readonly oid: number
  readonly cell: (value: unknown) => PgTypes.Parameter
}

const AS_TEXT: Travel = { oid: OID.text, cell: (value) => PgTypes.text(value as string | null) }

const TRAVELS: Readonly<Record<ColumnType, Travel>> = {
  text: AS_TEXT,
  boolean: { oid: OID.bool, cell: (value) => PgTypes.bool(value as boolean | null) },
  smallint: { oid: OID.int2, cell: (value) => PgTypes.int2(value as number | null) },
  integer: { oid: OID.int4, cell: (value) => PgTypes.int4(value as number | null) },
  bigint: { oid: OID.int8, cell: (value) => PgTypes.int8(value === null ? null : BigInt(value as number)) },
  timestamptz: { oid: OID.timestamptz, cell: (value) => PgTypes.timestamptz(value as number | null) },
  jsonb: AS_TEXT,
  date: AS_TEXT,
  bytea: { oid: OID.bytea, cell: (value) => PgTypes.bytea(value as Uint8Array | null) },
  "text[]": AS_TEXT,
}

/** Columns of a set of rows by name. */
export interface ColumnTypes {
  readonly [name: string]: ColumnType
}

/** A text array as Postgres spells it. */
const arrayLiteral = (items: ReadonlyArray<string>): string =>
  `{${items.map((item) => `"${item.replaceAll(/["\\]/g, "\\$&")}"`).join()}}`

const spell = (value: unknown, type: ColumnType): unknown => {
  if (value === null) return null
  if (type === "jsonb") return JSON.stringify(value)
  return type === "text[]" ? arrayLiteral(value as ReadonlyArray<string>) : value
}

const isSpelt = (type: ColumnType): boolean => type === "jsonb" || type === "text[]"

/** Reads a cell: which names the rows have, whoever declared the columns has checked. */
export const cellOf = (row: object, name: string): unknown => (row as Readonly<Record<string, unknown>>)[name] ?? null

/** One column of `rows` as a parameter. */
export const columnParameter = (rows: ReadonlyArray<object>, name: string, type: ColumnType): PgTypes.Parameter => {
  const values = rows.map(isSpelt(type) ? (row) => spell(cellOf(row, name), type) : (row) => cellOf(row, name))
  return Result.getOrThrow(PgTypes.array(values, TRAVELS[type].oid, types))
}

/** How the server reads a column that arrives as `name`. */
const readColumn = (name: string, type: ColumnType): string =>
  TRAVELS[type] === AS_TEXT && type !== "text" ? `${name}::${type}` : name

/** Columns with their types, in order. */
export type Typed = ReadonlyArray<readonly [name: string, type: ColumnType]>

/** How columns stand in a statement. */
interface Spelt {
  readonly names: string
  readonly read: string
  /** What follows the parameters of the cells of one row. */
  readonly behind: ReadonlyArray<string>
}

/** By the lists of columns, of which there are some hundreds. */
const spellings = new WeakMap<Typed, Spelt>()

const speltOf = (columns: Typed): Spelt => {
  const known = spellings.get(columns)
  if (known !== undefined) return known
  const names = columns.map(([name]) => name).join(", ")
  const read = columns.map(([name, type]) => readColumn(name, type)).join(", ")
  const behind = columns.map(
    ([name, type], index) => `${readColumn("", type)} AS ${name}${index === columns.length - 1 ? "" : ", "}`,
  )
  const fresh = { names, read, behind }
  spellings.set(columns, fresh)
  return fresh
}

/** One row, with a parameter for each cell. */
const oneGiven = (row: object, columns: Typed): Fragment => {
  const { behind } = speltOf(columns)
  const cells = columns.flatMap(([name, type], index) => [
    parameter(TRAVELS[type].cell(spell(cellOf(row, name), type))),
    literal(behind[index]!),
  ])
  return fragment([literal("(SELECT "), ...cells, literal(")")])
}

/** Rows, with a parameter for each column. */
const manyGiven = (rows: ReadonlyArray<object>, columns: Typed): Fragment => {
  const { names, read } = speltOf(columns)
  const parameters = columns.flatMap(([name, type], index) => [
    ...(index === 0 ? [] : [literal(", ")]),
    parameter(columnParameter(rows, name, type)),
  ])
  return fragment([literal(`(SELECT ${read} FROM unnest(`), ...parameters, literal(`) AS u (${names}))`)])
}

/**
 * `rows` as a table expression with these columns, in this order; give it an alias. One row is given as what it is, without a function that
 * unnests: what is planned for many costs a request that is alone a tenth more.
 */
export const rowsAs = (rows: ReadonlyArray<object>, columns: Typed): Fragment => {
  const [first, ...others] = rows
  return first !== undefined && others.length === 0 ? oneGiven(first, columns) : manyGiven(rows, columns)
}

/** By the declarations of columns, of which there are a few dozen. */
const lists = new WeakMap<ColumnTypes, Typed>()

const listOf = (columns: ColumnTypes): Typed => {
  const known = lists.get(columns)
  if (known !== undefined) return known
  const fresh = Object.entries(columns)
  lists.set(columns, fresh)
  return fresh
}

/** `rows` as a table expression, by the declaration of its columns. */
export const rowsAsTable = (rows: ReadonlyArray<object>, columns: ColumnTypes): Fragment =>
  rowsAs(rows, listOf(columns))

/** The names of columns, for an INSERT. */
export const names = (columns: ColumnTypes): Fragment => fragment([literal(speltOf(listOf(columns)).names)])

/** Columns that identify a row. */
export const REF_COLUMNS = { account_id: "text", livemode: "boolean", id: "text" } as const
