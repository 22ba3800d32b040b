/**
 * The fence around an account that moves (migrations/0025_cells.sql): triggers on every table refuse what is written of it,
 * whoever writes. They are switched on while some account moves, table by table, each for as long as those take who are
 * writing to it just then.
 */
import { Effect, Schedule } from "effect"
import { SqlClient, SqlError } from "effect/sql"
import { LOCKS } from "../postgres/advisoryLocks.ts"
import type { Move } from "./replication.ts"
import type { MovedTable } from "./tables.ts"

/** How soon a table that somebody was holding is tried again, and how often. */
const AGAIN_MS = 50
const TRIES = 1_200

const isHeld = (error: unknown): boolean => SqlError.isSqlError(error) && error.reason._tag === "LockTimeoutError"

/** Switches the fence on where some account moves, and off where none does. */
export const switchFence = Effect.fnUntraced(function* (tables: ReadonlyArray<Pick<MovedTable, "name">>) {
  const sql = yield* SqlClient.SqlClient
  yield* Effect.forEach(
    tables,
    ({ name }) =>
      Effect.retry(sql`SELECT switch_fence(${name})`, {
        while: isHeld,
        schedule: Schedule.spaced(AGAIN_MS),
        times: TRIES,
      }),
    { discard: true },
  )
})

/** Refuses what is written of an account from now on; returns once all that was being written is. */
export const fence = Effect.fnUntraced(function* ({ account_id, move_id }: Move) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    UPDATE account_move SET state = 'fenced', fenced_at = clock_timestamp()
    WHERE account_id = ${account_id} AND move_id = ${move_id} AND state = 'copying'`
  yield* sql.withTransaction(sql`SELECT pg_advisory_xact_lock(${LOCKS.fence}, hashtext(${account_id}))`)
})

/** Lets an account be written again where it has always been, from the fence that went up then (`fenced_at`, as text). */
export const reopen = Effect.fnUntraced(function* (account: string, fencedAt: string) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    UPDATE account_move SET state = 'copying', fenced_at = NULL
    WHERE account_id = ${account} AND state = 'fenced' AND fenced_at = ${fencedAt}::timestamptz`
})

/** Puts away the fences of tables that a mover which died at its very end has left up. */
export const putForgottenAway = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const left = yield* sql<{ name: string }>`
    SELECT tgrelid::regclass::text AS name FROM pg_trigger
    WHERE tgname = 'account_moving' AND tgenabled <> 'D' AND NOT EXISTS (SELECT 1 FROM account_move)`
  yield* switchFence(left)
})
