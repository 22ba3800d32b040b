/**
 * Lists that callers follow, by `ending_before` and the newest object that they know (decision B9). An ID is made before what has it is
 * committed, so that an object may come in behind newer ones: whoever goes on from those would never see it. So a page of new
 * objects is read again once those who were writing the table when it was read have committed, and ends where it ended.
 */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { isMadeSince } from "../ids.ts"
import type { Json } from "../json.ts"
import { SECOND_MS } from "../time.ts"
import type { Page } from "./Endpoint.ts"

/** How long an ID may be made before it is committed: a statement of a request ends within that. */
const YOUNG_MS = 15 * SECOND_MS
/** Between the ID and the statement that writes it: from then on the database knows of it. */
const IN_HAND_MS = 50
const LOOK_EVERY_MS = 50
/** A transaction that takes longer keeps nobody: none of ours does. */
const LIMIT_MS = 3 * SECOND_MS

/** A page that older objects may come in behind. */
export interface Unsettled {
  readonly newest: string
  readonly table: string
}

/** Whether older objects may come in behind those of a page; undefined: none can. */
export const unsettled = (returned: object): Unsettled | undefined => {
  const { followed } = returned as Partial<Page<Json>>
  return followed !== undefined && isMadeSince(followed.newest, Date.now() - YOUNG_MS) ? followed : undefined
}

/** The same page read again, as far as it went. */
export const upTo = (page: Page<Json>, { newest }: Unsettled): Page<Json> => {
  const data = page.data.filter(({ id }) => String(id) <= newest)
  return { ...page, data, hasMore: page.hasMore || data.length < page.data.length }
}

/** The transactions that are writing a table. */
export const writersOf = ({ table }: Unsettled) =>
  Effect.flatMap(
    SqlClient.SqlClient,
    (sql) => sql<{ writer: string }>`
      SELECT virtualtransaction AS writer FROM pg_locks
      WHERE locktype = 'relation' AND relation = ${table}::text::regclass AND mode = 'RowExclusiveLock'
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`,
  )

/** Waits until those who write when it begins have committed, by looking again and again. */
export const untilCommitted = Effect.fnUntraced(function* <E, R>(
  look: Effect.Effect<ReadonlyArray<{ readonly writer: string }>, E, R>,
) {
  yield* Effect.sleep(IN_HAND_MS)
  const begun = new Set((yield* look).map(({ writer }) => writer))
  if (begun.size === 0) return
  const wait = Effect.repeat(Effect.delay(look, LOOK_EVERY_MS), {
    until: (now) => !now.some(({ writer }) => begun.has(writer)),
  })
  yield* Effect.timeoutOption(wait, LIMIT_MS)
})
