/** Records for each account whether a rail answers (decision P9). A rail that does not is called once a second until it does. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { HOUR_MS, MINUTE_MS, SECOND_MS } from "../../base/time.ts"
import { rowsAsTable } from "../../db/rows.ts"
import { staysHere, type Tenant } from "../../db/tenant.ts"
import type { OutsideRail, RailResult } from "../rail/Rail.ts"

/** What one call shows about the state of its rail. */
type Reach =
  /** It answered. */
  | { readonly kind: "answered" }
  /** It gave no usable answer. This has no effect unless it continues. */
  | { readonly kind: "failing" }
  /** It asks for fewer calls, or is unreachable. `retryAfterMs` null: it does not say how long to wait. */
  | { readonly kind: "hold_back"; readonly retryAfterMs: number | null }

const reachOf = (result: RailResult): Reach => {
  if (result.kind === "rate_limited") return { kind: "hold_back", retryAfterMs: result.retryAfterMs }
  if (result.kind === "not_sent") return { kind: "hold_back", retryAfterMs: null }
  return result.kind === "unclear" && !result.reached ? { kind: "failing" } : { kind: "answered" }
}

/** Whether a call got a usable answer. */
export const isAnswered = (result: RailResult): boolean => reachOf(result).kind === "answered"

/** The result of a call to a rail for an account. */
export interface Reached extends Tenant {
  readonly rail: OutsideRail
  readonly result: RailResult
  /** Whether it was failing the account when the call was taken. */
  readonly is_failing: boolean
}

/** After this time out of reach a rail is throttled. A few failed calls have no effect. */
const OUT_OF_REACH_MS = MINUTE_MS
const CALL_EVERY_MS = SECOND_MS
/** The longest accepted Retry-After of a rail: a longer one may be a mistake. */
const MAX_RETRY_AFTER_MS = HOUR_MS

const RAIL_OF_ACCOUNT = { account_id: "text", livemode: "boolean", rail: "text" } as const

/** Writes the state of rails by the latest call of each account. A rail that keeps answering writes nothing. */
export const recordReach = Effect.fnUntraced(function* (all: ReadonlyArray<Reached>) {
  const sql = yield* SqlClient.SqlClient
  const byRail = Map.groupBy(all, ({ account_id, rail }) => `${account_id} ${rail}`)
  const latest = [...byRail.values()].map((results) => ({
    ...results.at(-1)!,
    reach: reachOf(results.at(-1)!.result),
    wasFailing: results.some(({ is_failing, result }) => is_failing || !isAnswered(result)),
  }))
  const answered = latest.filter(({ reach, wasFailing }) => reach.kind === "answered" && wasFailing)
  const failed = latest.flatMap(({ account_id, livemode, rail, reach }) => {
    if (reach.kind === "answered") return []
    const requested = reach.kind === "hold_back" ? (reach.retryAfterMs ?? CALL_EVERY_MS) : null
    const wait_ms = requested === null ? null : Math.min(Math.max(requested, CALL_EVERY_MS), MAX_RETRY_AFTER_MS)
    return [{ account_id, livemode, rail, wait_ms }]
  })
  if (answered.length > 0)
    yield* sql`
      DELETE FROM rail_throttle t USING ${rowsAsTable(answered, RAIL_OF_ACCOUNT)} r
      WHERE (t.account_id, t.livemode, t.rail) = (r.account_id, r.livemode, r.rail) AND ${staysHere(sql, "r")}`
  if (failed.length > 0)
    yield* sql`
      INSERT INTO rail_throttle AS t (account_id, livemode, rail, failing_since, next_call_at)
      SELECT account_id, livemode, rail, clock_timestamp(), clock_timestamp() + wait_ms * interval '1 millisecond'
      FROM ${rowsAsTable(failed, { ...RAIL_OF_ACCOUNT, wait_ms: "integer" })} r
      WHERE EXISTS (SELECT 1 FROM account a WHERE a.id = r.account_id) AND ${staysHere(sql, "r")} ORDER BY account_id
      ON CONFLICT (account_id, livemode, rail) DO UPDATE SET next_call_at = CASE
        WHEN excluded.next_call_at IS NOT NULL THEN greatest(t.next_call_at, excluded.next_call_at)
        WHEN t.next_call_at IS NULL AND t.failing_since <= clock_timestamp() - ${OUT_OF_REACH_MS} * interval '1 millisecond'
          THEN clock_timestamp() + ${CALL_EVERY_MS} * interval '1 millisecond'
        ELSE t.next_call_at END`
})
