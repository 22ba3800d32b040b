/**
 * Closes months and opens them again. The database refuses entries dated into a closed month. A later fact of that month becomes a
 * correction on the first open day (ledger.ts). Sums of closed months are stored, so that years are not summed again.
 */
import { Effect, Schedule } from "effect"
import { SqlClient } from "effect/sql"
import type { Fragment } from "effect/sql/Statement"
import { DAY_MS, dayOf, formatDayOf } from "../base/time.ts"
import { currentTime } from "../base/wallClock.ts"
import { readMoving } from "../db/moving.ts"
import { LOCKS } from "../postgres/advisoryLocks.ts"
import { withFullScans } from "../postgres/fullScan.ts"
import { isLockTimeout, setLockTimeout } from "../postgres/lockWait.ts"
import { recogniseThrough } from "./recognition.ts"

/** Lock timeout of a closing: it and running postings wait for each other only a moment at a time. */
const WAIT_MS = 200
const TRIES = 150
const AGAIN_MS = 20

/** The state of the books: closed months, and past closings. */
export interface BooksState {
  /** `YYYY-MM`; null: no month is closed. */
  readonly closed_through: string | null
  /** The first open day, `YYYY-MM-DD`; null: every day is open. */
  readonly open_from: string | null
  readonly closings: ReadonlyArray<{
    readonly action: "close" | "reopen"
    readonly month: string
    readonly reason: string | null
    readonly at: string
  }>
}

/** The newest closings that are shown. */
const MAX_SHOWN = 50

export const booksState = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const closings = yield* sql<BooksState["closings"][number] & { readonly through: string | null }>`
    SELECT action, to_char(month, 'YYYY-MM') AS month, reason, to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS at,
      through::text AS through
    FROM ledger_closing ORDER BY no DESC LIMIT ${MAX_SHOWN}`
  const through = closings[0]?.through ?? null
  return {
    closed_through: through === null ? null : through.slice(0, 7),
    open_from: through === null ? null : formatDayOf(Date.parse(`${through}T00:00:00Z`) + DAY_MS),
    closings: closings.map(({ action, month, reason, at }) => ({ action, month, reason, at })),
  } satisfies BooksState
})

/** Runs `work` in a transaction during which no other transaction posts. Waits for locks in short tries, so that postings wait briefly. */
const withoutPostings = <A, E>(work: Effect.Effect<A, E, SqlClient.SqlClient>) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const locked = Effect.gen(function* () {
      yield* setLockTimeout(WAIT_MS)
      yield* sql`SELECT pg_advisory_xact_lock(${LOCKS.books}, 0)`
      return yield* work
    })
    return yield* sql.withTransaction(locked).pipe(
      Effect.retry({
        while: (error) => isLockTimeout(error),
        schedule: Schedule.spaced(AGAIN_MS),
        times: TRIES,
      }),
    )
  })

/** Stores the sums of closed months that have none yet. */
const sumClosed = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  yield* sql.withTransaction(
    Effect.gen(function* () {
      // Reads all lines since the last summed month, once.
      yield* withFullScans
      yield* sql`SELECT pg_advisory_xact_lock(${LOCKS.books}, 1)`
      // A month may have been opened again meanwhile.
      const { closed_through } = yield* booksState
      if (closed_through === null) return
      const first = `${closed_through}-01`
      const since = sql`coalesce((SELECT finance.month_of(max(month) + 31) FROM ledger_totalled), '-infinity')`
      yield* sql`
        INSERT INTO ledger_total (account_id, livemode, month, ledger_account, debit_kobo, credit_kobo)
        SELECT account_id, true, finance.month_of(effective_on), ledger_account,
          coalesce(sum(amount_kobo) FILTER (WHERE amount_kobo > 0), 0), coalesce(-sum(amount_kobo) FILTER (WHERE amount_kobo < 0), 0)
        FROM ledger_line
        WHERE livemode AND effective_on >= ${since} AND effective_on < ${first}::date + interval '1 month'
        GROUP BY account_id, finance.month_of(effective_on), ledger_account`
      yield* sql`
        INSERT INTO ledger_totalled (month)
        SELECT m::date FROM generate_series(
          coalesce((SELECT max(month) + interval '1 month' FROM ledger_totalled), (SELECT min(month) FROM ledger_total), ${first}::date)::timestamp,
          ${first}::timestamp, interval '1 month') AS m`
    }),
  )
})

/** Returns the first and the last day of a month `YYYY-MM`, as days since the epoch. */
const daysOf = (month: string): readonly [first: number, last: number] => {
  const [year, number] = month.split("-").map(Number) as [number, number]
  return [dayOf(Date.UTC(year, number - 1, 1)), dayOf(Date.UTC(year, number, 1)) - 1]
}

/** A breach or an exception that prevents a month from closing (decision Q10). */
export interface Open {
  /** `YYYY-MM`; null: the month is unknown, so it may be this one. */
  readonly month: string | null
  readonly kind: string
  readonly account: string
  readonly problem: string
}

/** Problems that are read. A refusal names the first. */
const MAX_OPEN = 100

/** The SQL condition on `month` (a first day) of the months that this closing closes: from the first open month to `month`. */
const monthsToClose = (sql: SqlClient.SqlClient, { open_from }: Pick<BooksState, "open_from">, month: string) =>
  sql`month >= coalesce(${open_from}::date, '-infinity') AND month <= ${`${month}-01`}::date`

/** Reads the open problems of these months, of all accounts of this cell, the earliest first. */
const readOpen = Effect.fnUntraced(function* (months: Fragment) {
  const sql = yield* SqlClient.SqlClient
  return yield* sql.withTransaction(
    Effect.andThen(
      withFullScans,
      sql<Open>`
        SELECT to_char(month, 'YYYY-MM') AS month, kind, account_id AS account, problem FROM finance.exceptions
        WHERE month IS NULL OR (${months}) ORDER BY month, kind, about LIMIT ${MAX_OPEN}`,
    ),
  )
})

/** Reads only the suspense of these months: the only problem that can still appear in a past month. */
const readSuspense = Effect.fnUntraced(function* (months: Fragment) {
  const sql = yield* SqlClient.SqlClient
  return yield* sql<Open>`
    SELECT to_char(month, 'YYYY-MM') AS month, 'suspense' AS kind, account_id AS account, amount_kobo || ' kobo of ' || reference || ' are in suspense' AS problem
    FROM finance.suspense WHERE ${months} ORDER BY month, reference LIMIT ${MAX_OPEN}`
})

/**
 * Closes the months up to `month`, once all their revenue is recognised; `missed` are the accounts with revenue that is not. If a breach or
 * an exception is open in these months, it closes them only with a reason in `accept`, which is stored; without one it returns the `open`
 * problems. Does nothing while accounts move, and returns some of those: sums made here would be missing in the other cell. Closing a
 * closed month changes nothing.
 */
export const closeThrough = Effect.fn("ledger.close")(function* (month: string, accept?: string) {
  const sql = yield* SqlClient.SqlClient
  const moving = yield* readMoving(["opened"])
  if (moving.length > 0) return { moving }
  const [, last] = daysOf(month)
  const missed = yield* recogniseThrough(Math.min(last, dayOf(currentTime()) - 1))
  // Sandbox books do not count: revenue that is recognised there later is a correction.
  const live = missed.filter(({ livemode }) => livemode)
  if (live.length > 0) return { missed: live.map(({ account_id }) => account_id) }
  const state = yield* booksState
  const isClosed = state.closed_through !== null && state.closed_through >= month
  const months = monthsToClose(sql, state, month)
  const isChecked = accept === undefined && !isClosed
  const found = isChecked ? yield* readOpen(months) : []
  if (found.length > 0) return { open: found }
  const close = Effect.gen(function* () {
    // A settlement may have been imported since that check.
    const suspense = isChecked ? yield* readSuspense(months) : []
    if (suspense.length === 0)
      yield* sql`
        INSERT INTO ledger_closing (action, month, through, reason)
        SELECT 'close', ${`${month}-01`}::date, (${`${month}-01`}::date + interval '1 month')::date - 1, ${accept ?? null}::text
        WHERE ledger_open_from() <= (${`${month}-01`}::date + interval '1 month')::date - 1`
    return suspense
  })
  const open = yield* withoutPostings(close)
  if (open.length > 0) return { open }
  yield* sumClosed
  return yield* booksState
})

/** Opens a closed month and those after it again; undefined if it is not closed. Like a closing, it does nothing while accounts move. */
export const reopen = Effect.fn("ledger.reopen")(function* (month: string, reason: string) {
  const sql = yield* SqlClient.SqlClient
  const moving = yield* readMoving(["opened"])
  if (moving.length > 0) return { moving }
  const first = `${month}-01`
  const opened = yield* withoutPostings(
    Effect.gen(function* () {
      const rows = yield* sql`
        INSERT INTO ledger_closing (action, month, through, reason)
        SELECT 'reopen', ${first}::date, ${first}::date - 1, ${reason}
        WHERE ledger_open_from() > ${first}::date RETURNING no`
      if (rows.length === 0) return false
      yield* sql`SELECT pg_advisory_xact_lock(${LOCKS.books}, 1)`
      yield* sql`DELETE FROM ledger_total WHERE month >= ${first}::date`
      // Earlier months keep their sums even if they were not closed here one by one: moved accounts bring sums from other cells.
      yield* sql`
        WITH opened AS (DELETE FROM ledger_totalled WHERE month >= ${first}::date RETURNING month)
        INSERT INTO ledger_totalled (month)
        SELECT (${first}::date - interval '1 month')::date WHERE EXISTS (SELECT 1 FROM opened)
        ON CONFLICT (month) DO NOTHING`
      return true
    }),
  )
  return opened ? yield* booksState : undefined
})
