/** Transactions: how they begin and end, and how changes in memory are undone if they are not committed. */
import { Context, Effect, Exit } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import type { Connection } from "effect/sql/SqlConnection"
import type { Fragment, Statement } from "effect/sql/Statement"
import type { PendingWrites, PipeliningConnection, Transaction } from "./connection.ts"
import { sqlStateOf } from "./errors.ts"
import { enqueueTo, isAftermath, settled } from "./pipelining.ts"
import type { PipeliningPool } from "./pools.ts"
import { orOutcomeUnknown, rolledBack, unknownError } from "./rollback.ts"

/** The running transaction. */
export const CurrentTransaction = Context.Reference<Transaction | undefined>("billing/postgres/CurrentTransaction", {
  defaultValue: () => undefined,
})

/** Registers an effect that undoes a change in memory if the running transaction is not committed, or if that is unknown. */
export const onRollback = (undo: Effect.Effect<void>): Effect.Effect<void> =>
  Effect.map(CurrentTransaction, (transaction) => void transaction?.onRollback.push(undo))

/**
 * Sends a statement of the running transaction without waiting for its result: if it fails, the transaction fails. A transaction of the
 * package's own client waits for it.
 */
export const enqueue = (statement: Statement<object>): Effect.Effect<void, SqlError.SqlError> =>
  Effect.flatMap(CurrentTransaction, (transaction) =>
    transaction === undefined ? Effect.asVoid(statement) : enqueueTo(transaction.tail, statement),
  )

/** Commits with the pending writes; fails if the transaction was rolled back because one of its statements failed. */
const commitOn = (connection: PipeliningConnection): Effect.Effect<void, SqlError.SqlError> =>
  Effect.gen(function* () {
    const tail = (yield* CurrentTransaction)?.tail ?? []
    const committed = yield* Effect.exit(connection.commit())
    const results = yield* Effect.exit(settled(tail))
    if (Exit.isSuccess(committed) && committed.value)
      return yield* Effect.catchCause(results, (cause) =>
        unknownError("read the results of a committed transaction", cause),
      )
    // A statement that Postgres refused gives the reason. A statement that never arrived has changed nothing.
    yield* Effect.catchIf(results, (error) => Exit.isSuccess(committed) && sqlStateOf(error) === undefined, rolledBack)
    yield* committed
    return yield* rolledBack(new Error("A statement of the transaction failed."))
  }).pipe(Effect.mapError(orOutcomeUnknown))

/** How the transactions of a pool begin, and what collects their writes. */
interface PoolOptions {
  /** The statement that allows writes: without it the database refuses them. So later statements need not wait for its result. */
  readonly begin: string
  readonly pending: (sql: SqlClient.SqlClient) => PendingWrites
}

/** Options of one transaction: an expression that is evaluated right after BEGIN, and whether it is a second try. */
interface Options {
  readonly opening?: Fragment
  readonly isRetry?: boolean
}

/**
 * Creates transactions of the client `sql` on connections of `take`. A transaction starts with its first statement, in one round trip.
 * A transaction with an opening and a single write is one statement. A nested transaction is part of the outer one: if it fails, the outer
 * one is not committed.
 */
export const transactionsOn = (
  sql: SqlClient.SqlClient,
  take: PipeliningPool["take"],
  { begin, pending }: PoolOptions,
) => {
  const noSavepoint = () => Effect.die(new Error("Savepoints are not used."))
  const pipelining = (connection: Connection) => connection as PipeliningConnection
  const inTransaction = SqlClient.makeWithTransaction({
    transactionService: sql.transactionService,
    spanAttributes: [],
    acquireConnection: (restore) => restore(take),
    begin: (connection) => Effect.map(CurrentTransaction, (transaction) => pipelining(connection).assign(transaction!)),
    commit: (connection) => commitOn(pipelining(connection)),
    rollback: (connection) => pipelining(connection).rollback(),
    savepoint: noSavepoint,
    rollbackSavepoint: noSavepoint,
  })
  return <A, E, R>(
    work: Effect.Effect<A, E, R>,
    { opening, isRetry = false }: Options = {},
  ): Effect.Effect<A, E | SqlError.SqlError, R> =>
    Effect.flatMap(CurrentTransaction, (outer) => {
      if (outer?.sql === sql)
        return Effect.tapCause(work, () =>
          enqueueTo(outer.tail, Effect.fail(rolledBack(new Error("A part of the transaction failed.")))),
        )
      const transaction: Transaction = { sql, begin, opening, pending: pending(sql), tail: [], onRollback: [], isRetry }
      return inTransaction(work).pipe(
        // An earlier statement has the reason.
        Effect.tapError((error) => (isAftermath(error) ? settled(transaction.tail) : Effect.void)),
        Effect.provideService(CurrentTransaction, transaction),
        Effect.onError(() => Effect.all(transaction.onRollback, { discard: true })),
      )
    })
}
