/** Reads the record of activity (decision R7). */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { isId } from "../../base/ids.ts"
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
