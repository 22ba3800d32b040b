/**
 * Lists that callers follow, by `ending_before` and the newest object that they know (decision B9). An ID is made before what has it is
 * committed, so that an object may come in behind newer ones: whoever goes on from those would never see it. So a page of new
 * objects is read again once those who were writing the table when it was read have committed, and ends where it ended.
 */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { isMadeSince } from "../base/ids.ts"
import type { Json } from "../base/json.ts"
import { SECOND_MS } from "../base/time.ts"
import { currentTime } from "../base/wallClock.ts"
import type { Page } from "./Endpoint.ts"

/** A statement of a request ends within that, and what it has written is committed. */
const WRITTEN_WITHIN_MS = 15 * SECOND_MS
/** Between an ID and the statement that writes it: from then on the database knows of it. */
const IN_HAND_MS = 50
/** The same in a transaction that has written something else before. */
const ON_ITS_WAY_MS = 300
const LOOK_EVERY_MS = 50

/** A page that older objects may come in behind. */
export interface MayHaveGaps {
  readonly newest: string
  readonly table: string
}

/** Whether older objects may come in behind those of a page; undefined: none can. */
export const mayHaveGaps = (returned: object): MayHaveGaps | undefined => {
  const { liveTail } = returned as Partial<Page<Json>>
  return liveTail !== undefined && isMadeSince(liveTail.newest, currentTime() - WRITTEN_WITHIN_MS)
    ? liveTail
    : undefined
}

/** The same page read again, as far as it went. */
export const upTo = (page: Page<Json>, { newest }: MayHaveGaps): Page<Json> => {
  const data = page.data.filter(({ id }) => String(id) <= newest)
  return { ...page, data, hasMore: page.hasMore || data.length < page.data.length }
}

/** Transactions that write, and whether they do so in the table. */
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

/** Waits until those who write the table when it begins have committed, or come to write it soon, by looking again and again. */
export const awaitWriters = Effect.fnUntraced(function* <E, R>(look: Effect.Effect<Writers, E, R>) {
  yield* Effect.sleep(IN_HAND_MS)
  const begun = new Set((yield* look).map(({ writer }) => writer))
  const since = performance.now()
  const isLeft = ({ writer, here }: Writers[number]) =>
    begun.has(writer) && (here || performance.now() - since < ON_ITS_WAY_MS)
  if (begun.size === 0) return
  const wait = Effect.repeat(Effect.delay(look, LOOK_EVERY_MS), { until: (now) => !now.some(isLeft) })
  yield* Effect.timeoutOption(wait, WRITTEN_WITHIN_MS)
})
