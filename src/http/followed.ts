/**
 * Lists that callers follow, by `ending_before` and the newest object that they know (decision B9). An ID is made before what has it is
 * committed, so that an object may come in behind newer ones: whoever goes on from those would never see it. So a page of new
 * objects is read again once all that was being written when it was read is committed, and ends where it ended.
 */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { isMadeSince } from "../ids.ts"
import type { Json } from "../json.ts"
import { SECOND_MS } from "../time.ts"
import type { Page } from "./Endpoint.ts"

/** Whatever is written is committed within this, from its ID on. */
const YOUNG_MS = 5 * SECOND_MS
/** Between the ID and the statement that writes it: from then on the database knows of it. */
const IN_HAND_MS = 50
const LOOK_EVERY_MS = 20
/** A transaction that takes longer (books that are closed, say) keeps nobody. */
const LIMIT_MS = SECOND_MS

/** A page that is to be read once more, as far as this ID. */
export interface Unsettled {
  readonly newest: string
}

/** The newest ID of a page that older objects may come in behind; undefined: none can. */
export const unsettled = (returned: object): string | undefined => {
  const { newest } = returned as Partial<Page<Json>>
  return newest !== undefined && isMadeSince(newest, Date.now() - YOUNG_MS) ? newest : undefined
}

/** The page as far as that ID. */
export const upTo = (page: Page<Json>, newest: string): Page<Json> => {
  const data = page.data.filter(({ id }) => String(id) <= newest)
  return { ...page, data, hasMore: page.hasMore || data.length < page.data.length }
}

/** The oldest transaction that writes, and the next one that will. */
export const horizon = Effect.flatMap(
  SqlClient.SqlClient,
  (sql) => sql<{ oldest: string; next: string }>`
    SELECT pg_snapshot_xmin(s)::text AS oldest, pg_snapshot_xmax(s)::text AS next FROM pg_current_snapshot() s`,
)

/** Waits until what was being written when it began is committed, by looking at the {@link horizon} again and again. */
export const untilCommitted = Effect.fnUntraced(function* <E, R>(
  look: Effect.Effect<ReadonlyArray<{ readonly oldest: string; readonly next: string }>, E, R>,
) {
  yield* Effect.sleep(IN_HAND_MS)
  const [begun] = yield* look
  const isOver = (oldest: string) => BigInt(oldest) >= BigInt(begun!.next)
  if (isOver(begun!.oldest)) return
  const wait = Effect.repeat(Effect.delay(look, LOOK_EVERY_MS), { until: ([now]) => isOver(now!.oldest) })
  yield* Effect.timeoutOption(wait, LIMIT_MS)
})
