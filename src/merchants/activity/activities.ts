/** Reads the record of activity (decision R7). */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { idBefore, isId } from "../../base/ids.ts"
import { TenantDatabase } from "../../db/TenantDatabase.ts"
import type { Tenant } from "../../db/tenant.ts"
import type { ActivityRow } from "../../http/activity.ts"

const readIn = (tenant: Tenant, limit: number, after: string | null) =>
  Effect.flatMap(TenantDatabase, ({ reading }) =>
    reading(
      tenant,
      Effect.flatMap(
        SqlClient.SqlClient,
        (sql) => sql<ActivityRow>`
          SELECT * FROM activity WHERE account_id = ${tenant.account_id} AND livemode = ${tenant.livemode}
            AND ${after === null ? sql`true` : sql`id < ${after}`}
          ORDER BY id DESC LIMIT ${limit}`,
      ),
    ),
  )

/** Reads the newest activity of an account in both environments, from a cursor on. */
export const newestActivity = Effect.fn("activity.newest")(function* (
  account: string,
  limit: number,
  after: string | null,
) {
  const cursor = after !== null && isId("activity", after) ? after : null
  const found = yield* Effect.all(
    [true, false].map((livemode) => readIn({ account_id: account, livemode }, limit + 1, cursor)),
    { concurrency: 2 },
  )
  const rows = found.flat().sort((a, b) => (a.id < b.id ? 1 : -1))
  return { rows: rows.slice(0, limit), hasMore: rows.length > limit }
})

/** A row is made within this time of its request. */
const NEAR_MS = 1_000
const MOST_OF_REQUEST = 10

/** Reads what one request of a key did, which ended at `endedAt`. IDs are ordered by time: only rows of the same moment are read. */
export const activityOfRequest = Effect.fn("activity.ofRequest")(function* (
  tenant: Tenant,
  requestId: string,
  endedAt: number,
  durationMs: number,
) {
  const { reading } = yield* TenantDatabase
  return yield* reading(
    tenant,
    Effect.flatMap(
      SqlClient.SqlClient,
      (sql) => sql<ActivityRow>`
        SELECT * FROM activity WHERE account_id = ${tenant.account_id} AND livemode = ${tenant.livemode}
          AND id >= ${idBefore("activity", Math.floor(endedAt - durationMs) - NEAR_MS)} AND id < ${idBefore("activity", endedAt + NEAR_MS)}
          AND request_id = ${requestId}
        ORDER BY id LIMIT ${MOST_OF_REQUEST}`,
    ),
  )
})
