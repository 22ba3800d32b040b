/** What columns hold: their types in Postgres and in TypeScript. Imported as a whole: `Kind.nullable(Kind.instant)`. */
import type { ColumnType } from "./rows.ts"

/** What a column holds. `V` is its type in TypeScript: instants are milliseconds since the epoch. */
export interface Kind<V> {
  readonly sql: ColumnType
  readonly nullable: boolean
  /** The values that a CHECK of the table allows. */
  readonly literals?: ReadonlyArray<string>
  /** Never there: it carries the type. */
  readonly value?: V
}

const kind = <V>(sql: ColumnType): Kind<V> => ({ sql, nullable: false })

export const text: Kind<string> = kind("text")
export const texts: Kind<ReadonlyArray<string>> = kind("text[]")
export const flag: Kind<boolean> = kind("boolean")
export const smallint: Kind<number> = kind("smallint")
export const integer: Kind<number> = kind("integer")
export const bigint: Kind<number> = kind("bigint")
export const instant: Kind<number> = kind("timestamptz")
export const json = <V>(): Kind<V> => kind("jsonb")
/** One of an enumeration's literals. */
export const oneOf = <const L extends ReadonlyArray<string>>(literals: L): Kind<L[number]> => ({
  ...kind<L[number]>("text"),
  literals,
})
/** Some of an enumeration's literals, in order. */
export const someOf = <const L extends ReadonlyArray<string>>(literals: L): Kind<ReadonlyArray<L[number]>> => ({
  ...kind<ReadonlyArray<L[number]>>("text[]"),
  literals,
})
export const nullable = <V>(of: Kind<V>): Kind<V | null> => ({ ...of, nullable: true }) as Kind<V | null>
