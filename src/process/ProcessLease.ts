/**
 * ProcessLease shows other processes that this one is alive: it keeps an advisory lock on its number for as long as its connection is open.
 * Other processes immediately take over the work of a dead one (lease.ts).
 */
import { randomInt } from "node:crypto"
import { Context, Effect, Layer, Schedule, Semaphore } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import type { Fragment } from "effect/sql/Statement"
import { LOCKS } from "../postgres/advisoryLocks.ts"

const MAX_RUNNER = 2 ** 31 - 1
/** How soon a lock is taken again after its connection was lost. */
const HEARTBEAT_MS = 1000

/** InFlightRows keeps the IDs of the rows that this process works on, each with the row object and the time it was taken. */
export class InFlightRows {
  readonly #rows = new Map<string, { readonly row: object; readonly since: number }>()

  hold(rows: ReadonlyArray<{ readonly id: string }>): void {
    const since = performance.now()
    for (const row of rows) this.#rows.set(row.id, { row, since })
  }

  has({ id }: { readonly id: string }): boolean {
    return this.#rows.has(id)
  }

  /** The row object that is in flight with this ID. */
  find({ id }: { readonly id: string }): object | undefined {
    return this.#rows.get(id)?.row
  }

  /** Releases rows; a row that was taken again since stays in flight. */
  release(rows: ReadonlyArray<{ readonly id: string }>): void {
    for (const row of rows) if (this.#rows.get(row.id)?.row === row) this.#rows.delete(row.id)
  }

  /** The IDs in flight now. Rows taken longer ago than `forgottenAfterMs` count as dropped. */
  ids(forgottenAfterMs = Number.POSITIVE_INFINITY): ReadonlyArray<string> {
    const oldest = performance.now() - forgottenAfterMs
    for (const [id, { since }] of this.#rows) if (since < oldest) this.#rows.delete(id)
    return [...this.#rows.keys()]
  }
}

export class ProcessLease extends Context.Service<
  ProcessLease,
  {
    readonly id: number
    /** The rows of this process in flight under the lease of this name. */
    readonly inFlight: (lease: string) => InFlightRows
    /**
     * Takes free rows under the lease of this name, one take at a time: between writing a row's number and noting it as in flight, a second
     * take of this process would see it as dropped.
     */
    readonly takeOneAtATime: (lease: string) => <A, E, R>(take: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
  }
>()("billing/process/ProcessLease") {
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
      // No row may have this number before the lock is taken.
      yield* isLocked(id).pipe(Effect.repeat({ until: (locked) => locked, schedule: Schedule.spaced(5) }))
      const byLease = new Map<string, { readonly inFlight: InFlightRows; readonly turn: Semaphore.Semaphore }>()
      const of = (lease: string) => {
        const entry = byLease.get(lease) ?? { inFlight: new InFlightRows(), turn: Semaphore.makeUnsafe(1) }
        byLease.set(lease, entry)
        return entry
      }
      return ProcessLease.of({
        id,
        inFlight: (lease) => of(lease).inFlight,
        takeOneAtATime: (lease) => of(lease).turn.withPermits(1),
      })
    }),
  )
}

const isLocked = Effect.fnUntraced(function* (id: number) {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<{ locked: boolean }>`
    SELECT EXISTS (SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND classid = ${LOCKS.runner}::int::oid AND objid = ${id}::int::oid AND granted) AS locked`
  return row!.locked
})

/** SQL for whether the process with the number in `column` is dead: a statement reads the living ones once. The own number is never dead. */
export const isDead = (sql: SqlClient.SqlClient, column: string, own: number): Fragment =>
  sql.literal(
    `(${column} <> ${own} AND ${column} <> ALL (ARRAY(SELECT objid::bigint FROM pg_locks WHERE locktype = 'advisory' AND classid = ${LOCKS.runner}::oid AND granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))))`,
  )
