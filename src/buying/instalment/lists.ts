/** Lists of instalment plans, by the number of a page, the newest first. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { invalid } from "../../base/problem.ts"
import { ofTenant, type Tenant } from "../../db/tenant.ts"
import type { PlanQuery } from "./api.ts"
import { instalmentPlans, renderInstalmentPlan } from "./plan.ts"

const LIMIT = 20
/** Instalments on a page, 1.6 MB of JSON: as many as twenty plans have at most, of two years day by day. */
const MAX_INSTALMENTS = 15_000

/** How many plans of a page, each with so many instalments, can be shown. */
const fitting = (sizes: ReadonlyArray<number>): number => {
  let sum = 0
  const over = sizes.findIndex((size) => {
    sum += size
    return sum > MAX_INSTALMENTS
  })
  return over === -1 ? sizes.length : over
}

export const listPlans = Effect.fn("instalment.list")(function* (
  tenant: Tenant,
  { status, familyId, page = "1", limit = String(LIMIT) }: PlanQuery,
) {
  const sql = yield* SqlClient.SqlClient
  // What groups products filters their plans, those too that began before it did.
  const family = sql`product_id IN (SELECT id FROM instalment_product WHERE ${ofTenant(sql, tenant)} AND family_id = ${familyId ?? ""})`
  const which = sql.and([
    ofTenant(sql, tenant),
    // The index of the newest first has this condition.
    sql`created_no > 0`,
    ...(status === undefined ? [] : [sql`status = ${status}`]),
    ...(familyId === undefined ? [] : [family]),
  ])
  const size = Number(limit)
  const [count] = yield* sql<{ total: number }>`SELECT count(*) AS total FROM instalment_plan WHERE ${which}`
  // The pages before this one are passed over in an index, without their rows.
  const found = yield* sql<{ id: string; instalments: number }>`
    SELECT p.id, p.instalments FROM (
      SELECT id, created_no FROM instalment_plan WHERE ${which} ORDER BY created_no DESC LIMIT ${size} OFFSET ${(Number(page) - 1) * size}
    ) f CROSS JOIN LATERAL (
      SELECT id, jsonb_array_length(instalments) AS instalments FROM instalment_plan WHERE ${ofTenant(sql, tenant)} AND id = f.id OFFSET 0
    ) p ORDER BY f.created_no DESC`
  const fits = fitting(found.map(({ instalments }) => instalments))
  if (fits < found.length)
    return yield* invalid("limit", `limit must be at most ${fits} on this page: its plans have very many instalments.`)
  const rows = yield* instalmentPlans.find(
    tenant,
    found.map(({ id }) => id),
  )
  const items = found.flatMap(({ id }) => {
    const row = rows.get(id)
    return row === undefined ? [] : [renderInstalmentPlan(row)]
  })
  return { items, total: count!.total, page: Number(page), limit: size }
})
