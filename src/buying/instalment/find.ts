/** Whose the objects are that public paths and buyers' links lead to. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { isId } from "../../base/ids.ts"
import { noSuch, problem } from "../../base/problem.ts"
import { livesHere, type Tenant, tenantOf } from "../../db/tenant.ts"
import { findByToken } from "../../security/secret/linkTokens.ts"
import { instalmentPlans } from "./plan.ts"

const NO_PLAN = problem(
  "resource_missing",
  "There is no instalment plan at this address: check that the link is whole, or ask the merchant for it.",
)

/** The plan that a buyer's token leads to. */
export const findPlan = (token: string) => findByToken(instalmentPlans, "token_hash", token, NO_PLAN)

/** Whose plan a token of this environment leads to. */
export const whoseToken = ({ token = "" }: Readonly<Record<string, string>>, livemode: boolean) =>
  Effect.flatMap(findPlan(token), (row) =>
    row.livemode === livemode ? Effect.succeed(tenantOf(row)) : Effect.fail(NO_PLAN),
  )

/** Whose product of this environment it is. */
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
