/** Rows as parameters. A set-based statement takes one typed array per column; a statement of one row takes a parameter per cell. */
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

/** How a column is sent: the type of its array elements, and a single cell. jsonb, dates and arrays are sent as text, which the server parses. */
interface Encoding {
  readonly oid: number
  readonly cell: (value: unknown) => PgTypes.Parameter
}

const AS_TEXT: Encoding = { oid: OID.text, cell: (value) => PgTypes.text(value as string | null) }

const ENCODINGS: Readonly<Record<ColumnType, Encoding>> = {
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

/** Formats a text array for Postgres. */
const arrayLiteral = (items: ReadonlyArray<string>): string =>
  `{${items.map((item) => `"${item.replaceAll(/["\\]/g, "\\$&")}"`).join()}}`

const encode = (value: unknown, type: ColumnType): unknown => {
  if (value === null) return null
  if (type === "jsonb") return JSON.stringify(value)
  return type === "text[]" ? arrayLiteral(value as ReadonlyArray<string>) : value
}

const isEncoded = (type: ColumnType): boolean => type === "jsonb" || type === "text[]"

/** Reads a cell. The declaration of the columns has checked its name. */
export const cellOf = (row: object, name: string): unknown => (row as Readonly<Record<string, unknown>>)[name] ?? null

/** One column of `rows` as a parameter. */
export const columnParameter = (rows: ReadonlyArray<object>, name: string, type: ColumnType): PgTypes.Parameter => {
  const values = rows.map(isEncoded(type) ? (row) => encode(cellOf(row, name), type) : (row) => cellOf(row, name))
  return Result.getOrThrow(PgTypes.array(values, ENCODINGS[type].oid, types))
}

/** The SQL that reads a column that arrives as `name`. */
const readColumn = (name: string, type: ColumnType): string =>
  ENCODINGS[type] === AS_TEXT && type !== "text" ? `${name}::${type}` : name

/** Columns with their types, in order. */
export type Typed = ReadonlyArray<readonly [name: string, type: ColumnType]>

/** The SQL texts of a list of columns. */
interface ColumnTexts {
  readonly names: string
  readonly read: string
  /** The text after the parameter of each cell of a single row. */
  readonly suffixes: ReadonlyArray<string>
}

/** Cache by list of columns; there are some hundred lists. */
const columnTexts = new WeakMap<Typed, ColumnTexts>()

const textsOf = (columns: Typed): ColumnTexts => {
  const cached = columnTexts.get(columns)
  if (cached !== undefined) return cached
  const names = columns.map(([name]) => name).join(", ")
  const read = columns.map(([name, type]) => readColumn(name, type)).join(", ")
  const suffixes = columns.map(
    ([name, type], index) => `${readColumn("", type)} AS ${name}${index === columns.length - 1 ? "" : ", "}`,
  )
  const fresh = { names, read, suffixes }
  columnTexts.set(columns, fresh)
  return fresh
}

/** One row, with a parameter for each cell. */
const singleRow = (row: object, columns: Typed): Fragment => {
  const { suffixes } = textsOf(columns)
  const cells = columns.flatMap(([name, type], index) => [
    parameter(ENCODINGS[type].cell(encode(cellOf(row, name), type))),
    literal(suffixes[index]!),
  ])
  return fragment([literal("(SELECT "), ...cells, literal(")")])
}

/** Rows, with a parameter for each column. */
const manyRows = (rows: ReadonlyArray<object>, columns: Typed): Fragment => {
  const { names, read } = textsOf(columns)
  const parameters = columns.flatMap(([name, type], index) => [
    ...(index === 0 ? [] : [literal(", ")]),
    parameter(columnParameter(rows, name, type)),
  ])
  return fragment([literal(`(SELECT ${read} FROM unnest(`), ...parameters, literal(`) AS u (${names}))`)])
}

/**
 * Returns `rows` as a table expression with these columns, in this order; give it an alias. A single row does not use unnest: a plan
 * for many rows makes a lone request a tenth slower.
 */
export const rowsAs = (rows: ReadonlyArray<object>, columns: Typed): Fragment => {
  const [first, ...others] = rows
  return first !== undefined && others.length === 0 ? singleRow(first, columns) : manyRows(rows, columns)
}

/** Cache by declaration of columns; there are a few dozen. */
const lists = new WeakMap<ColumnTypes, Typed>()

const listOf = (columns: ColumnTypes): Typed => {
  const cached = lists.get(columns)
  if (cached !== undefined) return cached
  const fresh = Object.entries(columns)
  lists.set(columns, fresh)
  return fresh
}

/** Returns `rows` as a table expression, by the declaration of its columns. */
export const rowsAsTable = (rows: ReadonlyArray<object>, columns: ColumnTypes): Fragment =>
  rowsAs(rows, listOf(columns))

/** The names of columns, for an INSERT. */
export const names = (columns: ColumnTypes): Fragment => fragment([literal(textsOf(listOf(columns)).names)])

/** Columns that identify a row. */
export const REF_COLUMNS = { account_id: "text", livemode: "boolean", id: "text" } as const
