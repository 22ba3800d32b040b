/**
 * Lists that callers follow, by `ending_before` and the newest object that they know (decision B9). An ID is made before what has it is
 * committed, so that an object may come in behind newer ones: whoever goes on from those would never see it. So a page of new
 * objects is read again once all that was being written when it was read is committed, and ends where it ended.
 */
import { Effect, Option } from "effect"
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
/** While a transaction takes longer (books that are closed, say), pages end before what is that young. */
const LIMIT_MS = SECOND_MS

/** A page that older objects may come in behind. */
export interface Unsettled {
  readonly newest: string
  /** When it was read. */
  readonly at: number
}

/** Whether older objects may come in behind those of a page; undefined: none can. */
export const unsettled = (returned: object): Unsettled | undefined => {
  const { newest } = returned as Partial<Page<Json>>
  const at = Date.now()
  return newest !== undefined && isMadeSince(newest, at - YOUNG_MS) ? { newest, at } : undefined
}

/** The same page read again: as far as it went, and of what older objects may still come in behind nothing. */
export const settledPart = (page: Page<Json>, { newest, at }: Unsettled, committed: boolean): Page<Json> => {
  const data = page.data.filter(
    ({ id }) => String(id) <= newest && (committed || !isMadeSince(String(id), at - YOUNG_MS)),
  )
  return { ...page, data, hasMore: page.hasMore || data.length < page.data.length }
}

/** The oldest transaction that writes, and the next one that will. */
export const horizon = Effect.flatMap(
  SqlClient.SqlClient,
  (sql) => sql<{ oldest: string; next: string }>`
    SELECT pg_snapshot_xmin(s)::text AS oldest, pg_snapshot_xmax(s)::text AS next FROM pg_current_snapshot() s`,
)

/** Waits until what was being written when it began is committed, by looking at the {@link horizon} again and again; returns whether it is. */
export const untilCommitted = Effect.fnUntraced(function* <E, R>(
  look: Effect.Effect<ReadonlyArray<{ readonly oldest: string; readonly next: string }>, E, R>,
) {
  yield* Effect.sleep(IN_HAND_MS)
  const [begun] = yield* look
  const isOver = (oldest: string) => BigInt(oldest) >= BigInt(begun!.next)
  if (isOver(begun!.oldest)) return true
  const wait = Effect.repeat(Effect.delay(look, LOOK_EVERY_MS), { until: ([now]) => isOver(now!.oldest) })
  return Option.isSome(yield* Effect.timeoutOption(wait, LIMIT_MS))
})
