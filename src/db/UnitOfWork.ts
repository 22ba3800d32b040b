/**
 * UnitOfWork collects the writes of the running transaction and sends them as one statement, at COMMIT or before the next read: rows of
 * tables, parts with their own tables (journal, timers, entries, events), and expectations.
 */
import { Effect } from "effect"
import type { SqlClient } from "effect/sql"
import type { Fragment, Statement } from "effect/sql/Statement"
import type { PendingStatement, PendingWrites } from "../postgres/connection.ts"
import { sqlStateOf } from "../postgres/errors.ts"
import { CurrentTransaction } from "../postgres/transaction.ts"
import { Causes } from "./Causes.ts"
import type { Change, Table } from "./table.ts"
import type { Ref } from "./tenant.ts"

/** A named part (CTE) of a statement. Later parts can refer to its result by name. */
type CtePart = readonly [name: string, statement: Statement<object>]

/** A part that is added: its statement, or a function that makes it when it is sent. */
export type AddedPart = readonly [name: string, statement: Statement<object> | (() => Statement<object>)]

/** A condition that must be true when the statement runs: a part that returns exactly this many rows. */
export interface Expectation {
  readonly name: string
  readonly statement: Statement<object>
  readonly rows: number
}

/** The SQLSTATE of a statement that refuses to write because an expectation is not met. */
const CONFLICT = "BK001"

/** Whether a transaction wrote nothing because an expectation was not met. */
export const isConflict = (error: unknown): boolean => sqlStateOf(error) === CONFLICT

const keyOf = ({ account_id, livemode, id }: Ref): string => `${account_id} ${livemode} ${id}`

/** The writes of one statement. They do not see each other: a write that must see an earlier one belongs to the next statement. */
class Batch {
  readonly updates = new Map<Table<Ref>, Array<Change<Ref>>>()
  readonly #updated = new Set<string>()
  readonly inserts = new Map<Table<Ref>, Array<Ref>>()
  readonly #inserted = new Set<string>()
  readonly parts = new Map<string, AddedPart[1]>()
  readonly received = new Map<string, (rows: ReadonlyArray<object>) => void>()
  readonly calls: Array<Fragment> = []
  readonly expectations: Array<Expectation> = []

  takesUpdates({ name }: Table<Ref>, changes: ReadonlyArray<Change<Ref>>): boolean {
    return changes.every(({ after }) => {
      const key = `${name} ${keyOf(after)}`
      return !this.#updated.has(key) && !this.#inserted.has(key)
    })
  }

  update(table: Table<Ref>, changes: ReadonlyArray<Change<Ref>>): void {
    const all = this.updates.get(table)
    if (all === undefined) this.updates.set(table, [...changes])
    else all.push(...changes)
    for (const { after } of changes) this.#updated.add(`${table.name} ${keyOf(after)}`)
  }

  insert(table: Table<Ref>, rows: ReadonlyArray<Ref>): void {
    const all = this.inserts.get(table)
    if (all === undefined) this.inserts.set(table, [...rows])
    else all.push(...rows)
    for (const row of rows) this.#inserted.add(`${table.name} ${keyOf(row)}`)
  }
}

const build = (
  sql: SqlClient.SqlClient,
  { updates, inserts, parts, received, calls, expectations }: Batch,
  opening: Fragment | undefined,
): Statement<object> | undefined => {
  const written: Array<CtePart> = []
  for (const [table, changes] of updates) {
    const statement = table.updating(sql, changes)
    if (statement !== undefined) written.push([`${table.name}_updated`, statement])
  }
  for (const [table, rows] of inserts) written.push([`${table.name}_inserted`, table.inserting(sql, rows)!])
  for (const [name, part] of parts) written.push([name, typeof part === "function" ? part() : part])
  written.push(...expectations.map(({ name, statement }): CtePart => [name, statement]))
  const columns = [
    ...expectations.map(
      ({ name, rows }) => sql`expect_rows(${name}, (SELECT count(*) FROM ${sql.literal(name)}), ${rows})`,
    ),
    ...calls,
    ...[...received.keys()].map(
      (name) => sql`(SELECT json_agg(r) FROM ${sql.literal(name)} r) AS ${sql.literal(name)}`,
    ),
  ]
  const withAll = (all: ReadonlyArray<CtePart>, last: Statement<object>) =>
    all.length === 0
      ? last
      : sql`WITH ${sql.csv(all.map(([name, part]) => sql`${sql.literal(name)} AS (${part})`))} ${last}`
  if (columns.length > 0 || opening !== undefined) {
    // Without columns it returns one empty row. OFFSET keeps the planner from removing the opening.
    const selected = columns.length === 0 ? sql`SELECT` : sql`SELECT ${sql.csv(columns)}`
    const last = opening === undefined ? selected : sql`${selected} FROM (SELECT ${opening} OFFSET 0) opening`
    return withAll(written, last as Statement<object>)
  }
  const last = written.pop()
  return last === undefined ? undefined : withAll(written, last[1])
}

export class UnitOfWork implements PendingWrites {
  readonly sql: SqlClient.SqlClient
  readonly causes = new Causes()
  #batches: Array<Batch> = []

  constructor(sql: SqlClient.SqlClient) {
    this.sql = sql
  }

  get size(): number {
    return this.#batches.length
  }

  /** Returns the newest batch if it can take a write, else a new one. */
  #batch(takes: (batch: Batch) => boolean): Batch {
    const newest = this.#batches.at(-1)
    if (newest !== undefined && takes(newest)) return newest
    const fresh = new Batch()
    this.#batches.push(fresh)
    return fresh
  }

  /** Inserts rows. */
  insert<Row extends Ref>(table: Table<Row>, rows: ReadonlyArray<Row>): void {
    if (rows.length > 0)
      // Updates come before inserts of the same table: a finished row frees a unique key for a new one, such as the next attempt at a bill.
      this.#batch(({ updates }) => !updates.has(table)).insert(table, rows)
  }

  /** Writes the mutable columns that differ. The rows must be locked. */
  update<Row extends Ref>(table: Table<Row>, changes: ReadonlyArray<Change<Row>>): void {
    const differing = changes.filter(({ before, after }) => before !== after)
    if (differing.length > 0) this.#batch((batch) => batch.takesUpdates(table, differing)).update(table, differing)
  }

  /**
   * Adds parts, which may refer to each other by name and to no other part. A function of `received` gets the rows of its part, by name.
   */
  add(
    parts: ReadonlyArray<AddedPart>,
    received: { readonly [name: string]: (rows: ReadonlyArray<object>) => void } = {},
  ): void {
    if (parts.length === 0) return
    const batch = this.#batch((newest) => parts.every(([name]) => !newest.parts.has(name)))
    for (const [name, statement] of parts) batch.parts.set(name, statement)
    for (const [name, receive] of Object.entries(received)) batch.received.set(name, receive)
  }

  /** Calls a function of the database that writes. */
  call(expression: Fragment): void {
    this.#batch(() => true).calls.push(expression)
  }

  /** Adds a condition: if it is not met, the transaction fails (`isConflict`) and writes nothing. */
  expect(expectation: Expectation): void {
    this.#batch(({ expectations }) => expectations.every(({ name }) => name !== expectation.name)).expectations.push(
      expectation,
    )
  }

  take(opening?: Fragment): ReadonlyArray<PendingStatement> {
    const batches = this.#batches
    this.#batches = []
    return batches.flatMap((batch) => {
      const statement = build(this.sql, batch, opening)
      if (statement === undefined) return []
      const received = ([row]: ReadonlyArray<object>): void => {
        for (const [name, receive] of batch.received)
          receive((row as Readonly<Record<string, ReadonlyArray<object> | null>>)[name] ?? [])
      }
      return [{ statement, received }]
    })
  }
}

/** The unit of work of the running transaction. */
export const unitOfWork: Effect.Effect<UnitOfWork> = Effect.flatMap(CurrentTransaction, (transaction) =>
  transaction?.pending instanceof UnitOfWork
    ? Effect.succeed(transaction.pending)
    : Effect.die(new Error("A write outside of a transaction.")),
)
