/**
 * A connection that has one user at a time. Its transaction begins with its first statement: BEGIN, the opening and that statement are sent
 * together. Pending writes are sent before the next statement, or together with COMMIT.
 */
import type { PgConnection } from "@effect/sql-pg"
import { Effect, Scheduler, Stream } from "effect"
import type { SqlClient, SqlError } from "effect/sql"
import type { Connection } from "effect/sql/SqlConnection"
import type { Fragment, Statement } from "effect/sql/Statement"
import { sqlStateOf } from "./errors.ts"
import { enqueueTo, hasFailed, type Tail } from "./pipelining.ts"
import { rolledBack } from "./rollback.ts"

/** A statement that writes, and the function that gets the rows that it returns. */
export interface PendingStatement {
  readonly statement: Statement<object>
  readonly received: (rows: ReadonlyArray<object>) => void
}

/** Writes of a transaction that have not been sent. */
export interface PendingWrites {
  /** How many statements write them. */
  readonly size: number
  /**
   * Removes all of them and returns their statements, in order. If `opening` (an expression) is given, the statement evaluates it
   * before anything else; there must be one statement.
   */
  take(opening?: Fragment): ReadonlyArray<PendingStatement>
}

export interface Transaction {
  readonly sql: SqlClient.SqlClient
  /** The statement that begins it. */
  readonly begin: string
  /** An expression that is evaluated right after BEGIN; without it the database refuses all writes. */
  readonly opening: Fragment | undefined
  readonly pending: PendingWrites
  readonly tail: Tail
  /** Effects that undo changes in memory if the transaction is not committed, or if that is unknown. */
  readonly onRollback: Array<Effect.Effect<void>>
  /** Whether an earlier try failed because the rows that it read had changed. */
  readonly isRetry: boolean
}

/** Runs effects without letting other fibers run in between. */
const withoutYielding = <A, E, R>(steps: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.uninterruptible(Effect.provideService(steps, Scheduler.PreventSchedulerYield, true))

export class PipeliningConnection implements Connection {
  readonly #connection: PgConnection.PgConnection
  #transaction: Transaction | undefined
  #state: "none" | "not started" | "started" | "ended" = "none"

  constructor(connection: PgConnection.PgConnection) {
    this.#connection = connection
  }

  /** Assigns a transaction that has not sent anything yet. */
  assign(transaction: Transaction): void {
    this.#transaction = transaction
    this.#state = "not started"
  }

  #query({ sql }: Transaction, { statement, received }: PendingStatement): Effect.Effect<void, SqlError.SqlError> {
    const raw = new PipeliningConnection(this.#connection)
    return Effect.map(Effect.provideService(statement, sql.transactionService, [raw, 0]), received)
  }

  /** Sends the beginning of the transaction if it has not started, and its pending writes. */
  #flush(transaction: Transaction): Effect.Effect<void> {
    const flush = Effect.suspend(() => {
      const { sql, begin, opening, pending, tail } = transaction
      const writes = pending.size === 0 ? [] : pending.take()
      const isStarted = this.#state === "started"
      this.#state = "started"
      const first = isStarted ? [] : [sql.unsafe(begin), ...(opening === undefined ? [] : [sql`SELECT ${opening}`])]
      const statements = [
        ...first.map((statement) => this.#connection.query(...statement.compile())),
        ...writes.map((write) => this.#query(transaction, write)),
      ]
      return Effect.forEach(statements, (statement) => enqueueTo(tail, statement), { discard: true })
    })
    return withoutYielding(flush)
  }

  /** Sends the pending statements before a statement of the transaction. */
  #before<A>(statement: Effect.Effect<A, SqlError.SqlError>): Effect.Effect<A, SqlError.SqlError> {
    const transaction = this.#transaction
    if (transaction === undefined) return statement
    if (this.#state === "ended") return Effect.die(new Error("A statement follows the end of its transaction."))
    return this.#state === "started" && transaction.pending.size === 0
      ? statement
      : Effect.andThen(this.#flush(transaction), statement)
  }

  #rows(
    text: string,
    params: ReadonlyArray<unknown>,
    prepare: boolean,
    transform: Parameters<Connection["execute"]>[2],
  ) {
    const query = Effect.suspend(() => this.#before(this.#connection.query(text, params, prepare)))
    const rows = Effect.map(query, (result) => result.rows)
    return transform === undefined ? rows : Effect.map(rows, transform)
  }

  readonly execute: Connection["execute"] = (text, params, transform) => this.#rows(text, params, true, transform)
  readonly executeUnprepared: Connection["executeUnprepared"] = (text, params, transform) =>
    this.#rows(text, params, false, transform)
  readonly executeRaw: Connection["executeRaw"] = (text, params) =>
    Effect.suspend(() => this.#before(this.#connection.query(text, params)))
  readonly executeValues: Connection["executeValues"] = (text, params) =>
    Effect.suspend(() => this.#before(this.#connection.queryValues(text, params)))
  readonly executeValuesUnprepared: Connection["executeValuesUnprepared"] = (text, params) =>
    Effect.suspend(() => this.#before(this.#connection.queryValues(text, params, false)))
  // A stream reserves its own connection: inside a transaction it would wait for that forever.
  readonly executeStream: Connection["executeStream"] = () =>
    Stream.die(new Error("Read page by page: statements are not streamed."))

  /** Commits the transaction with its pending writes; returns false if Postgres rolled it back. */
  commit(): Effect.Effect<boolean, SqlError.SqlError> {
    const transaction = this.#transaction!
    const { opening, pending, tail } = transaction
    return Effect.suspend(() => {
      if (this.#state === "not started") {
        if (pending.size === 0) {
          this.#state = "ended"
          return Effect.succeed(true)
        }
        if (pending.size === 1 && opening !== undefined) {
          this.#state = "ended"
          const [only] = pending.take(opening)
          return only === undefined
            ? Effect.succeed(true)
            : Effect.as(this.#alone(this.#query(transaction, only)), true)
        }
      }
      const flush = Effect.onError(this.#flush(transaction), () => Effect.ignore(this.rollback()))
      return Effect.flatMap(flush, () => {
        this.#state = "ended"
        // Postgres does not know a statement that could not be sent: it would commit the others.
        const end = hasFailed(tail) ? "ROLLBACK" : "COMMIT"
        return Effect.map(this.#connection.query(end, []), ({ command }) => command === "COMMIT")
      })
    })
  }

  rollback(): Effect.Effect<void, SqlError.SqlError> {
    return Effect.suspend(() => {
      const isStarted = this.#state === "started"
      this.#state = "ended"
      return isStarted ? Effect.asVoid(this.#connection.query("ROLLBACK", [])) : Effect.void
    })
  }

  /** Runs a statement that is a whole transaction. */
  #alone(statement: Effect.Effect<unknown, SqlError.SqlError>): Effect.Effect<unknown, SqlError.SqlError> {
    return Effect.catchIf(
      statement,
      (error) => sqlStateOf(error) === undefined,
      // The connection works but Postgres sent no answer: the statement never arrived.
      (error) =>
        Effect.andThen(
          Effect.mapError(this.#connection.query("ROLLBACK", []), () => error),
          rolledBack(error),
        ),
    )
  }
}
