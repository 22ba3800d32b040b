/** Transactions: how they begin and end, and what is undone in memory where they fail. */
import { Context, Effect, Exit, Fiber } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import type { Connection } from "effect/sql/SqlConnection"
import type { Fragment, Statement } from "effect/sql/Statement"
import type { PipeliningConnection } from "./PipeliningConnection.ts"
import type { PipeliningPool } from "./pools.ts"
import { CurrentTail, dispatch, firstFailure, isAftermath, settled, type Tail } from "./sending.ts"
import { sqlStateOf } from "./sqlState.ts"
import { takenBack, unknownError } from "./takenBack.ts"

/** What is to be undone in memory where the running transaction does not end well, or nobody knows whether it did. */
const CurrentUndoing = Context.Reference<Array<Effect.Effect<void>> | undefined>("billing/db/Undoing", {
  defaultValue: () => undefined,
})

/** Undoes something in memory should the running transaction fail; who carries nothing out in one has nothing to undo. */
export const ifItFails = (undo: Effect.Effect<void>): Effect.Effect<void> =>
  Effect.map(CurrentUndoing, (undoing) => void undoing?.push(undo))

const run = (statement: string) => (connection: Connection) =>
  Effect.asVoid(connection.executeUnprepared(statement, [], undefined))

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
