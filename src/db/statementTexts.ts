/** The texts of a table's statements, each built once, so that they stay prepared. Pure. */
import { REF_COLUMNS, type Typed } from "./rows.ts"

type RowLock = "UPDATE" | "NO KEY UPDATE" | "SHARE" | "KEY SHARE"
export type LockMode = RowLock | `${RowLock} SKIP LOCKED`

/** A statement's text before and behind the rows that it is given. */
export type Around = readonly [before: string, behind: string]

export interface StatementTexts {
  /** Of some columns. */
  readonly insert: (columns: Typed) => Around
  /** Of some columns, of locked rows. */
  readonly update: (columns: Typed) => Around
  /** Of one ID, which is planned once, and of several. */
  readonly findOne: string
  readonly find: string
  /** Likewise. */
  readonly lockOne: (mode: LockMode, only: string) => string
  readonly lock: (mode: LockMode, only: string) => string
}

export const KEY_COLUMNS: Typed = Object.entries(REF_COLUMNS)

const updateText = (table: string, columns: Typed): Around => {
  const set = columns.map(([name]) => `${name} = r.${name}`).join(", ")
  return [
    `UPDATE ${table} t SET ${set} FROM `,
    " r WHERE (t.account_id, t.livemode, t.id) = (r.account_id, r.livemode, r.id)",
  ]
}

const KEYS_GIVEN = "unnest($1, $2, $3) AS u (account_id, livemode, id)"

/** The columns of `alias`, in the order in which they are declared. */
export const selected = (columns: Typed, alias: string): string =>
  columns.map(([name]) => `${alias}.${name}`).join(", ")

/**
 * Locks rows in the order of their IDs, so that no two lockers wait for each other. Each is looked up by its key: a join that was
 * planned while the table was young would read all that the account has.
 */
const lockText =
  (table: string, all: Typed) =>
  (mode: LockMode, only: string): string =>
    `
  SELECT ${selected(all, "t")} FROM (SELECT * FROM ${KEYS_GIVEN} ORDER BY id COLLATE "C") r
  CROSS JOIN LATERAL (
    SELECT * FROM ${table} WHERE (account_id, livemode, id) = (r.account_id, r.livemode, r.id) AND ${only} FOR ${mode}
  ) t`

export const textsOf = (table: string, all: Typed, once: string | undefined): StatementTexts => {
  const unless = once === undefined ? "" : ` ON CONFLICT ${once} DO NOTHING RETURNING id`
  const found = `SELECT ${selected(all, "t")} FROM ${table} t WHERE account_id = $1 AND livemode = $2`
  return {
    insert: (columns) => [
      `INSERT INTO ${table} (${columns.map(([name]) => name).join(", ")}) SELECT * FROM `,
      ` r${unless}`,
    ],
    update: (columns) => updateText(table, columns),
    findOne: `${found} AND id = $3`,
    find: `${found} AND id = ANY($3::text[])`,
    lockOne: (mode, only) => `${found} AND id = $3 AND ${only} FOR ${mode}`,
    lock: lockText(table, all),
  }
}

/** Combinations of a table's columns that are written by themselves, of each kind: what each is part of is kept prepared. */
const MAX_SHAPES = 12

/** What writes some columns of a table. */
export interface Shape {
  /** What its rows are given with: their keys, where they are there already, and what is written. */
  readonly given: Typed
  readonly text: Around
}

/**
 * Statements that write only what has to be written: of a new charge half the columns are empty, of a renewed subscription a
 * third differ. The combinations that come first have a statement each, others write all `columns`.
 */
export const shapesOf = (columns: Typed, textOf: (columns: Typed) => Around, keys: Typed = []) => {
  const shapeOf = (written: Typed): Shape => ({ given: [...keys, ...written], text: textOf(written) })
  const whole = shapeOf(columns)
  const known = new Map<string, Shape>()
  return (isWritten: (name: string) => boolean): Shape => {
    const written = columns.filter(([name]) => isWritten(name))
    const key = written.map(([name]) => name).join()
    const shape = known.get(key)
    if (shape !== undefined) return shape
    if (known.size >= MAX_SHAPES) return whole
    const fresh = shapeOf(written)
    known.set(key, fresh)
    return fresh
  }
}
