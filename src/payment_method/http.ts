import { Effect } from "effect"
import { bind } from "../http/Endpoint.ts"
import { TEST_METHODS } from "../rail/simulator/methods.ts"
import { paymentMethodApi } from "./api.ts"

const listed = [...TEST_METHODS].map(([id, { looks, does }]) => ({
  id,
  object: "test_payment_method" as const,
  livemode: false,
  ...looks,
  behaviour: does,
}))

export const paymentMethodEndpoints = [
  bind(paymentMethodApi.testIds, {
    kind: "list",
    run: () => Effect.succeed({ data: listed, hasMore: false, limit: listed.length }),
  }),
]
