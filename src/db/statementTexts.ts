/** The SQL texts of a table's statements. Each is built once, so that it stays prepared. Pure. */
import { REF_COLUMNS, type Typed } from "./rows.ts"

type RowLock = "UPDATE" | "NO KEY UPDATE" | "SHARE" | "KEY SHARE"
export type LockMode = RowLock | `${RowLock} SKIP LOCKED`

/** A statement's text before and after its rows. */
export type TextAroundRows = readonly [before: string, behind: string]

export interface StatementTexts {
  /** Inserts some columns. */
  readonly insert: (columns: Typed) => TextAroundRows
  /** Updates some columns of locked rows. */
  readonly update: (columns: Typed) => TextAroundRows
  /** Finds one ID (planned once), or several. */
  readonly findOne: string
  readonly find: string
  /** Locks one ID (planned once), or several. */
  readonly lockOne: (mode: LockMode, only: string) => string
  readonly lock: (mode: LockMode, only: string) => string
}

export const KEY_COLUMNS: Typed = Object.entries(REF_COLUMNS)

const updateText = (table: string, columns: Typed): TextAroundRows => {
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
 * Locks rows in ID order, so that two lockers never wait for each other. Each row is looked up by its key: a join planned while the
 * table was small would read all rows of the account.
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

/** How many combinations of a table's columns get their own statement, of each kind: every prepared statement that contains one is kept. */
const MAX_SHAPES = 12

/** A statement that writes some columns of a table. */
export interface Shape {
  /** The columns of its input rows: the keys (for existing rows) and the written columns. */
  readonly given: Typed
  readonly text: TextAroundRows
}

/**
 * Creates statements that write only the necessary columns: half the columns of a new charge are empty, a third of a renewed subscription
 * differ. The first combinations get their own statement; later ones write all `columns`.
 */
export const shapesOf = (columns: Typed, textOf: (columns: Typed) => TextAroundRows, keys: Typed = []) => {
  const shapeOf = (written: Typed): Shape => ({ given: [...keys, ...written], text: textOf(written) })
  const whole = shapeOf(columns)
  const shapes = new Map<string, Shape>()
  return (isWritten: (name: string) => boolean): Shape => {
    const written = columns.filter(([name]) => isWritten(name))
    const key = written.map(([name]) => name).join()
    const shape = shapes.get(key)
    if (shape !== undefined) return shape
    if (shapes.size >= MAX_SHAPES) return whole
    const fresh = shapeOf(written)
    shapes.set(key, fresh)
    return fresh
  }
}
