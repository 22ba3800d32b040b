import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { bind } from "../http/Endpoint.ts"
import { mapPage, page } from "../http/lists.ts"
import { chargeApi } from "./api.ts"
import { renderCharge } from "./Charge.ts"
import { getCharge } from "./Charges.ts"
import type { ChargeRow } from "./rows.ts"

export const chargeEndpoints = [
  bind(chargeApi.list, {
    kind: "list",
    run: (request) =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const { customer, subscription, status } = request.query
        const rows = yield* page<ChargeRow>("charge", request, request.query, [
          ...(customer === undefined ? [] : [sql`customer_id = ${customer}`]),
          ...(subscription === undefined ? [] : [sql`subscription_id = ${subscription}`]),
          ...(status === undefined ? [] : [sql`status = ${status}`]),
        ])
        return mapPage(rows, renderCharge)
      }),
  }),
  bind(chargeApi.get, { kind: "read", run: (request) => Effect.map(getCharge(request, request.id), renderCharge) }),
]
