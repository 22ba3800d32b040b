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

/** Finishes a request that attempts a charge after a crash, and reads its response. */
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

export const paymentEndpoints = [
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
        (results) => results.map(Exit.map(started)),
      ),
  }),
  bind(chargeApi.retry, {
    ...staged,
    check: checkMethod("payment_method"),
    begin: each(
      Effect.fnUntraced(function* (request) {
        const charge = yield* getCharge(request, request.id)
        const subject = (yield* PaymentSubjects).find(({ handles }) => handles(charge))
        if (subject === undefined)
          return yield* Effect.die(new Error(`No payment subject handles the charge ${charge.id}.`))
        return started(yield* subject.retry(request, charge, request.body.payment_method))
      }),
    ),
  }),
]
