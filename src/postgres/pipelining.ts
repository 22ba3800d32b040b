/** Pipelining sends statements one after the other without waiting for results in between. Results arrive in order. */
import { Effect, Exit, Fiber } from "effect"
import type { SqlError } from "effect/sql"
import { sqlStateOf } from "./errors.ts"

/** Whether Postgres refused a statement because an earlier one of its transaction had failed. */
export const isAftermath = (error: unknown): boolean => sqlStateOf(error) === "25P02"

/** The failure that caused the others, of results in the order of their statements; undefined if none failed. */
export const firstFailure = <A, E>(exits: ReadonlyArray<Exit.Exit<A, E>>): Exit.Failure<A, E> | undefined => {
  const failed = exits.filter(Exit.isFailure)
  const isCause = ({ cause }: Exit.Failure<A, E>) =>
    !cause.reasons.some((reason) => reason._tag === "Fail" && isAftermath(reason.error))
  return failed.find(isCause) ?? failed[0]
}

/** Statements of a transaction that are sent and whose results are awaited at its end. */
export type Tail = Array<Fiber.Fiber<unknown, SqlError.SqlError>>

/** Waits for all results; fails with the error of the first statement that failed. */
export const settled = (tail: Tail): Effect.Effect<void, SqlError.SqlError> =>
  Effect.flatMap(Effect.forEach(tail, Fiber.await), (exits) => firstFailure(exits) ?? Effect.void)

/** Whether one of the statements is known to have failed. */
export const hasFailed = (tail: Tail): boolean =>
  firstFailure(tail.flatMap((fiber) => fiber.pollUnsafe() ?? [])) !== undefined

/** Sends a statement; its result is awaited together with those of `tail`. */
export const enqueueTo = (tail: Tail, statement: Effect.Effect<unknown, SqlError.SqlError>): Effect.Effect<void> =>
  // It belongs to the transaction, not to the fiber that sends it.
  Effect.map(Effect.forkDetach(statement, { startImmediately: true }), (fiber) => void tail.push(fiber))

/** The concurrency of effects whose statements are pipelined; the first failure ends them all. */
export const PIPELINED = { concurrency: "unbounded" } as const

/**
 * Sends statements that do not need each other's results, in order, and waits for all results. Fails with the error of the first
 * statement that failed.
 */
export const pipelined = <E, R>(statements: ReadonlyArray<Effect.Effect<unknown, E, R>>): Effect.Effect<void, E, R> =>
  Effect.flatMap(
    Effect.forEach(statements, (statement) => Effect.exit(statement), PIPELINED),
    (exits) => firstFailure(exits) ?? Effect.void,
  )
