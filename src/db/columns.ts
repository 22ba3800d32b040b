/** The types of columns in Postgres and in TypeScript. Imported as a namespace: `column.nullable(column.instant)`. */
import type { ColumnType } from "./rows.ts"

/** The type of a column. `V` is its type in TypeScript: instants are milliseconds since the epoch. */
export interface ColumnKind<V> {
  readonly sql: ColumnType
  readonly nullable: boolean
  /** The values that a CHECK of the table allows. */
  readonly literals?: ReadonlyArray<string>
  /** Never set: it only carries the type. */
  readonly value?: V
}

const kind = <V>(sql: ColumnType): ColumnKind<V> => ({ sql, nullable: false })

export const text: ColumnKind<string> = kind("text")
export const texts: ColumnKind<ReadonlyArray<string>> = kind("text[]")
export const flag: ColumnKind<boolean> = kind("boolean")
export const smallint: ColumnKind<number> = kind("smallint")
export const integer: ColumnKind<number> = kind("integer")
export const bigint: ColumnKind<number> = kind("bigint")
export const instant: ColumnKind<number> = kind("timestamptz")
export const json = <V>(): ColumnKind<V> => kind("jsonb")
/** A column with one of an enumeration's literals. */
export const oneOf = <const L extends ReadonlyArray<string>>(literals: L): ColumnKind<L[number]> => ({
  ...kind<L[number]>("text"),
  literals,
})
/** A column with some of an enumeration's literals, in order. */
export const someOf = <const L extends ReadonlyArray<string>>(literals: L): ColumnKind<ReadonlyArray<L[number]>> => ({
  ...kind<ReadonlyArray<L[number]>>("text[]"),
  literals,
})
export const nullable = <V>(of: ColumnKind<V>): ColumnKind<V | null> =>
  ({ ...of, nullable: true }) as ColumnKind<V | null>
