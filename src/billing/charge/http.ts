import { Effect } from "effect"
import { bind } from "../../http/Endpoint.ts"
import { equals, hasIdOf, listOf } from "../../http/lists.ts"
import { timelineHandler } from "../../runtime/timeline.ts"
import { chargeApi } from "./api.ts"
import { charges, getCharge, renderCharge } from "./charge.ts"

/** What its timers do. */
const MEANS = { ask: "The payment provider is asked whether it took the money." }

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
  bind(chargeApi.timeline, timelineHandler(getCharge, MEANS)),
]
