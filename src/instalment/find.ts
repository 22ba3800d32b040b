/** Whose the objects are that public paths and buyers' links lead to. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { livesHere, type Tenant, tenantOf } from "../db/tenant.ts"
import { isId } from "../ids.ts"
import { noSuch, problem } from "../problem.ts"
import { hashToken, isWhole } from "../secret/linkTokens.ts"
import type { InstalmentPlanRow } from "./plan.ts"

const NO_PLAN = problem(
  "resource_missing",
  "There is no instalment plan at this address: check that the link is whole, or ask the merchant for it.",
)

/** The plan that a buyer's token leads to, whosever it is. */
export const findByToken = Effect.fnUntraced(function* (token: string) {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<InstalmentPlanRow>`
    SELECT * FROM instalment_plan p WHERE token_hash = ${hashToken(token)} AND ${livesHere(sql, "p")}`
  return row !== undefined && isWhole(token, row.account_id) ? row : yield* NO_PLAN
})

/** Whose plan a token of this environment leads to. */
export const whoseToken = ({ token = "" }: Readonly<Record<string, string>>, livemode: boolean) =>
  Effect.flatMap(findByToken(token), (row) =>
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
