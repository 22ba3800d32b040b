import { Effect, Exit } from "effect"
import type { Tenant } from "../../db/tenant.ts"
import { bind, each } from "../../http/Endpoint.ts"
import { chargeApi } from "../charge/api.ts"
import { charges, getCharge, renderCharge } from "../charge/charge.ts"
import { checkMethod } from "../payment_method/paymentMethods.ts"
import { createCharges } from "./createCharge.ts"
import { type Attempt, PaymentSubjects } from "./PaymentSubjects.ts"
import { recoverCharges } from "./simulatorCharges.ts"
import { waitForPayment } from "./waitForPayment.ts"

/** How a request that attempts a charge is finished after a crash, and what is returned. */
const staged = {
  kind: "two-phase",
  finish: (_: Tenant, id: string) => recoverCharges({ chargeId: id }),
  reply: (tenant: Tenant, id: string) => Effect.map(charges.get(tenant, id), renderCharge),
} as const

const started = ({ charge, now }: Attempt) => ({
  id: charge.id,
  made: () => renderCharge(charge),
  after: Effect.map(waitForPayment([charge], now), (rows) => {
    const paid = rows.get(charges, charge.id)
    return paid === undefined ? undefined : renderCharge(paid)
  }),
})

export const collectingEndpoints = [
  bind(chargeApi.create, {
    ...staged,
    check: checkMethod("payment_method"),
    lockKey: ({ body }) => body.customer,
    begin: (tenant, requests) =>
      Effect.map(
        createCharges(
          tenant,
          requests.map(({ body }) => body),
        ),
        (made) => made.map(Exit.map(started)),
      ),
  }),
  bind(chargeApi.retry, {
    ...staged,
    check: checkMethod("payment_method"),
    begin: each(
      Effect.fnUntraced(function* (request) {
        const charge = yield* getCharge(request, request.id)
        const owner = (yield* PaymentSubjects).find(({ handles }) => handles(charge))
        if (owner === undefined) return yield* Effect.die(new Error(`Nobody owns the charge ${charge.id}.`))
        return started(yield* owner.retry(request, charge, request.body.payment_method))
      }),
    ),
  }),
]
