/** Transactions that a deadlock ended: they have changed nothing, and the transaction in their way has finished. */
import { Effect } from "effect"
import { sqlStateOf } from "./errors.ts"

/** More than one in a row is rare. */
const MAX_RETRIES = 3

export const isDeadlock = (error: unknown): boolean => sqlStateOf(error) === "40P01"

/** Runs a transaction, and again if a deadlock ended it. */
export const retryingDeadlocks = <A, E, R>(transaction: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.retry(transaction, { times: MAX_RETRIES, while: isDeadlock })
