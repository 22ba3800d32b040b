/** A connection that has one user at a time: a transaction, say, which may begin with its first statement. */
import type { PgConnection } from "@effect/sql-pg"
import { Effect, Option, Scheduler, Stream } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import type { Connection } from "effect/sql/SqlConnection"
import type { Fragment, Statement } from "effect/sql/Statement"
import { dispatchTo, type OneStatement, sent, type Tail } from "./sending.ts"
import { sqlStateOf } from "./sqlState.ts"
import { takenBack } from "./takenBack.ts"

/**
 * A statement that may be all that its transaction does. Where it is, it carries out what the transaction begins with, `first`, an expression
 * in SQL, before all else; where it is not, that has been done.
 */
export type Whole = (first: Fragment | undefined) => OneStatement

/** A transaction of which nothing has been sent yet. */
interface Unbegun {
  readonly sql: SqlClient.SqlClient
  /** What it begins with. */
  readonly first: Fragment
  readonly tail: Tail
  /** What was to be sent, which may be all of it. */
  held: Whole | undefined
}

/** Nothing comes between its steps. */
const atOnce = <A, E, R>(steps: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.uninterruptible(Effect.provideService(steps, Scheduler.PreventSchedulerYield, true))

export class PipeliningConnection implements Connection {
  readonly #connection: PgConnection.PgConnection
  /** Its transaction, until anything of that is sent. */
  #unbegun: Unbegun | undefined
  /** Whether its transaction's end has been sent: whatever comes behind that is refused. */
  #ended = false

  constructor(connection: PgConnection.PgConnection) {
    this.#connection = connection
  }

  /** Lets a transaction begin with its first statement. */
  beginLater(sql: SqlClient.SqlClient, first: Fragment, tail: Tail): void {
    this.#unbegun = { sql, first, tail, held: undefined }
  }

  /** Keeps a statement until it is known whether its transaction does anything else; returns whether it can be kept. */
  hold(whole: Whole): boolean {
    if (this.#unbegun === undefined || this.#unbegun.held !== undefined) return false
    this.#unbegun.held = whole
    return true
  }

  /** Sends what the transaction begins with, and what was kept. */
  #begin(): Effect.Effect<void> {
    const begin = Effect.suspend(() => {
      const unbegun = this.#unbegun
      if (unbegun === undefined) return Effect.void
      this.#unbegun = undefined
      const { sql, first, tail, held } = unbegun
      const whole = held?.(undefined)
      const opening = [sql`BEGIN`, sql`SELECT ${first}`].map((one) => this.#connection.query(...one.compile()))
      const sending = whole === undefined ? opening : [...opening, this.#carryOut(sql, whole)]
      return Effect.forEach(sending, (statement) => dispatchTo(tail, statement), { discard: true })
    })
    return atOnce(begin)
  }

  #carryOut(sql: SqlClient.SqlClient, statement: Statement<object>): Effect.Effect<unknown, SqlError.SqlError> {
    return Effect.provideService(statement, sql.transactionService, [new PipeliningConnection(this.#connection), 0])
  }

  #open<A>(statement: Effect.Effect<A, SqlError.SqlError>): Effect.Effect<A, SqlError.SqlError> {
    if (this.#ended) return Effect.die(new Error("A statement comes after the end of its transaction."))
    return this.#unbegun === undefined ? statement : Effect.andThen(this.#begin(), statement)
  }

  #rows(
    text: string,
    params: ReadonlyArray<unknown>,
    prepare: boolean,
    transform: Parameters<Connection["execute"]>[2],
  ) {
    const rows = Effect.map(this.#open(this.#connection.query(text, params, prepare)), (result) => result.rows)
    return transform === undefined ? rows : Effect.map(rows, transform)
  }

  readonly execute: Connection["execute"] = (text, params, transform) => this.#rows(text, params, true, transform)
  readonly executeUnprepared: Connection["executeUnprepared"] = (text, params, transform) =>
    this.#rows(text, params, false, transform)
  readonly executeRaw: Connection["executeRaw"] = (text, params) => this.#open(this.#connection.query(text, params))

  /** Ends its transaction, with what was kept of it; returns whether that was committed. */
  end(how: "COMMIT" | "ROLLBACK"): Effect.Effect<boolean, SqlError.SqlError> {
    const unbegun = this.#unbegun
    this.#unbegun = undefined
    this.#ended = true
    if (unbegun === undefined) return Effect.map(this.#connection.query(how, []), ({ command }) => command === "COMMIT")
    const whole = how === "COMMIT" ? unbegun.held?.(unbegun.first) : undefined
    return whole === undefined
      ? Effect.succeed(how === "COMMIT")
      : Effect.as(this.#alone(this.#carryOut(unbegun.sql, whole)), true)
  }

  #alone(whole: Effect.Effect<unknown, SqlError.SqlError>): Effect.Effect<unknown, SqlError.SqlError> {
    return Effect.catchIf(
      whole,
      (error) => sqlStateOf(error) === undefined,
      // Of a statement that Postgres has said nothing of, on a connection that goes on, it never heard.
      (error) =>
        Effect.andThen(
          Effect.mapError(this.#connection.query("ROLLBACK", []), () => error),
          takenBack(error),
        ),
    )
  }

  readonly executeValues: Connection["executeValues"] = (text, params) =>
    this.#open(this.#connection.queryValues(text, params))
  readonly executeValuesUnprepared: Connection["executeValuesUnprepared"] = (text, params) =>
    this.#open(this.#connection.queryValues(text, params, false))
  // A stream would reserve its connection, for which it would wait in a transaction for ever.
  readonly executeStream: Connection["executeStream"] = () =>
    Stream.die(new Error("Read page by page: statements are not streamed."))
}

/** {@link sent}, for a statement that may be all that the running transaction does: then it is a transaction by itself, without BEGIN and COMMIT. */
export const sentWhole = (whole: Whole): Effect.Effect<void, SqlError.SqlError, SqlClient.SqlClient> =>
  Effect.flatMap(SqlClient.SqlClient, (sql) =>
    Effect.flatMap(Effect.serviceOption(sql.transactionService), (running) => {
      const connection = Option.isSome(running) ? running.value[0] : undefined
      const isHeld = connection instanceof PipeliningConnection && connection.hold(whole)
      return isHeld ? Effect.void : sent(whole(undefined))
    }),
  )
