/** How rails are doing for each account (decision P9): those that do not answer are called once a second until they do. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { records } from "../db/records.ts"
import type { Heard, OutsideRail } from "../rail/Rail.ts"

/** What one call says of its rail. */
export type Reach =
  /** It answered. */
  | { readonly kind: "answered" }
  /** It did not, or not in a way that can be used. */
  | { readonly kind: "out_of_reach" }
  /** It wants fewer calls. `retryAfterMs` null: it does not say when. */
  | { readonly kind: "too_many"; readonly retryAfterMs: number | null }

export const reachOf = (heard: Heard): Reach => {
  if (heard.kind === "rate_limited") return { kind: "too_many", retryAfterMs: heard.retryAfterMs }
  return heard.kind === "not_sent" || (heard.kind === "unclear" && !heard.reached)
    ? { kind: "out_of_reach" }
    : { kind: "answered" }
}

export interface Reached {
  readonly account_id: string
  readonly livemode: boolean
  readonly rail: OutsideRail
  readonly reach: Reach
}

/** Out of reach for so long, a rail is held back; a few calls that failed are nothing yet. */
const OUT_OF_REACH_MS = 60_000
const CALL_EVERY_MS = 1_000
/** No rail's Retry-After stops its calls for longer: it may be a mistake. */
const MAX_RETRY_AFTER_MS = 3_600_000

const COLUMNS = { account_id: "text", livemode: "boolean", rail: "text", wait_ms: "integer" } as const

/**
 * Writes how rails were reached, the latest of each account; those that answered are called as before. `throttled` are those
 * known to be failing: most calls write nothing.
 */
export const recordReach = Effect.fnUntraced(function* (latest: ReadonlyArray<Reached>) {
  const sql = yield* SqlClient.SqlClient
  const answered = latest.filter(({ reach }) => reach.kind === "answered")
  const failed = latest.flatMap(({ reach, ...of }) => {
    if (reach.kind === "answered") return []
    const asked = reach.kind === "too_many" ? (reach.retryAfterMs ?? CALL_EVERY_MS) : null
    return [{ ...of, wait_ms: asked === null ? null : Math.min(Math.max(asked, CALL_EVERY_MS), MAX_RETRY_AFTER_MS) }]
  })
  if (answered.length > 0)
    yield* sql`
      DELETE FROM rail_throttle t USING ${records(sql, answered, { account_id: "text", livemode: "boolean", rail: "text" })} r
      WHERE (t.account_id, t.livemode, t.rail) = (r.account_id, r.livemode, r.rail)`
  if (failed.length > 0)
    yield* sql`
      INSERT INTO rail_throttle AS t (account_id, livemode, rail, failing_since, next_call_at)
      SELECT account_id, livemode, rail, clock_timestamp(), clock_timestamp() + wait_ms * interval '1 millisecond' FROM ${records(sql, failed, COLUMNS)} r
      ON CONFLICT (account_id, livemode, rail) DO UPDATE SET next_call_at = CASE
        WHEN excluded.next_call_at IS NOT NULL THEN greatest(t.next_call_at, excluded.next_call_at)
        WHEN t.next_call_at IS NULL AND t.failing_since <= clock_timestamp() - ${OUT_OF_REACH_MS} * interval '1 millisecond'
          THEN clock_timestamp() + ${CALL_EVERY_MS} * interval '1 millisecond'
        ELSE t.next_call_at END`
})
