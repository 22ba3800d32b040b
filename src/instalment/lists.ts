/** Lists of instalment plans, by the number of a page, the newest first. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { ofTenant, type Tenant } from "../db/tenant.ts"
import type { PlanQuery } from "./api.ts"
import { type InstalmentPlanRow, renderInstalmentPlan } from "./plan.ts"

const LIMIT = 20

export const listPlans = Effect.fn("instalment.list")(function* (
  tenant: Tenant,
  { status, familyId, page = "1", limit = String(LIMIT) }: PlanQuery,
) {
  const sql = yield* SqlClient.SqlClient
  const which = sql.and([
    ofTenant(sql, tenant),
    ...(status === undefined ? [] : [sql`status = ${status}`]),
    ...(familyId === undefined ? [] : [sql`family_id = ${familyId}`]),
  ])
  const size = Number(limit)
  const [count] = yield* sql<{ total: number }>`SELECT count(*) AS total FROM instalment_plan WHERE ${which}`
  // The pages before this one are passed over in an index, without their rows.
  const rows = yield* sql<InstalmentPlanRow>`
    SELECT p.* FROM (
      SELECT id FROM instalment_plan WHERE ${which} ORDER BY id DESC LIMIT ${size} OFFSET ${(Number(page) - 1) * size}
    ) f CROSS JOIN LATERAL (SELECT * FROM instalment_plan WHERE ${ofTenant(sql, tenant)} AND id = f.id OFFSET 0) p
    ORDER BY f.id DESC`
  return { items: rows.map(renderInstalmentPlan), total: count!.total, page: Number(page), limit: size }
})
