/** Counts of objects that cost the same for an account of any size: from a limit on they are capped. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { ofTenant, type Tenant } from "../db/tenant.ts"

/** Counting this many index entries takes some milliseconds. */
export const MAX_COUNTED = 10_000

const COUNTED = ["active", "past_due", "trialing", "paused"] as const

export type StatusCounts = Readonly<Record<(typeof COUNTED)[number], number>>

/** Counts the subscriptions of an environment by status, capped. */
export const statusCounts = Effect.fnUntraced(function* (tenant: Tenant) {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<{ status: (typeof COUNTED)[number]; count: number }>`
    SELECT w.status, n.count FROM unnest(${COUNTED}::text[]) AS w (status)
    CROSS JOIN LATERAL (
      SELECT count(*)::integer AS count FROM (
        SELECT 1 FROM subscription s WHERE s.status = w.status AND ${ofTenant(sql, tenant, "s")} LIMIT ${MAX_COUNTED + 1}
      ) o
    ) n`
  const counts: Record<string, number> = {}
  for (const { status, count } of rows) counts[status] = count
  return counts as StatusCounts
})
