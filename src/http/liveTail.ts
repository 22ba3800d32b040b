/**
 * The live tail is the newest part of a list, which callers follow by `ending_before` and their newest object (decision B9). An ID is made
 * before its object is committed, so an older object may appear after newer ones. A caller that continues from those would never
 * see it. So a page of new objects is read again after the transactions that were writing the table have committed, and ends at the same ID.
 */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { isMadeSince } from "../base/ids.ts"
import type { Json } from "../base/json.ts"
import { SECOND_MS } from "../base/time.ts"
import { currentTime } from "../base/wallClock.ts"
import type { Page } from "./Endpoint.ts"

/** Every statement of a request ends within this time, and its writes are committed. */
const WRITTEN_WITHIN_MS = 15 * SECOND_MS
/** The longest time from making an ID to the statement that writes it: from then on its transaction is visible in the database. */
const ID_TO_STATEMENT_MS = 50
/** The same in a transaction that has written other rows before. */
const ID_TO_LATER_STATEMENT_MS = 300
const POLL_EVERY_MS = 50

/** A page after which older objects may still appear. */
export interface MayHaveGaps {
  readonly newest: string
  readonly table: string
}

/** Returns the live tail of a page if older objects may still appear in it; undefined if none can. */
export const mayHaveGaps = (returned: object): MayHaveGaps | undefined => {
  const { liveTail } = returned as Partial<Page<Json>>
  return liveTail !== undefined && isMadeSince(liveTail.newest, currentTime() - WRITTEN_WITHIN_MS)
    ? liveTail
    : undefined
}

/** Cuts a page that was read again to the newest ID of the first read. */
export const upTo = (page: Page<Json>, { newest }: MayHaveGaps): Page<Json> => {
  const data = page.data.filter(({ id }) => String(id) <= newest)
  return { ...page, data, hasMore: page.hasMore || data.length < page.data.length }
}

/** Reads the transactions that write, and whether each writes the page's table. */
export const writersOf = ({ table }: MayHaveGaps) =>
  Effect.flatMap(
    SqlClient.SqlClient,
    (sql) => sql<{ writer: string; here: boolean }>`
      SELECT virtualtransaction AS writer, bool_or(locktype = 'relation') AS here FROM pg_locks
      WHERE (locktype = 'relation' AND relation = ${table}::text::regclass AND mode = 'RowExclusiveLock'
          AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))
        OR (locktype = 'transactionid' AND mode = 'ExclusiveLock')
      GROUP BY virtualtransaction`,
  )

type Writers = Effect.Success<ReturnType<typeof writersOf>>

/** Waits, by polling, until the transactions that write the table now, or may write it soon, have ended. */
export const awaitWriters = Effect.fnUntraced(function* <E, R>(readWriters: Effect.Effect<Writers, E, R>) {
  yield* Effect.sleep(ID_TO_STATEMENT_MS)
  const atStart = new Set((yield* readWriters).map(({ writer }) => writer))
  const since = performance.now()
  const isLeft = ({ writer, here }: Writers[number]) =>
    atStart.has(writer) && (here || performance.now() - since < ID_TO_LATER_STATEMENT_MS)
  if (atStart.size === 0) return
  const wait = Effect.repeat(Effect.delay(readWriters, POLL_EVERY_MS), { until: (now) => !now.some(isLeft) })
  yield* Effect.timeoutOption(wait, WRITTEN_WITHIN_MS)
})
