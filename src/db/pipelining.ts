/**
 * A pool whose connections each have one user at a time and are pipelined all the same: statements that a user sends together
 * go out together and come back in order, in one round trip. (The package's own client pipelines the statements of connections
 * that are shared; on those that it reserves for a transaction each waits for the one before.)
 */
import { PgClient, type PgConnection, PgPool } from "@effect/sql-pg"
import { Cause, Context, Effect, Exit, Fiber, Option, Scheduler, type Scope, Stream } from "effect"
import { Reactivity } from "effect/reactivity"
import { SqlClient, SqlError } from "effect/sql"
import type { Connection } from "effect/sql/SqlConnection"
import type { Fragment, Statement } from "effect/sql/Statement"
import { isAway, sqlStateOf } from "./sqlState.ts"

/** One statement, which is not sent yet; undefined where there is nothing to be done. What builds one is named `…ing`. */
export type OneStatement = Statement<object> | undefined

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

class PipeliningConnection implements Connection {
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

/** What is to be undone in memory where the running transaction does not end well, or nobody knows whether it did. */
const CurrentUndoing = Context.Reference<Array<Effect.Effect<void>> | undefined>("billing/db/Undoing", {
  defaultValue: () => undefined,
})

/** Undoes something in memory should the running transaction fail; who carries nothing out in one has nothing to undo. */
export const ifItFails = (undo: Effect.Effect<void>): Effect.Effect<void> =>
  Effect.map(CurrentUndoing, (undoing) => void undoing?.push(undo))

const dispatchTo = (tail: Tail, statement: Effect.Effect<unknown, SqlError.SqlError>): Effect.Effect<void> =>
  // Of the transaction, not of the fiber that happens to send it.
  Effect.map(Effect.forkDetach(statement, { startImmediately: true }), (fiber) => void tail.push(fiber))

const dispatch = (statement: Effect.Effect<unknown, SqlError.SqlError>): Effect.Effect<void, SqlError.SqlError> =>
  Effect.flatMap(CurrentTail, (tail) => (tail === undefined ? Effect.asVoid(statement) : dispatchTo(tail, statement)))

/**
 * Sends statements of the running transaction whose answers nobody needs: what comes next goes out behind them at once, and their
 * failure is the transaction's. Without such a transaction they are waited for. Each is one statement by its type: a second one, sent
 * once the first is answered, could come behind the end of the transaction.
 */
export const sent = (...statements: ReadonlyArray<OneStatement>): Effect.Effect<void, SqlError.SqlError> =>
  Effect.forEach(statements, (statement) => (statement === undefined ? Effect.void : dispatch(statement)), {
    discard: true,
  })

/** {@link sent}, for a statement that may be all that the running transaction does: then it is a transaction by itself, without BEGIN and COMMIT. */
export const sentWhole = (whole: Whole): Effect.Effect<void, SqlError.SqlError, SqlClient.SqlClient> =>
  Effect.flatMap(SqlClient.SqlClient, (sql) =>
    Effect.flatMap(Effect.serviceOption(sql.transactionService), (running) => {
      const connection = Option.isSome(running) ? running.value[0] : undefined
      const isHeld = connection instanceof PipeliningConnection && connection.hold(whole)
      return isHeld ? Effect.void : sent(whole(undefined))
    }),
  )

/** Carries a statement out and waits for its answer. */
export const carriedOut = (
  build: (sql: SqlClient.SqlClient) => OneStatement,
): Effect.Effect<void, SqlError.SqlError, SqlClient.SqlClient> =>
  Effect.flatMap(
    SqlClient.SqlClient,
    (sql): Effect.Effect<unknown, SqlError.SqlError> => build(sql) ?? Effect.void,
  ).pipe(Effect.asVoid)

const unknownError = (operation: string, cause: unknown) =>
  new SqlError.SqlError({ reason: new SqlError.UnknownError({ cause, operation }) })

/** What the end of a transaction fails with that was taken back. */
const TAKEN_BACK = "take back"

const takenBack = (cause: unknown) => unknownError(TAKEN_BACK, cause)

/** Whether a transaction's end failed because it was taken back. */
export const isTakenBack = ({ reason }: SqlError.SqlError): boolean =>
  reason._tag === "UnknownError" && reason.operation === TAKEN_BACK

/**
 * Whether a transaction that failed so has certainly done nothing: it was given up before its end, or the database itself has said
 * why. Of one whose connection was lost nobody knows.
 */
export const hasDoneNothing = (cause: Cause.Cause<unknown>): boolean => {
  // The sandbox's rail, which answers whatever happens, dies of its database.
  const errors = cause.reasons.flatMap((reason) =>
    Cause.isFailReason(reason) ? [reason.error] : Cause.isDieReason(reason) ? [reason.defect] : [],
  )
  const error = errors.find(SqlError.isSqlError)
  if (error === undefined) return true
  return isTakenBack(error) || (sqlStateOf(error) !== undefined && !isAway(error))
}

/** Ends a transaction; fails where it was taken back because a statement in it had failed. */
const commitOn = (connection: Connection): Effect.Effect<void, SqlError.SqlError> =>
  Effect.gen(function* () {
    const tail = (yield* CurrentTail) ?? []
    // Of a statement that never went out, Postgres knows nothing: it would commit the others.
    const isFailed = firstFailure(tail.flatMap((fiber) => fiber.pollUnsafe() ?? [])) !== undefined
    // Behind all that was sent, without waiting for it.
    const ended = yield* Effect.exit((connection as PipeliningConnection).end(isFailed ? "ROLLBACK" : "COMMIT"))
    const answers = yield* Effect.exit(settled(tail))
    if (Exit.isSuccess(ended) && ended.value)
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

type Acquirers = Pick<Parameters<typeof SqlClient.make>[0], "acquirer" | "borrower">

const clientOf = (acquirers: Acquirers) =>
  SqlClient.make({
    ...acquirers,
    driver: "pg",
    prepareTransactionControls: true,
    releaseSavepoint: (name) => `RELEASE SAVEPOINT ${name}`,
    compiler: PgClient.makeCompiler(),
    spanAttributes: [],
  }).pipe(Effect.provide(Reactivity.layer))

export const makePipeliningPool = Effect.fnUntraced(function* (config: PgPool.Config) {
  const pool = yield* PgPool.make({ ...config, multiplex: true, multiplexConcurrency: 1 })
  const take = Effect.map(pool.get, (connection) => new PipeliningConnection(connection))
  const client = yield* clientOf({
    acquirer: take,
    borrower: (use) => pool.use((connection) => use(new PipeliningConnection(connection))),
  })
  return { take, client } satisfies PipeliningPool
})

/**
 * A client for single statements, on so many connections: each statement goes to the one that has the fewest, so that who waits for a lock
 * keeps nobody waiting as long as there is another. (A pool of the package's gives all of them the same connection until that has 32; one
 * whose connections have a user each can be left with users that wait and nobody who connects, once its database was away: effect 4.1.0.)
 */
export const makeStatements = Effect.fnUntraced(function* (config: PgPool.Config, connections: number) {
  const one = PgPool.make({ ...config, maxConnections: 1, multiplex: true })
  const slots = (yield* Effect.all(Array.from({ length: connections }, () => one))).map((pool) => ({ pool, users: 0 }))
  const take = Effect.sync(() => {
    // Of those with as few the first, which is the warmest.
    const slot = slots.reduce((least, other) => (other.users < least.users ? other : least))
    slot.users++
    return slot
  })
  const leave = (slot: (typeof slots)[number]) => Effect.sync(() => void slot.users--)
  return yield* clientOf({
    acquirer: Effect.flatMap(Effect.acquireRelease(take, leave), ({ pool }) =>
      Effect.map(pool.get, (connection) => new PipeliningConnection(connection)),
    ),
    borrower: (use) =>
      Effect.acquireUseRelease(
        take,
        ({ pool }) => pool.use((connection) => use(new PipeliningConnection(connection))),
        leave,
      ),
  })
})

/**
 * How a transaction begins: by a BEGIN that is waited for, since what went out behind one that failed would be written by itself; by a
 * BEGIN and reads that go out with it; or not at all, being one statement.
 */
type Beginning = "BEGIN" | "BEGIN and reads" | "one statement"

const CurrentBeginning = Context.Reference<Beginning>("billing/db/Beginning", { defaultValue: () => "BEGIN" })

/**
 * Transactions of the client `sql`, in which all its statements go to a connection of `take`. With `entering`, an expression in SQL without
 * which nothing can be written, each begins with its first statement: BEGIN, that, and the statement go out together, or the statement alone,
 * with that in it, where it is the only one.
 */
export const transactionsOn = (
  sql: SqlClient.SqlClient,
  take: PipeliningPool["take"],
  entering?: Effect.Effect<Fragment>,
) => {
  const begin = (connection: Connection) =>
    entering !== undefined
      ? Effect.zipWith(entering, CurrentTail, (first, tail) =>
          (connection as PipeliningConnection).beginLater(sql, first, tail!),
        )
      : Effect.flatMap(CurrentBeginning, (beginning) => {
          if (beginning === "one statement") return Effect.void
          return beginning === "BEGIN" ? run("BEGIN")(connection) : dispatch(run("BEGIN")(connection))
        })
  const unlessOneStatement = <E>(end: Effect.Effect<void, E>) =>
    Effect.flatMap(CurrentBeginning, (beginning) =>
      entering === undefined && beginning === "one statement" ? Effect.void : end,
    )
  const transaction = SqlClient.makeWithTransaction({
    transactionService: sql.transactionService,
    spanAttributes: [],
    acquireConnection: (restore) => restore(take),
    begin,
    savepoint: (connection, id) => run(`SAVEPOINT nested_${id}`)(connection),
    releaseSavepoint: (connection, id) => run(`RELEASE SAVEPOINT nested_${id}`)(connection),
    commit: (connection) => unlessOneStatement(commitOn(connection)),
    rollback: (connection) => unlessOneStatement(Effect.asVoid((connection as PipeliningConnection).end("ROLLBACK"))),
    rollbackSavepoint: (connection, id) => run(`ROLLBACK TO SAVEPOINT nested_${id}`)(connection),
  })
  return <A, E, R>(work: Effect.Effect<A, E, R>): Effect.Effect<A, E | SqlError.SqlError, R> =>
    Effect.flatMap(CurrentTail, (outer) => {
      const tail: Tail = []
      const undoing: Array<Effect.Effect<void>> = []
      // What a savepoint takes back must not fail the transaction around it.
      const whole = outer === undefined ? work : Effect.tap(work, () => settled(tail))
      return transaction(whole).pipe(
        // What was sent before says why.
        Effect.tapError((error) => (isAftermath(error) ? settled(tail) : Effect.void)),
        Effect.provideService(CurrentTail, tail),
        // What a savepoint takes back is undone with the transaction around it, if at all.
        outer === undefined ? Effect.provideService(CurrentUndoing, undoing) : (nested) => nested,
        Effect.onError(() => Effect.all(undoing, { discard: true })),
      )
    })
}

/**
 * A transaction that begins with `reads`, locks among them, which go out with its BEGIN; `work` follows once all of that is answered.
 */
export const readingFirst = <A, E, R, B, E2, R2>(
  reads: Effect.Effect<A, E, R>,
  work: (found: A) => Effect.Effect<B, E2, R2>,
): Effect.Effect<B, E | E2 | SqlError.SqlError, R | R2 | SqlClient.SqlClient> =>
  Effect.flatMap(SqlClient.SqlClient, (sql) => {
    const whole = Effect.gen(function* () {
      const begun = (yield* CurrentTail)?.[0]
      const found = yield* reads
      if (begun !== undefined) yield* Fiber.join(begun)
      return yield* work(found)
    })
    return Effect.provideService(sql.withTransaction(whole), CurrentBeginning, "BEGIN and reads")
  })

/**
 * Carries a statement out that is a transaction by itself, on a connection of its own: whatever it waits for, nobody waits behind it. It is
 * not abandoned half-way.
 */
export const byItself = (
  build: (sql: SqlClient.SqlClient) => Statement<object>,
): Effect.Effect<void, SqlError.SqlError, SqlClient.SqlClient> =>
  Effect.flatMap(SqlClient.SqlClient, (sql) =>
    Effect.asVoid(
      Effect.provideService(sql.withTransaction(Effect.uninterruptible(build(sql))), CurrentBeginning, "one statement"),
    ),
  )

/** What a decision fails with that was to be made without the database. */
const ASKS = "ask the database"

const refuse = (): Effect.Effect<never, SqlError.SqlError> =>
  Effect.fail(unknownError(ASKS, new Error("This is decided without the database.")))

const NOBODY: Connection = {
  execute: refuse,
  executeRaw: refuse,
  executeUnprepared: refuse,
  executeValues: refuse,
  executeValuesUnprepared: refuse,
  executeStream: () => Stream.fromEffect(refuse()),
}

/** Decides by what is known already; undefined where that takes a look at the database. */
export const withoutAsking = <A, E, R>(
  decision: Effect.Effect<A, E, R>,
): Effect.Effect<A | undefined, E, R | SqlClient.SqlClient> =>
  Effect.flatMap(SqlClient.SqlClient, (sql) =>
    Effect.catchIf(
      Effect.provideService(decision, sql.transactionService, [NOBODY, 0]),
      (error) => SqlError.isSqlError(error) && error.reason._tag === "UnknownError" && error.reason.operation === ASKS,
      () => Effect.succeed(undefined),
    ),
  )

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
