/** Rows as parameters: a set-based statement takes its rows as one typed array per column. */
import { PgTypes } from "@effect/sql-pg"
import { Effect, Result } from "effect"
import { SqlClient } from "effect/sql"
import type { Fragment } from "effect/sql/Statement"
import type { Ref } from "./tenant.ts"
import { types } from "./types.ts"

const { OID } = PgTypes

/** Instants are given as milliseconds since the epoch, jsonb as any value. */
export type ColumnType = "text" | "boolean" | "smallint" | "integer" | "bigint" | "timestamptz" | "jsonb" | "date"

/** jsonb and dates travel as text and are read by the server. */
const ELEMENTS: Readonly<Record<ColumnType, number>> = {
  text: OID.text,
  boolean: OID.bool,
  smallint: OID.int2,
  integer: OID.int4,
  bigint: OID.int8,
  timestamptz: OID.timestamptz,
  jsonb: OID.text,
  date: OID.text,
}

export type Columns<Row> = { readonly [K in keyof Row & string]?: ColumnType }

const valuesOf = <Row extends object>(
  rows: ReadonlyArray<Row>,
  name: keyof Row,
  type: ColumnType,
): ReadonlyArray<unknown> =>
  type === "jsonb"
    ? rows.map((row) => (row[name] === null ? null : JSON.stringify(row[name])))
    : rows.map((row) => row[name])

const arrayParameter = (values: ReadonlyArray<unknown>, type: ColumnType): PgTypes.Parameter =>
  Result.getOrThrow(PgTypes.array(values, ELEMENTS[type], types))

/** `rows` as a table expression with these columns, in this order; give it an alias. */
export const records = <Row extends object>(
  sql: SqlClient.SqlClient,
  rows: ReadonlyArray<Row>,
  columns: Columns<Row>,
): Fragment => {
  // Object.entries forgets which names a mapped type has.
  const entries = Object.entries(columns) as unknown as ReadonlyArray<[keyof Row & string, ColumnType]>
  const read = entries
    .map(([name, type]) => (type === "jsonb" || type === "date" ? `${name}::${type}` : name))
    .join(", ")
  const parameters = sql.csv(entries.map(([name, type]) => sql`${arrayParameter(valuesOf(rows, name, type), type)}`))
  return sql`(SELECT ${sql.literal(read)} FROM unnest(${parameters}) AS u (${sql.literal(entries.map(([name]) => name).join(", "))}))`
}

/** The names of columns, for an INSERT. */
export const names = (sql: SqlClient.SqlClient, columns: Columns<never>): Fragment =>
  sql.literal(Object.keys(columns).join(", "))

/** Columns that identify a row. */
export const REF_COLUMNS = { account_id: "text", livemode: "boolean", id: "text" } as const

/** Locks rows of a table and reads them, in ID order: so does everybody, and nobody waits in a circle. */
export const lockRows = <Row extends object>(table: string, refs: ReadonlyArray<Ref>) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    return yield* sql<Row>`
      SELECT a.* FROM ${records(sql, refs, REF_COLUMNS)} r
      JOIN ${sql(table)} a ON (a.account_id, a.livemode, a.id) = (r.account_id, r.livemode, r.id)
      ORDER BY a.id FOR UPDATE OF a`
  })
