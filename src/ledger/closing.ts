/**
 * Closing months: nothing more is dated into a closed one, the database refuses it; what happens in it later is a correction in
 * the first open day's books (ledger.ts). What closed months come to is kept, so that nobody sums years again.
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

/** A closing waits for those that post, and they for it: a moment at a time. */
const WAIT_MS = 200
const TRIES = 150
const AGAIN_MS = 20

/** What was done, and which months are closed. */
export interface BooksState {
  /** `YYYY-MM`; null: no month is closed. */
  readonly closed_through: string | null
  /** The first day that is open, `YYYY-MM-DD`; null: every day is. */
  readonly open_from: string | null
  readonly closings: ReadonlyArray<{
    readonly action: "close" | "reopen"
    readonly month: string
    readonly reason: string | null
    readonly at: string
  }>
}

/** Closings that are shown, the newest. */
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

/** Does `work` in a transaction in which nobody posts; what waits for it waits for a moment. */
const alone = <A, E>(work: Effect.Effect<A, E, SqlClient.SqlClient>) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const held = Effect.gen(function* () {
      yield* setLockTimeout(WAIT_MS)
      yield* sql`SELECT pg_advisory_xact_lock(${LOCKS.books}, 0)`
      return yield* work
    })
    return yield* sql.withTransaction(held).pipe(
      Effect.retry({
        while: (error) => isLockTimeout(error),
        schedule: Schedule.spaced(AGAIN_MS),
        times: TRIES,
      }),
    )
  })

/** The months that are closed and not summed yet are summed. */
const sumClosed = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  yield* sql.withTransaction(
    Effect.gen(function* () {
      // It reads everything that was posted since the last time, once.
      yield* withFullScans
      yield* sql`SELECT pg_advisory_xact_lock(${LOCKS.books}, 1)`
      // Somebody may have opened one again meanwhile.
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

/** A month, `YYYY-MM`, as the days that it has, since the epoch: from the first to the last. */
const daysOf = (month: string): readonly [first: number, last: number] => {
  const [year, number] = month.split("-").map(Number) as [number, number]
  return [dayOf(Date.UTC(year, number - 1, 1)), dayOf(Date.UTC(year, number, 1)) - 1]
}

/** A breach or an exception that keeps a month from being closed (decision Q10). */
export interface Open {
  /** `YYYY-MM`; null: it belongs to no month, and so possibly to this one. */
  readonly month: string | null
  readonly kind: string
  readonly account: string
  readonly problem: string
}

/** Problems that are read; a refusal names the first of them. */
const MAX_OPEN = 100

/** The months that closing through `month` closes: from the first that is open to that one, as their first days. */
const monthsToClose = (sql: SqlClient.SqlClient, { open_from }: Pick<BooksState, "open_from">, month: string) =>
  sql`month >= coalesce(${open_from}::date, '-infinity') AND month <= ${`${month}-01`}::date`

/** What is open in these months, of all accounts that live here, the earliest first. */
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

/** The same of suspense alone: of all that can be open it is what comes into a month that is over. */
const readSuspense = Effect.fnUntraced(function* (months: Fragment) {
  const sql = yield* SqlClient.SqlClient
  return yield* sql<Open>`
    SELECT to_char(month, 'YYYY-MM') AS month, 'suspense' AS kind, account_id AS account, amount_kobo || ' kobo of ' || reference || ' are in suspense' AS problem
    FROM finance.suspense WHERE ${months} ORDER BY month, reference LIMIT ${MAX_OPEN}`
})

/**
 * Closes the months up to `month`, once all revenue of theirs is recognised; `missed` are the accounts whose is not. Where a breach or an
 * exception is open in them, it closes only for a reason to `accept` that, which is kept; without one it returns what is `open`. Does
 * nothing while accounts move, and returns some of those: sums that are made of them here would be missing there. Closing what is closed
 * changes nothing.
 */
export const closeThrough = Effect.fn("ledger.close")(function* (month: string, accept?: string) {
  const sql = yield* SqlClient.SqlClient
  const moving = yield* readMoving(["opened"])
  if (moving.length > 0) return { moving }
  const [, last] = daysOf(month)
  const missed = yield* recogniseThrough(Math.min(last, dayOf(currentTime()) - 1))
  // Sandboxes are nobody's books: what is recognised there later is a correction.
  const live = missed.filter(({ livemode }) => livemode)
  if (live.length > 0) return { missed: live.map(({ account_id }) => account_id) }
  const before = yield* booksState
  const isClosed = before.closed_through !== null && before.closed_through >= month
  const months = monthsToClose(sql, before, month)
  const isChecked = accept === undefined && !isClosed
  const found = isChecked ? yield* readOpen(months) : []
  if (found.length > 0) return { open: found }
  const close = Effect.gen(function* () {
    // A settlement may have been read since then.
    const since = isChecked ? yield* readSuspense(months) : []
    if (since.length === 0)
      yield* sql`
        INSERT INTO ledger_closing (action, month, through, reason)
        SELECT 'close', ${`${month}-01`}::date, (${`${month}-01`}::date + interval '1 month')::date - 1, ${accept ?? null}::text
        WHERE ledger_open_from() <= (${`${month}-01`}::date + interval '1 month')::date - 1`
    return since
  })
  const open = yield* alone(close)
  if (open.length > 0) return { open }
  yield* sumClosed
  return yield* booksState
})

/** Opens a closed month again, and those after it; undefined where it is not closed. As closing, it does nothing while accounts move. */
export const reopen = Effect.fn("ledger.reopen")(function* (month: string, reason: string) {
  const sql = yield* SqlClient.SqlClient
  const moving = yield* readMoving(["opened"])
  if (moving.length > 0) return { moving }
  const first = `${month}-01`
  const opened = yield* alone(
    Effect.gen(function* () {
      const rows = yield* sql`
        INSERT INTO ledger_closing (action, month, through, reason)
        SELECT 'reopen', ${first}::date, ${first}::date - 1, ${reason}
        WHERE ledger_open_from() > ${first}::date RETURNING no`
      if (rows.length === 0) return false
      yield* sql`SELECT pg_advisory_xact_lock(${LOCKS.books}, 1)`
      yield* sql`DELETE FROM ledger_total WHERE month >= ${first}::date`
      // The months before stay summed, whether or not they were closed one by one here: accounts bring theirs from other cells.
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
