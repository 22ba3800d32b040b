/**
 * What one process at a time works on: charges at a rail, clocks that move, claims of idempotency keys, endpoints, nudges.
 * Its row has the process's number in `runner` for as long; what a process that died left there, or what this one dropped,
 * is taken over. A process that merely lost its connection looks dead for a moment: so whoever finishes something proves by
 * a version, a token or a constraint that it is still to be done; the lease alone proves nothing.
 */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import type { Fragment } from "effect/sql/Statement"
import { type InFlightRows, isDead, ProcessLease } from "./ProcessLease.ts"

export interface Lease {
  readonly name: string
  /** The column that says which row is meant, in the hand of a process. */
  readonly key?: "id" | "token"
  /** What is longer in this process's own hand was dropped on the way; absent: whoever holds it says when it ends. */
  readonly forgottenAfterMs?: number
  /** How long after `taken_at` it is left alone: where this process dropped it, and where another one looks dead (in live). */
  readonly grace?: { readonly own: string; readonly dead: string }
}

/** The conditions by which rows are taken, as SQL on the columns of `alias`. */
export interface Taking {
  readonly runner: number
  /** Nobody has it in hand. */
  readonly isFree: (alias: string) => Fragment
  /** Somebody had it in hand, and has not any more. */
  readonly isDropped: (alias: string) => Fragment
}

const conditions = (
  sql: SqlClient.SqlClient,
  { key = "id", grace }: Lease,
  runner: number,
  held: ReadonlyArray<string>,
) => {
  const isDropped = (alias: string): Fragment => {
    const of = (column: string) => sql.literal(`${alias}.${column}`)
    const dead = isDead(sql, `${alias}.runner`, runner)
    const mine = sql`NOT ${of(key)} = ANY(${held}::text[])`
    return grace === undefined
      ? sql`CASE WHEN ${of("runner")} = ${runner} THEN ${mine} ELSE ${dead} END`
      : sql`CASE WHEN ${of("runner")} = ${runner} THEN ${mine} AND ${of("taken_at")} < now() - ${grace.own}::interval
          ELSE ${dead} AND (NOT ${of("livemode")} OR ${of("taken_at")} < now() - ${grace.dead}::interval) END`
  }
  return {
    runner,
    isDropped,
    isFree: (alias: string): Fragment => sql`(${sql.literal(alias)}.runner IS NULL OR ${isDropped(alias)})`,
  }
}

/** The conditions as things stand at this moment. */
export const takingOf = Effect.fnUntraced(function* (lease: Lease) {
  const sql = yield* SqlClient.SqlClient
  const runner = yield* ProcessLease
  return conditions(sql, lease, runner.id, runner.hand(lease.name).ids(lease.forgottenAfterMs)) satisfies Taking
})

const taking = <Row extends { readonly id: string }, E, R>(
  lease: Lease,
  statement: (taking: Taking) => Effect.Effect<ReadonlyArray<Row>, E, R>,
  isTaken: (hand: InFlightRows, row: Row) => boolean,
): Effect.Effect<ReadonlyArray<Row>, E, R | SqlClient.SqlClient | ProcessLease> =>
  Effect.flatMap(ProcessLease, (runner) =>
    runner.taking(lease.name)(
      takingOf(lease).pipe(
        Effect.flatMap(statement),
        Effect.map((rows) => {
          const hand = runner.hand(lease.name)
          const taken = rows.filter((row) => isTaken(hand, row))
          hand.hold(taken)
          return taken
        }),
      ),
    ),
  )

/** Takes the rows that a statement returns (it writes `runner` into them): they are in hand until they are released. */
export const take = <Row extends { readonly id: string }, E, R>(
  lease: Lease,
  statement: (taking: Taking) => Effect.Effect<ReadonlyArray<Row>, E, R>,
) => taking(lease, statement, () => true)

/**
 * As {@link take}, for a statement that takes only what was dropped: what this process has taken in hand since it said what it has
 * (charges that it just committed) looks dropped to the statement, and stays where it is.
 */
export const takeDropped = <Row extends { readonly id: string }, E, R>(
  lease: Lease,
  statement: (taking: Taking) => Effect.Effect<ReadonlyArray<Row>, E, R>,
) => taking(lease, statement, (hand, row) => !hand.has(row))

/** Notes rows as in hand that are about to be written with this process's number. */
export const hold = (lease: Lease, rows: ReadonlyArray<{ readonly id: string }>) =>
  Effect.map(ProcessLease, (runner) => runner.hand(lease.name).hold(rows))

/** Whether a row is in this process's own hand at this moment. */
export const isInHand = (lease: Lease, row: { readonly id: string }) =>
  Effect.map(ProcessLease, (runner) => runner.hand(lease.name).has(row))

/** Lets go of rows, in memory: what is left undone of them may be taken again. */
export const release = (lease: Lease, rows: ReadonlyArray<{ readonly id: string }>) =>
  Effect.map(ProcessLease, (runner) => runner.hand(lease.name).release(rows))

/** Lets go of rows once `work` on them has ended, however it ended. */
export const releasing = <A, E, R>(
  lease: Lease,
  rows: ReadonlyArray<{ readonly id: string }>,
  work: Effect.Effect<A, E, R>,
) => Effect.ensuring(work, release(lease, rows))
