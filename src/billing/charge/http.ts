import { Effect } from "effect"
import { bind } from "../../http/Endpoint.ts"
import { equals, hasIdOf, listOf } from "../../http/lists.ts"
import { chargeApi } from "./api.ts"
import { charges, getCharge, renderCharge } from "./charge.ts"

export const chargeEndpoints = [
  bind(chargeApi.list, {
    kind: "read",
    run: (request) => {
      const { customer, subscription, status } = request.query
      return listOf(charges, request, renderCharge, [
        equals("customer_id", customer),
        equals("subscription_id", subscription),
        equals("status", status),
        hasIdOf("charge"),
      ])
    },
  }),
  bind(chargeApi.get, {
    kind: "read",
    run: (request) => Effect.map(getCharge(request, request.id), renderCharge),
  }),
]
