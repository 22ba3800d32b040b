/**
 * The fence of a moving account: triggers on every table that refuse all writes to its rows (migrations/0010_cells.sql).
 * The triggers are enabled only while an account moves. Enabling them on a table waits for the transactions that write to it.
 */
import { Effect, Schedule } from "effect"
import { SqlClient, SqlError } from "effect/sql"
import { LOCKS } from "../postgres/advisoryLocks.ts"
import type { Move } from "./replication.ts"
import type { MovedTable } from "./tables.ts"

/** A locked table is retried every 50 ms, for a minute. */
const FENCE_RETRY_MS = 50
const MAX_RETRIES = 1_200

const isLocked = (error: unknown): boolean => SqlError.isSqlError(error) && error.reason._tag === "LockTimeoutError"

/** Enables the fence's triggers on these tables if any account moves; else disables them. */
export const switchFence = Effect.fnUntraced(function* (tables: ReadonlyArray<Pick<MovedTable, "name">>) {
  const sql = yield* SqlClient.SqlClient
  yield* Effect.forEach(
    tables,
    ({ name }) =>
      Effect.retry(sql`SELECT switch_fence(${name})`, {
        while: isLocked,
        schedule: Schedule.spaced(FENCE_RETRY_MS),
        times: MAX_RETRIES,
      }),
    { discard: true },
  )
})

/** Refuses writes to an account from now on. Returns when the writes already under way have ended. */
export const fence = Effect.fnUntraced(function* ({ account_id, move_id }: Move) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    UPDATE account_move SET state = 'fenced', fenced_at = clock_timestamp()
    WHERE account_id = ${account_id} AND move_id = ${move_id} AND state = 'copying'`
  yield* sql.withTransaction(sql`SELECT pg_advisory_xact_lock(${LOCKS.fence}, hashtext(${account_id}))`)
})

/** Accepts writes to an account at its source again. `fencedAt` (text) names the fence to remove. */
export const reopen = Effect.fnUntraced(function* (account: string, fencedAt: string) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    UPDATE account_move SET state = 'copying', fenced_at = NULL
    WHERE account_id = ${account} AND state = 'fenced' AND fenced_at = ${fencedAt}::timestamptz`
})

/** Disables the fences that a crashed move left enabled after the last account had moved. */
export const disableForgottenFences = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const forgotten = yield* sql<{ name: string }>`
    SELECT tgrelid::regclass::text AS name FROM pg_trigger
    WHERE tgname = 'account_moving' AND tgenabled <> 'D' AND NOT EXISTS (SELECT 1 FROM account_move)`
  yield* switchFence(forgotten)
})
