/**
 * This process, as others can tell whether it lives: a number on which it holds an advisory lock for as long as its
 * connection stands. What a dead process was in the middle of is taken over at once (lease.ts).
 */
import { randomInt } from "node:crypto"
import { Context, Effect, Layer, Schedule, Semaphore } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import type { Fragment } from "effect/sql/Statement"
import { LOCKS } from "../postgres/advisoryLocks.ts"

const MAX_RUNNER = 2 ** 31 - 1
/** How soon a lock that was lost with its connection is taken again. */
const HEARTBEAT_MS = 1000

/** The IDs of what this process has in hand, each by the row it was taken as, since when. */
export class InFlightRows {
  readonly #held = new Map<string, { readonly row: object; readonly since: number }>()

  hold(rows: ReadonlyArray<{ readonly id: string }>): void {
    const since = performance.now()
    for (const row of rows) this.#held.set(row.id, { row, since })
  }

  has({ id }: { readonly id: string }): boolean {
    return this.#held.has(id)
  }

  /** Lets go of rows; one that was taken again since stays in hand. */
  release(rows: ReadonlyArray<{ readonly id: string }>): void {
    for (const row of rows) if (this.#held.get(row.id)?.row === row) this.#held.delete(row.id)
  }

  /** What is in hand now; what was taken longer ago than `forgottenAfterMs` was dropped on the way. */
  ids(forgottenAfterMs = Number.POSITIVE_INFINITY): ReadonlyArray<string> {
    const oldest = performance.now() - forgottenAfterMs
    for (const [id, { since }] of this.#held) if (since < oldest) this.#held.delete(id)
    return [...this.#held.keys()]
  }
}

export class ProcessLease extends Context.Service<
  ProcessLease,
  {
    readonly id: number
    /** What this process has in hand by the lease of this name. */
    readonly hand: (lease: string) => InFlightRows
    /**
     * Takes what nobody has in hand by the lease of this name, one take at a time: between a row's new number and the note that it is in
     * hand, it would look dropped to a second take of this process.
     */
    readonly taking: (lease: string) => <A, E, R>(take: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
  }
>()("billing/process/Runner") {
  static readonly layer: Layer.Layer<ProcessLease, SqlError.SqlError, SqlClient.SqlClient> = Layer.effect(
    ProcessLease,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const id = randomInt(1, MAX_RUNNER)
      const hold = Effect.scoped(
        Effect.gen(function* () {
          const connection = yield* sql.reserve
          yield* connection.executeUnprepared(`SELECT pg_advisory_lock(${LOCKS.runner}, ${id})`, [], undefined)
          yield* connection
            .executeUnprepared("SELECT 1", [], undefined)
            .pipe(Effect.repeat(Schedule.spaced(HEARTBEAT_MS)))
        }),
      )
      yield* Effect.forkScoped(
        hold.pipe(
          Effect.tapError((error) => Effect.logWarning("the connection that says this process lives was lost", error)),
          Effect.retry(Schedule.spaced(HEARTBEAT_MS)),
          Effect.ignore,
        ),
      )
      // Nothing may carry this number before the lock is held.
      yield* isHeld(id).pipe(Effect.repeat({ until: (held) => held, schedule: Schedule.spaced(5) }))
      const byLease = new Map<string, { readonly hand: InFlightRows; readonly turn: Semaphore.Semaphore }>()
      const of = (lease: string) => {
        const known = byLease.get(lease) ?? { hand: new InFlightRows(), turn: Semaphore.makeUnsafe(1) }
        byLease.set(lease, known)
        return known
      }
      return ProcessLease.of({
        id,
        hand: (lease) => of(lease).hand,
        taking: (lease) => of(lease).turn.withPermits(1),
      })
    }),
  )
}

const isHeld = Effect.fnUntraced(function* (id: number) {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<{ held: boolean }>`
    SELECT EXISTS (SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND classid = ${LOCKS.runner}::int::oid AND objid = ${id}::int::oid AND granted) AS held`
  return row!.held
})

/** Whether the process whose number is in `column` is dead, as SQL: who lives is asked once for a statement. One's own number is never dead. */
export const isDead = (sql: SqlClient.SqlClient, column: string, own: number): Fragment =>
  sql.literal(
    `(${column} <> ${own} AND ${column} <> ALL (ARRAY(SELECT objid::bigint FROM pg_locks WHERE locktype = 'advisory' AND classid = ${LOCKS.runner}::oid AND granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))))`,
  )
