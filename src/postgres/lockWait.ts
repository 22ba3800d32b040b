/** Rows that somebody else holds. */
import { Context, Effect } from "effect"
import { SqlClient } from "effect/sql"
import { problem } from "../base/problem.ts"
import { sqlStateOf } from "./errors.ts"
import { enqueue } from "./transaction.ts"

/**
 * What a request comes to that cannot have what it needs. Row-level security shows it its own account's rows only, so nobody else's
 * are what it waits for.
 */
export const LOCKED = problem(
  "lock_timeout",
  "Another request of this account has been holding what this one needs: try again once that is through.",
)

/** Whether a transaction gave up because of a row that somebody else held for longer than it waits. */
export const isLockTimeout = (error: unknown): boolean => sqlStateOf(error) === "55P03"

/** Whether what somebody else holds is waited for: not by many who would all wait for what one of them needs. */
export const WaitForLocks = Context.Reference<boolean>("billing/db/MayWait", { defaultValue: () => true })

/** The running transaction waits for so long at most for each thing that somebody else holds. */
export const setLockTimeout = (waitsMs: number) =>
  Effect.flatMap(SqlClient.SqlClient, (sql) =>
    enqueue(sql`SELECT set_config('lock_timeout', ${String(waitsMs)}, true)`),
  )

/** For how long what somebody else holds is waited for where others wait along. */
export const LOCK_TIMEOUT_MS = 500

/** A transaction of a worker, which is everybody's: what somebody holds for longer is left for later. */
export const withLockTimeout = <A, E, R>(work: Effect.Effect<A, E, R>) =>
  Effect.flatMap(SqlClient.SqlClient, (sql) =>
    sql.withTransaction(Effect.andThen(setLockTimeout(LOCK_TIMEOUT_MS), work)),
  )
