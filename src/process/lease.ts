/**
 * A lease marks rows that one process at a time works on: charges at a rail, calls to rails, moving clocks, unfinished requests with an Idempotency-Key, endpoints, nudges. The row has
 * the process's number in `runner`. Rows of a dead process, or rows that this process dropped, are taken over. A process that only lost its
 * connection looks dead for a moment. So the code that finishes a row checks by a version, a token or a constraint that it is still open; the
 * lease alone proves nothing.
 */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import type { Fragment } from "effect/sql/Statement"
import { type InFlightRows, isDead, ProcessLease } from "./ProcessLease.ts"

export interface Lease {
  readonly name: string
  /** The column that identifies a row among those in flight. */
  readonly key?: "id" | "token"
  /** Rows in flight for longer than this in this process count as dropped; absent: the caller releases them. */
  readonly forgottenAfterMs?: number
  /** How long after `taken_at` a row is left alone: if this process dropped it, and if another process looks dead (in live). */
  readonly grace?: { readonly own: string; readonly dead: string }
}

/** The conditions by which rows are taken, as SQL on the columns of `alias`. */
export interface Taking {
  readonly runner: number
  /** No process works on the row. */
  readonly isFree: (alias: string) => Fragment
  /** A process worked on the row and no longer does. */
  readonly isDropped: (alias: string) => Fragment
}

const conditions = (
  sql: SqlClient.SqlClient,
  { key = "id", grace }: Lease,
  runner: number,
  inFlightIds: ReadonlyArray<string>,
) => {
  const isDropped = (alias: string): Fragment => {
    const of = (column: string) => sql.literal(`${alias}.${column}`)
    const dead = isDead(sql, `${alias}.runner`, runner)
    const droppedHere = sql`NOT ${of(key)} = ANY(${inFlightIds}::text[])`
    return grace === undefined
      ? sql`CASE WHEN ${of("runner")} = ${runner} THEN ${droppedHere} ELSE ${dead} END`
      : sql`CASE WHEN ${of("runner")} = ${runner} THEN ${droppedHere} AND ${of("taken_at")} < now() - ${grace.own}::interval
          ELSE ${dead} AND (NOT ${of("livemode")} OR ${of("taken_at")} < now() - ${grace.dead}::interval) END`
  }
  return {
    runner,
    isDropped,
    isFree: (alias: string): Fragment => sql`(${sql.literal(alias)}.runner IS NULL OR ${isDropped(alias)})`,
  }
}

/** Returns the conditions at this moment. */
export const takingOf = Effect.fnUntraced(function* (lease: Lease) {
  const sql = yield* SqlClient.SqlClient
  const runner = yield* ProcessLease
  return conditions(sql, lease, runner.id, runner.inFlight(lease.name).ids(lease.forgottenAfterMs)) satisfies Taking
})

const taking = <Row extends { readonly id: string }, E, R>(
  lease: Lease,
  statement: (taking: Taking) => Effect.Effect<ReadonlyArray<Row>, E, R>,
  isTaken: (inFlight: InFlightRows, row: Row) => boolean,
): Effect.Effect<ReadonlyArray<Row>, E, R | SqlClient.SqlClient | ProcessLease> =>
  Effect.flatMap(ProcessLease, (runner) =>
    runner.takeOneAtATime(lease.name)(
      takingOf(lease).pipe(
        Effect.flatMap(statement),
        Effect.map((rows) => {
          const inFlight = runner.inFlight(lease.name)
          const taken = rows.filter((row) => isTaken(inFlight, row))
          inFlight.hold(taken)
          return taken
        }),
      ),
    ),
  )

/** Takes the rows that a statement returns (it writes `runner` into them): they are in flight until they are released. */
export const take = <Row extends { readonly id: string }, E, R>(
  lease: Lease,
  statement: (taking: Taking) => Effect.Effect<ReadonlyArray<Row>, E, R>,
) => taking(lease, statement, () => true)

/**
 * Like {@link take}, for a statement that takes only dropped rows. Rows that this process took after it listed its own (charges that it just
 * committed) look dropped to the statement; they are left out.
 */
export const takeDropped = <Row extends { readonly id: string }, E, R>(
  lease: Lease,
  statement: (taking: Taking) => Effect.Effect<ReadonlyArray<Row>, E, R>,
) => taking(lease, statement, (inFlight, row) => !inFlight.has(row))

/** Marks rows as in flight before they are written with this process's number. */
export const markInFlight = (lease: Lease, rows: ReadonlyArray<{ readonly id: string }>) =>
  Effect.map(ProcessLease, (runner) => runner.inFlight(lease.name).hold(rows))

/** Whether a row is in flight in this process now. */
export const isInFlight = (lease: Lease, row: { readonly id: string }) =>
  Effect.map(ProcessLease, (runner) => runner.inFlight(lease.name).has(row))

/** Releases rows in memory: unfinished ones may be taken again. */
export const release = (lease: Lease, rows: ReadonlyArray<{ readonly id: string }>) =>
  Effect.map(ProcessLease, (runner) => runner.inFlight(lease.name).release(rows))

/** Releases rows when `work` on them has ended, in every case. */
export const releasing = <A, E, R>(
  lease: Lease,
  rows: ReadonlyArray<{ readonly id: string }>,
  work: Effect.Effect<A, E, R>,
) => Effect.ensuring(work, release(lease, rows))
