/**
 * A pool whose connections each have one user at a time and are pipelined all the same: statements that a user sends together
 * go out together and come back in order, in one round trip. (The package's own client pipelines the statements of connections
 * that are shared; on those that it reserves for a transaction each waits for the one before.)
 */
import { PgClient, type PgConnection, PgPool } from "@effect/sql-pg"
import { Context, Effect, Exit, Fiber, type Scope, Stream } from "effect"
import { Reactivity } from "effect/reactivity"
import { SqlClient, SqlError } from "effect/sql"
import type { Connection } from "effect/sql/SqlConnection"
import { sqlStateOf } from "./sqlState.ts"

class PipeliningConnection implements Connection {
  readonly #connection: PgConnection.PgConnection
  /** Whether its transaction's end has been sent: whatever comes behind that is refused. */
  #ended = false

  constructor(connection: PgConnection.PgConnection) {
    this.#connection = connection
  }

  #open<A>(statement: Effect.Effect<A, SqlError.SqlError>): Effect.Effect<A, SqlError.SqlError> {
    return this.#ended ? Effect.die(new Error("A statement comes after the end of its transaction.")) : statement
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

  /** Sends what ends its transaction. */
  end(how: "COMMIT" | "ROLLBACK"): Effect.Effect<PgConnection.Result, SqlError.SqlError> {
    this.#ended = true
    return this.#connection.query(how, [])
  }

  readonly executeValues: Connection["executeValues"] = (text, params) =>
    this.#open(this.#connection.queryValues(text, params))
  readonly executeValuesUnprepared: Connection["executeValuesUnprepared"] = (text, params) =>
    this.#open(this.#connection.queryValues(text, params, false))
  // A stream would reserve its connection, for which it would wait in a transaction for ever.
  readonly executeStream: Connection["executeStream"] = () =>
    Stream.die(new Error("Read page by page: statements are not streamed."))
}

const run = (statement: string) => (connection: Connection) =>
  Effect.asVoid(connection.executeUnprepared(statement, [], undefined))

/** What Postgres says to statements after one that failed, in the same transaction. */
const isAftermath = (error: unknown): boolean => sqlStateOf(error) === "25P02"

/** Of results in the order of their statements, the failure that the others follow from. */
const firstFailure = <A, E>(exits: ReadonlyArray<Exit.Exit<A, E>>): Exit.Failure<A, E> | undefined => {
  const failed = exits.filter(Exit.isFailure)
  const causes = ({ cause }: Exit.Failure<A, E>) =>
    !cause.reasons.some((reason) => reason._tag === "Fail" && isAftermath(reason.error))
  return failed.find(causes) ?? failed[0]
}

/** What was sent in a transaction and is waited for at its end. */
type Tail = Array<Fiber.Fiber<unknown, SqlError.SqlError>>

const CurrentTail = Context.Reference<Tail | undefined>("billing/db/Tail", { defaultValue: () => undefined })

/** Fails as the first of what was sent did; at the end, or once something else has failed. */
const settled = (tail: Tail): Effect.Effect<void, SqlError.SqlError> =>
  Effect.flatMap(Effect.forEach(tail, Fiber.await), (exits) => firstFailure(exits) ?? Effect.void)

/**
 * Sends one statement of the running transaction whose answer nobody needs: what comes next goes out behind it at once, and its
 * failure is the transaction's. Without such a transaction it is waited for.
 */
export const sent = <R>(
  work: Effect.Effect<unknown, SqlError.SqlError, R>,
): Effect.Effect<void, SqlError.SqlError, R> =>
  Effect.flatMap(CurrentTail, (tail) =>
    tail === undefined
      ? Effect.asVoid(work)
      : Effect.map(Effect.forkChild(work, { startImmediately: true }), (fiber) => void tail.push(fiber)),
  )

const unknownError = (operation: string, cause: unknown) =>
  new SqlError.SqlError({ reason: new SqlError.UnknownError({ cause, operation }) })

/** What the end of a transaction fails with that was taken back. */
const TAKEN_BACK = "take back"

const takenBack = (cause: unknown) => unknownError(TAKEN_BACK, cause)

/** Whether a transaction's end failed because it was taken back. */
export const isTakenBack = ({ reason }: SqlError.SqlError): boolean =>
  reason._tag === "UnknownError" && reason.operation === TAKEN_BACK

/** Ends a transaction; fails where it was taken back because a statement in it had failed. */
const commitOn = (connection: Connection): Effect.Effect<void, SqlError.SqlError> =>
  Effect.gen(function* () {
    const tail = (yield* CurrentTail) ?? []
    // Of a statement that never went out, Postgres knows nothing: it would commit the others.
    const isFailed = firstFailure(tail.flatMap((fiber) => fiber.pollUnsafe() ?? [])) !== undefined
    // Behind all that was sent, without waiting for it.
    const ended = yield* Effect.exit((connection as PipeliningConnection).end(isFailed ? "ROLLBACK" : "COMMIT"))
    const answers = yield* Effect.exit(settled(tail))
    if (Exit.isSuccess(ended) && ended.value.command === "COMMIT")
      return yield* Effect.catchCause(answers, (cause) => unknownError("read what was committed", cause))
    // What Postgres said of a statement says enough; of one that it never had, that nothing came of it.
    yield* Effect.catchIf(answers, (error) => Exit.isSuccess(ended) && sqlStateOf(error) === undefined, takenBack)
    yield* ended
    return yield* takenBack(new Error("A statement of the transaction had failed."))
  })

export interface PipeliningPool {
  /** A connection that nobody else has until the scope closes. */
  readonly take: Effect.Effect<Connection, SqlError.SqlError, Scope.Scope>
  readonly client: SqlClient.SqlClient
}

export const makePipeliningPool = Effect.fnUntraced(function* (config: PgPool.Config) {
  const pool = yield* PgPool.make({ ...config, multiplex: true, multiplexConcurrency: 1 })
  const take = Effect.map(pool.get, (connection) => new PipeliningConnection(connection))
  const client = yield* SqlClient.make({
    driver: "pg",
    acquirer: take,
    borrower: (use) => pool.use((connection) => use(new PipeliningConnection(connection))),
    prepareTransactionControls: true,
    releaseSavepoint: (name) => `RELEASE SAVEPOINT ${name}`,
    compiler: PgClient.makeCompiler(),
    spanAttributes: [],
  }).pipe(Effect.provide(Reactivity.layer))
  return { take, client } satisfies PipeliningPool
})

/**
 * Transactions of the client `sql`, in which all its statements go to a connection of `take`; `begin` begins one. It is waited for,
 * unless it says otherwise: what went out behind a BEGIN that failed would be written by itself.
 */
export const transactionsOn = (
  sql: SqlClient.SqlClient,
  take: PipeliningPool["take"],
  begin: (connection: Connection) => Effect.Effect<void, SqlError.SqlError> = run("BEGIN"),
) => {
  const transaction = SqlClient.makeWithTransaction({
    transactionService: sql.transactionService,
    spanAttributes: [],
    acquireConnection: (restore) => restore(take),
    begin,
    savepoint: (connection, id) => run(`SAVEPOINT nested_${id}`)(connection),
    releaseSavepoint: (connection, id) => run(`RELEASE SAVEPOINT nested_${id}`)(connection),
    commit: commitOn,
    rollback: (connection) => Effect.asVoid((connection as PipeliningConnection).end("ROLLBACK")),
    rollbackSavepoint: (connection, id) => run(`ROLLBACK TO SAVEPOINT nested_${id}`)(connection),
  })
  return <A, E, R>(work: Effect.Effect<A, E, R>): Effect.Effect<A, E | SqlError.SqlError, R> =>
    Effect.flatMap(CurrentTail, (outer) => {
      const tail: Tail = []
      // What a savepoint takes back must not fail the transaction around it.
      const whole = outer === undefined ? work : Effect.tap(work, () => settled(tail))
      return transaction(whole).pipe(
        // What was sent before says why.
        Effect.tapError((error) => (isAftermath(error) ? settled(tail) : Effect.void)),
        Effect.provideService(CurrentTail, tail),
      )
    })
}

/** How effects are run whose statements go out in one go; the first that fails ends it. */
export const IN_ONE_GO = { concurrency: "unbounded" } as const

/**
 * Sends statements that do not need each other's answers in one go, in their order; of several that fail, fails as the first
 * did. All are answered when this ends.
 */
export const inOneGo = <E, R>(statements: ReadonlyArray<Effect.Effect<unknown, E, R>>): Effect.Effect<void, E, R> =>
  Effect.flatMap(
    Effect.forEach(statements, (statement) => Effect.exit(statement), IN_ONE_GO),
    (exits) => firstFailure(exits) ?? Effect.void,
  )
