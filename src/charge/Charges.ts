/** Reading charges (spec 4.6). */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import type { Tenant } from "../db/tenant.ts"
import { noSuch } from "../problem.ts"
import type { ChargeRow } from "./rows.ts"

export const findCharges = (tenant: Tenant, ids: ReadonlyArray<string>) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    return yield* sql<ChargeRow>`
      SELECT * FROM charge WHERE account_id = ${tenant.account_id} AND livemode = ${tenant.livemode} AND id = ANY(${ids}::text[])`
  })

export const getCharge = (tenant: Tenant, id: string) =>
  Effect.gen(function* () {
    const [row] = yield* findCharges(tenant, [id])
    return row ?? (yield* noSuch("charge", id))
  })
