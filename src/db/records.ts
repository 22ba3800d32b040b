/** Rows as parameters: a set-based statement takes its rows as one typed array per column. */
import { PgTypes } from "@effect/sql-pg"
import { Result } from "effect"
import type { SqlClient } from "effect/sql"
import { type Fragment, fragment, literal, parameter } from "effect/sql/Statement"
import { types } from "./types.ts"

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
  | "text[]"

/** jsonb, dates and arrays travel as text and are read by the server. */
const ELEMENTS: Readonly<Record<ColumnType, number>> = {
  text: OID.text,
  boolean: OID.bool,
  smallint: OID.int2,
  integer: OID.int4,
  bigint: OID.int8,
  timestamptz: OID.timestamptz,
  jsonb: OID.text,
  date: OID.text,
  "text[]": OID.text,
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

/** One column of `rows` as a parameter. */
export const columnParameter = (rows: ReadonlyArray<object>, name: string, type: ColumnType): PgTypes.Parameter => {
  // Which names the rows have, whoever declared the columns has checked.
  const values = (rows as ReadonlyArray<Readonly<Record<string, unknown>>>).map(
    isSpelt(type) ? (row) => spell(row[name], type) : (row) => row[name],
  )
  return Result.getOrThrow(PgTypes.array(values, ELEMENTS[type], types))
}

/** How the server reads a column that arrives as `name`. */
export const readColumn = (name: string, type: ColumnType): string =>
  ELEMENTS[type] === OID.text && type !== "text" ? `${name}::${type}` : name

/** Parameters, one behind the other. */
export const listed = (parameters: ReadonlyArray<unknown>): Fragment =>
  fragment(parameters.flatMap((value, index) => (index === 0 ? [parameter(value)] : [literal(", "), parameter(value)])))

/** How columns stand in a statement. */
interface Spelt {
  readonly entries: ReadonlyArray<readonly [string, ColumnType]>
  readonly names: string
  readonly read: string
}

/** By the declarations of columns, of which there are a few dozen. */
const spellings = new WeakMap<ColumnTypes, Spelt>()

const spelt = (columns: ColumnTypes): Spelt => {
  const known = spellings.get(columns)
  if (known !== undefined) return known
  const entries = Object.entries(columns)
  const names = entries.map(([name]) => name).join(", ")
  const read = entries.map(([name, type]) => readColumn(name, type)).join(", ")
  const fresh = { entries, names, read }
  spellings.set(columns, fresh)
  return fresh
}

/** `rows` as a table expression with these columns, in this order; give it an alias. */
export const records = (sql: SqlClient.SqlClient, rows: ReadonlyArray<object>, columns: ColumnTypes): Fragment => {
  const { entries, names, read } = spelt(columns)
  const parameters = entries.map(([name, type]) => columnParameter(rows, name, type))
  return sql`(SELECT ${sql.literal(read)} FROM unnest(${listed(parameters)}) AS u (${sql.literal(names)}))`
}

/** The names of columns, for an INSERT. */
export const names = (sql: SqlClient.SqlClient, columns: ColumnTypes): Fragment => sql.literal(spelt(columns).names)

/** Columns that identify a row. */
export const REF_COLUMNS = { account_id: "text", livemode: "boolean", id: "text" } as const
