/** Shortens the periods that charges have paid for. No two periods of a subscription share an instant (`charge_period_paid_once`). */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { REF_COLUMNS, rowsAsTable } from "../../db/rows.ts"
import type { Ref } from "../../db/tenant.ts"
import type { ChargeRow } from "./charge.ts"

const CLOSING = { ...REF_COLUMNS, at: "timestamptz" } as const

/** A charge whose paid period is shortened. */
export interface ClosedCharge {
  readonly before: ChargeRow
  readonly after: ChargeRow
}

/**
 * Locks and returns the charges whose paid periods end after `at`, before and after shortening them to `at`. Their subscriptions must
 * already be locked, in ID order.
 */
export const closePaidPeriods = Effect.fnUntraced(function* (closed: ReadonlyArray<Ref & { readonly at: number }>) {
  if (closed.length === 0) return []
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<ChargeRow>`
    SELECT c.* FROM ${rowsAsTable(closed, CLOSING)} r
    JOIN charge c ON (c.account_id, c.livemode, c.subscription_id) = (r.account_id, r.livemode, r.id)
    WHERE c.status = 'succeeded' AND NOT c.refund_due AND c.period_start_at <= r.at AND c.period_end_at > r.at
    ORDER BY c.id FOR UPDATE OF c`
  const endOf = new Map(closed.map(({ id, at }) => [id, at]))
  return rows.map((before): ClosedCharge => {
    const after = { ...before, period_end_at: endOf.get(before.subscription_id!)! }
    return { before, after }
  })
})
