/**
 * Statements that go out together and come back in order, in one round trip: those of a transaction that nobody waits for before its end, and
 * those that do not need each other's answers.
 */
import { Context, Effect, Exit, Fiber } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import type { Statement } from "effect/sql/Statement"
import { sqlStateOf } from "./sqlState.ts"

/** One statement, which is not sent yet; undefined where there is nothing to be done. What builds one is named `…ing`. */
export type OneStatement = Statement<object> | undefined

/** What Postgres says to statements after one that failed, in the same transaction. */
export const isAftermath = (error: unknown): boolean => sqlStateOf(error) === "25P02"

/** Of results in the order of their statements, the failure that the others follow from. */
export const firstFailure = <A, E>(exits: ReadonlyArray<Exit.Exit<A, E>>): Exit.Failure<A, E> | undefined => {
  const failed = exits.filter(Exit.isFailure)
  const causes = ({ cause }: Exit.Failure<A, E>) =>
    !cause.reasons.some((reason) => reason._tag === "Fail" && isAftermath(reason.error))
  return failed.find(causes) ?? failed[0]
}

/** What was sent in a transaction and is waited for at its end. */
export type Tail = Array<Fiber.Fiber<unknown, SqlError.SqlError>>

export const CurrentTail = Context.Reference<Tail | undefined>("billing/db/Tail", { defaultValue: () => undefined })

/** Fails as the first of what was sent did; at the end, or once something else has failed. */
export const settled = (tail: Tail): Effect.Effect<void, SqlError.SqlError> =>
  Effect.flatMap(Effect.forEach(tail, Fiber.await), (exits) => firstFailure(exits) ?? Effect.void)

export const dispatchTo = (tail: Tail, statement: Effect.Effect<unknown, SqlError.SqlError>): Effect.Effect<void> =>
  // Of the transaction, not of the fiber that happens to send it.
  Effect.map(Effect.forkDetach(statement, { startImmediately: true }), (fiber) => void tail.push(fiber))

export const dispatch = (
  statement: Effect.Effect<unknown, SqlError.SqlError>,
): Effect.Effect<void, SqlError.SqlError> =>
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

/** Carries a statement out and waits for its answer. */
export const carriedOut = (
  build: (sql: SqlClient.SqlClient) => OneStatement,
): Effect.Effect<void, SqlError.SqlError, SqlClient.SqlClient> =>
  Effect.flatMap(
    SqlClient.SqlClient,
    (sql): Effect.Effect<unknown, SqlError.SqlError> => build(sql) ?? Effect.void,
  ).pipe(Effect.asVoid)

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
