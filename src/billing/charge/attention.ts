/** Charges whose rail received something else than was asked for (decision P10): the merchant has to settle that with the buyer. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { livesHere } from "../../db/tenant.ts"
import type { Attention } from "./charge.ts"

/** How many are listed. */
const MAX_LISTED = 100

/** Such charges of all accounts, oldest first. */
export const readAttention = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<{ account: string; charge: string; rail: string; attention: Attention }>`
    SELECT account_id AS account, id AS charge, rail, attention FROM charge
    WHERE attention IS NOT NULL AND ${livesHere(sql, "charge")} ORDER BY id LIMIT ${MAX_LISTED}`
  return rows.map(({ attention, ...row }) => ({ ...row, ...attention }))
})
