/** Finds the tenant of a public path or of a buyer's link. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { isId } from "../../base/ids.ts"
import { noSuch, problem } from "../../base/problem.ts"
import { livesHere, type Tenant, tenantOf } from "../../db/tenant.ts"
import { findByToken } from "../../security/secret/linkTokens.ts"
import { instalmentPlans } from "./plan.ts"

const NO_PLAN = problem(
  "resource_missing",
  "There is no instalment plan at this address: check that the link is complete, or ask the merchant for it.",
)

/** Finds the plan of a buyer's token. */
export const findPlan = (token: string) => findByToken(instalmentPlans, "token_hash", token, NO_PLAN)

/** Returns the tenant of a token's plan in this environment. */
export const whoseToken = ({ token = "" }: Readonly<Record<string, string>>, livemode: boolean) =>
  Effect.flatMap(findPlan(token), (row) =>
    row.livemode === livemode ? Effect.succeed(tenantOf(row)) : Effect.fail(NO_PLAN),
  )

/** Returns the tenant of a product in this environment. */
export const whoseProduct = Effect.fnUntraced(function* (
  { productId: id = "" }: Readonly<Record<string, string>>,
  livemode: boolean,
) {
  const sql = yield* SqlClient.SqlClient
  const [row] = isId("instalment_product", id)
    ? yield* sql<Tenant>`
        SELECT account_id, livemode FROM instalment_product p
        WHERE id = ${id} AND livemode = ${livemode} AND ${livesHere(sql, "p")}`
    : []
  return row ?? (yield* noSuch("product", id))
})
