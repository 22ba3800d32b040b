/** Lists instalment plans by page number, the newest first. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { invalid } from "../../base/problem.ts"
import { ofTenant, type Tenant } from "../../db/tenant.ts"
import type { PlanQuery } from "./api.ts"
import { instalmentPlans, renderInstalmentPlan } from "./plan.ts"

const LIMIT = 20
/** Most instalments on a page (1.6 MB of JSON): the number in twenty daily plans of two years. */
const MAX_INSTALMENTS = 15_000

/** Returns how many plans fit on a page. `sizes`: the number of instalments of each. */
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
  // The family is the product's present one, also for plans that started before it was set.
  const family = sql`product_id IN (SELECT id FROM instalment_product WHERE ${ofTenant(sql, tenant)} AND family_id = ${familyId ?? ""})`
  const conditions = sql.and([
    ofTenant(sql, tenant),
    // The index for newest first has this condition.
    sql`created_no > 0`,
    ...(status === undefined ? [] : [sql`status = ${status}`]),
    ...(familyId === undefined ? [] : [family]),
  ])
  const size = Number(limit)
  const [count] = yield* sql<{ total: number }>`SELECT count(*) AS total FROM instalment_plan WHERE ${conditions}`
  // Earlier pages are skipped in an index, without reading their rows.
  const found = yield* sql<{ id: string; instalments: number }>`
    SELECT p.id, p.instalments FROM (
      SELECT id, created_no FROM instalment_plan WHERE ${conditions} ORDER BY created_no DESC LIMIT ${size} OFFSET ${(Number(page) - 1) * size}
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
