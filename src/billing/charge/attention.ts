/** Lists charges whose rail received another amount or currency than requested (decision P10). The merchant settles this with the buyer. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { livesHere } from "../../db/tenant.ts"
import type { Attention } from "./charge.ts"

/** Limit of listed charges. */
const MAX_LISTED = 100

/** Reads these charges of all accounts, oldest first. */
export const readAttention = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<{ account: string; charge: string; rail: string; attention: Attention }>`
    SELECT account_id AS account, id AS charge, rail, attention FROM charge
    WHERE attention IS NOT NULL AND ${livesHere(sql, "charge")} ORDER BY id LIMIT ${MAX_LISTED}`
  return rows.map(({ attention, ...row }) => ({ ...row, ...attention }))
})
