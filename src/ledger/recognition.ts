/**
 * Recognises revenue by day: one entry for each account, environment, plan and day, computed from the schedules
 * (`finance.recognition` shows its parts). A day is first closed, so that its parts no longer change, and then booked. So the
 * entries are the same if it runs late, twice or on two nodes.
 */
import { Effect, Schedule } from "effect"
import { SqlClient } from "effect/sql"
import { DAY_MS, dayOf, HOUR_MS } from "../base/time.ts"
import { currentTime } from "../base/wallClock.ts"
import { isRef, type Ref, staysHere, type Tenant } from "../db/tenant.ts"
import { unitOfWork } from "../db/UnitOfWork.ts"
import { entriesOf, type NewEntry, postEntries } from "./ledger.ts"
import { formatDay } from "./schedule.ts"

/** The ID of the book of the wall clock. The book of a test clock has the clock's ID. */
const WALL = "wall"
/** Days that one transaction books: about a second of work for 10,000 subscriptions. */
const MAX_DAYS = 31
/** Books of the wall clock that one query reads. */
const MAX_BOOKS = 100
/** A day is closed once all its due timers have fired, or after this time, because a timer may be stuck. */
const CLOSE_AFTER_MS = 6 * HOUR_MS
/** Tries to close a book: a writer usually finishes in a moment. */
const CLOSE_TRIES = 20
const CLOSE_AGAIN_MS = 10

interface Book extends Ref {
  /** Days since the epoch. */
  readonly closed_day: number
  readonly posted_day: number
}

interface Part extends Tenant {
  readonly plan_id: string
  readonly day: number
  readonly kobo: number
}

const lockBook = Effect.fnUntraced(function* (ref: Ref) {
  const sql = yield* SqlClient.SqlClient
  const [book] = yield* sql<Book>`
    SELECT account_id, livemode, id, closed_on - date '1970-01-01' AS closed_day, posted_on - date '1970-01-01' AS posted_day
    FROM revenue_book WHERE ${isRef(sql, ref)} FOR UPDATE`
  return book
})

const clockOf = ({ id }: Ref): string | null => (id === WALL ? null : id)

/** Reads the revenue of the first closed days that are not booked yet, by plan and day, from the schedules of a book. */
const readParts = Effect.fnUntraced(function* (book: Book) {
  const sql = yield* SqlClient.SqlClient
  const ofBook = sql`coalesce(s.test_clock_id, 'wall') = ${book.id} AND s.account_id = ${book.account_id} AND s.livemode = ${book.livemode}`
  const [closed, posted] = [formatDay(book.closed_day), formatDay(book.posted_day)]
  // Years may lie between the last advance and the first subscription.
  const [first] = yield* sql<{ day: number | null }>`
    SELECT min(s.from_on) - date '1970-01-01' AS day
    FROM revenue_schedule s WHERE ${ofBook} AND s.until_on > ${posted}::date + 1 AND s.from_on < s.until_on AND s.from_on <= ${closed}::date`
  if (first!.day === null) return { parts: [], through: book.closed_day }
  const from = Math.max(first!.day, book.posted_day + 1)
  const through = Math.min(book.closed_day, from + MAX_DAYS - 1)
  const parts = yield* sql<Part>`
    SELECT ${book.account_id} AS account_id, ${book.livemode} AS livemode, s.plan_id, d.day - date '1970-01-01' AS day,
      sum(recognised_kobo(s.amount_kobo, s.start_on, s.end_on, d.day)
        - CASE WHEN d.day > s.from_on THEN recognised_kobo(s.amount_kobo, s.start_on, s.end_on, d.day - 1) ELSE 0 END)::bigint AS kobo
    FROM revenue_schedule s
    CROSS JOIN LATERAL (
      SELECT greatest(s.from_on, ${formatDay(from)}::date) + n AS day
      FROM generate_series(0, least(s.until_on - 1, ${formatDay(through)}::date) - greatest(s.from_on, ${formatDay(from)}::date)) AS n
    ) d
    WHERE ${ofBook} AND s.until_on > ${formatDay(from)}::date AND s.from_on <= ${formatDay(through)}::date
    GROUP BY s.plan_id, d.day ORDER BY d.day, s.plan_id`
  return { parts, through }
})

const entryOf = (book: Book, { plan_id, day, kobo }: Part): ReadonlyArray<NewEntry> => {
  const about = {
    account_id: book.account_id,
    livemode: book.livemode,
    planId: plan_id,
    testClockId: clockOf(book),
    day,
  }
  return entriesOf("recognised", `${plan_id}:${formatDay(day)}:${book.id}`, about, { recognisedKobo: kobo })
}

/** Books some closed days of a book, in the running transaction. Returns whether more days are left. */
const postDays = Effect.fnUntraced(function* (ref: Ref) {
  const sql = yield* SqlClient.SqlClient
  const book = yield* lockBook(ref)
  if (book === undefined || book.posted_day >= book.closed_day) return false
  const { parts, through } = yield* readParts(book)
  postEntries(
    yield* unitOfWork,
    parts.flatMap((part) => entryOf(book, part)),
  )
  yield* sql`UPDATE revenue_book SET posted_on = ${formatDay(through)}::date WHERE ${isRef(sql, ref)}`
  return through < book.closed_day
})

const tryToClose = Effect.fnUntraced(function* (ref: Ref, throughDay: number) {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<{ closed: boolean }>`
    SELECT close_revenue_days(${ref.account_id}, ${ref.livemode}, ${ref.id}, ${formatDay(throughDay)}::date) AS closed`
  return row!.closed
})

/**
 * Books up to a month of the days before `at` of a test clock's book, in the running transaction. Returns whether more days are
 * left.
 */
export const recogniseOnClock = Effect.fnUntraced(function* (clock: Ref, at: number) {
  const book = yield* lockBook(clock)
  if (book === undefined) return false
  const through = dayOf(at) - 1
  // A writer of the book finishes in a moment.
  if (book.closed_day < through && !(yield* tryToClose(clock, through))) return true
  return yield* postDays(clock)
})

/** Reads the wall clock's books that have not booked a day yet. */
const dueBooks = Effect.fnUntraced(function* (throughDay: number, after: Ref | undefined) {
  const sql = yield* SqlClient.SqlClient
  return yield* sql<Ref>`
    SELECT account_id, livemode, id FROM revenue_book b
    WHERE ${staysHere(sql, "b")} AND id = ${sql.literal(`'${WALL}'`)} AND posted_on < ${formatDay(throughDay)}::date
      AND ${after === undefined ? sql`true` : sql`(account_id, livemode) > (${after.account_id}, ${after.livemode})`}
    ORDER BY account_id, livemode LIMIT ${MAX_BOOKS}`
})

/** Books the days of one book through `throughDay`. Returns whether the day could be closed. */
const recogniseBook = Effect.fnUntraced(function* (book: Ref, throughDay: number) {
  const sql = yield* SqlClient.SqlClient
  const closed = yield* sql
    .withTransaction(tryToClose(book, throughDay))
    .pipe(Effect.repeat({ until: (is) => is, schedule: Schedule.spaced(CLOSE_AGAIN_MS), times: CLOSE_TRIES }))
  if (closed) yield* Effect.repeat(sql.withTransaction(postDays(book)), { while: (more) => more })
  return closed
})

/** Whether timers that were due before an instant have not fired yet: their effects may belong to that day. */
const isBehind = Effect.fnUntraced(function* (at: number) {
  const sql = yield* SqlClient.SqlClient
  const late = yield* sql`
    SELECT 1 FROM timer t
    WHERE ${staysHere(sql, "t")} AND test_clock_id IS NULL AND actor_kind IN ('subscription', 'charge') AND due_at < to_timestamp(${at / 1000}) LIMIT 1`
  return late.length > 0
})

/** Books the days through `throughDay` of every book of the wall clock. Returns the books that could not be closed or booked. */
export const recogniseThrough = Effect.fn("ledger.recognise")(function* (throughDay: number) {
  const missed: Array<Ref> = []
  let after: Ref | undefined
  for (;;) {
    const books = yield* dueBooks(throughDay, after)
    for (const book of books) {
      // A book that cannot be booked does not block others. The next run retries it.
      const done = yield* recogniseBook(book, throughDay).pipe(
        Effect.catchCause((cause) =>
          Effect.as(Effect.logError("revenue cannot be recognised", { account: book.account_id }, cause), false),
        ),
      )
      if (!done) missed.push(book)
    }
    after = books.at(-1)
    if (books.length < MAX_BOOKS) return missed
  }
})

/** Books the past days. It runs every minute. */
export const recogniseDays = Effect.suspend(() => {
  const now = currentTime()
  const today = dayOf(now)
  const startsAt = today * DAY_MS
  return Effect.flatMap(isBehind(startsAt), (behind) =>
    behind && now < startsAt + CLOSE_AFTER_MS ? Effect.void : Effect.asVoid(recogniseThrough(today - 1)),
  )
})
