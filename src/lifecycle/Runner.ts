/**
 * This process, as others can tell whether it lives: a number on which it holds an advisory lock for as long as its
 * connection stands. What a dead process was in the middle of is taken over at once. A process that merely lost its
 * connection looks dead for a moment: so what is taken over carries a token or a version of its own, and the constraint
 * on that, not the lock, keeps two from finishing the same thing. Of its own work a process knows by itself.
 */
import { randomInt } from "node:crypto"
import { Context, Effect, Layer, Schedule, Semaphore } from "effect"
import { SqlClient, type SqlError } from "effect/sql"

/** Any number of our own: the class of these locks. */
const RUNNER_LOCKS = 7_301_002
const LARGEST_RUNNER = 2 ** 31 - 1
/** How soon a lock that was lost with its connection is taken anew. */
const HEARTBEAT_MS = 1000

/** Longer than any call to a rail takes: work that is older has been dropped on the way (its transaction failed, say). */
const FORGOTTEN_AFTER_MS = 120_000

/** The IDs of what is being worked on, since when. */
export class InFlight {
  readonly #since = new Map<string, number>()

  add(rows: ReadonlyArray<{ readonly id: string }>): void {
    const now = Date.now()
    for (const { id } of rows) this.#since.set(id, now)
  }

  done(rows: ReadonlyArray<{ readonly id: string }>): void {
    for (const { id } of rows) this.#since.delete(id)
  }

  current(): ReadonlyArray<string> {
    const oldest = Date.now() - FORGOTTEN_AFTER_MS
    for (const [id, since] of this.#since) if (since < oldest) this.#since.delete(id)
    return [...this.#since.keys()]
  }
}

export class Runner extends Context.Service<
  Runner,
  {
    readonly id: number
    /** Charges that this process is handling now: one that carries its number and isn't among them was dropped. */
    readonly inFlight: InFlight
    /** Tokens of the idempotency claims, and IDs of the clocks, that this process has in hand. */
    readonly claims: Set<string>
    readonly clocks: Set<string>
    /** The same of nudges, each with the take that it is in hand by. */
    readonly nudges: Map<string, object>
    /**
     * Takes what nobody has in hand, one take at a time: between a row's new number and the note that it is in hand, it
     * would look dropped to a second take of this process.
     */
    readonly taking: <A, E, R>(take: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
  }
>()("billing/lifecycle/Runner") {
  static readonly layer: Layer.Layer<Runner, SqlError.SqlError, SqlClient.SqlClient> = Layer.effect(
    Runner,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const id = randomInt(1, LARGEST_RUNNER)
      const hold = Effect.scoped(
        Effect.gen(function* () {
          const connection = yield* sql.reserve
          yield* connection.executeUnprepared(`SELECT pg_advisory_lock(${RUNNER_LOCKS}, ${id})`, [], undefined)
          yield* connection
            .executeUnprepared("SELECT 1", [], undefined)
            .pipe(Effect.repeat(Schedule.spaced(HEARTBEAT_MS)))
        }),
      )
      yield* Effect.forkScoped(hold.pipe(Effect.retry(Schedule.spaced(HEARTBEAT_MS)), Effect.ignore))
      // Nothing may carry this number before the lock is held.
      yield* alive(id).pipe(Effect.repeat({ until: (held) => held, schedule: Schedule.spaced(5) }))
      const turn = yield* Semaphore.make(1)
      return Runner.of({
        id,
        inFlight: new InFlight(),
        claims: new Set(),
        clocks: new Set(),
        nudges: new Map(),
        taking: turn.withPermits(1),
      })
    }),
  )
}

const alive = (id: number) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const [row] = yield* sql<{ held: boolean }>`
      SELECT EXISTS (SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND classid = ${RUNNER_LOCKS}::int::oid AND objid = ${id}::int::oid AND granted) AS held`
    return row!.held
  })

/** Whether the process whose number is in `column` is dead, as SQL. One's own number is never dead. */
export const isDead = (sql: SqlClient.SqlClient, column: string, own: number) =>
  sql.literal(
    `(${column} <> ${own} AND NOT EXISTS (SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND classid = ${RUNNER_LOCKS}::oid AND objid = ${column}::oid AND granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())))`,
  )
