import { Effect } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import type { Tenant } from "../db/tenant.ts"
import { type App, type Begun, bind } from "../http/Endpoint.ts"
import { mapPage, page } from "../http/lists.ts"
import type { Problem } from "../problem.ts"
import { chargeApi } from "./api.ts"
import { renderCharge } from "./Charge.ts"
import { createCharge, getCharge, retryOneOff } from "./Charges.ts"
import type { ChargeRow } from "./rows.ts"

type Work = Effect.Effect<void, SqlError.SqlError, App>

/** Those who take charges to the rail, and know what they are for. */
export interface Collecting {
  readonly collect: (charges: ReadonlyArray<ChargeRow>, now: number) => Work
  /** Finishes a charge that a crash cut short. */
  readonly recover: (chargeId: string) => Work
  /** Retries the bill of a subscription's charge. */
  readonly retryBill: (
    tenant: Tenant,
    charge: ChargeRow,
    named: string | undefined,
  ) => Effect.Effect<Begun, Problem | SqlError.SqlError, App>
}

const staged = (collecting: Collecting) =>
  ({
    kind: "staged",
    resume: (_: Tenant, id: string) => collecting.recover(id),
    reply: (tenant: Tenant, id: string) => Effect.map(getCharge(tenant, id), renderCharge),
  }) as const

const begun = (collecting: Collecting, { charge, now }: { readonly charge: ChargeRow; readonly now: number }) => ({
  id: charge.id,
  after: collecting.collect([charge], now),
})

export const chargeEndpoints = (collecting: Collecting) => [
  bind(chargeApi.create, {
    ...staged(collecting),
    begin: (request) => Effect.map(createCharge(request, request.body), (made) => begun(collecting, made)),
  }),
  bind(chargeApi.retry, {
    ...staged(collecting),
    begin: (request) =>
      Effect.gen(function* () {
        const { payment_method: named } = request.body
        const charge = yield* getCharge(request, request.id)
        if (charge.subscription_id !== null) return yield* collecting.retryBill(request, charge, named)
        return begun(collecting, yield* retryOneOff(request, charge, named))
      }),
  }),
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
