/** Waiting for rows that another transaction has locked. */
import { Context, Effect } from "effect"
import { SqlClient } from "effect/sql"
import { problem } from "../base/problem.ts"
import { sqlStateOf } from "./errors.ts"
import { enqueue } from "./transaction.ts"

/**
 * The error of a request that cannot get a lock that it needs. Row-level security shows a request its own account's rows only, so it
 * waits for requests of the same account only.
 */
export const LOCKED = problem(
  "lock_timeout",
  "Another request of this account has locked data that this request needs. Try again when it has finished.",
)

/** Whether a transaction gave up because another one kept a row locked for longer than it waits. */
export const isLockTimeout = (error: unknown): boolean => sqlStateOf(error) === "55P03"

/** Whether to wait for locks of other transactions: false if many callers would all wait for a row that one of them needs. */
export const WaitForLocks = Context.Reference<boolean>("billing/postgres/WaitForLocks", { defaultValue: () => true })

/** Limits how long the running transaction waits for each lock of another transaction. */
export const setLockTimeout = (timeoutMs: number) =>
  Effect.flatMap(SqlClient.SqlClient, (sql) =>
    enqueue(sql`SELECT set_config('lock_timeout', ${String(timeoutMs)}, true)`),
  )

/** How long a transaction waits for a lock if other work waits with it. */
export const LOCK_TIMEOUT_MS = 500

/** Runs a transaction of a worker, which serves all tenants: rows that stay locked for longer are left for later. */
export const withLockTimeout = <A, E, R>(work: Effect.Effect<A, E, R>) =>
  Effect.flatMap(SqlClient.SqlClient, (sql) =>
    sql.withTransaction(Effect.andThen(setLockTimeout(LOCK_TIMEOUT_MS), work)),
  )
