import { bind } from "../../http/Endpoint.ts"
import { pageOf } from "../../http/lists.ts"
import { TEST_METHODS } from "../../rails/rail/simulator/methods.ts"
import { paymentMethodApi, type TestPaymentMethod, WHOLE } from "./api.ts"

const listed = [...TEST_METHODS].map(([id, { looks, does }]): typeof TestPaymentMethod.Type => ({
  id,
  object: "test_payment_method",
  livemode: false,
  ...looks,
  behaviour: does,
}))

export const paymentMethodEndpoints = [
  bind(paymentMethodApi.testIds, {
    kind: "read",
    run: (request) => pageOf(listed, request.query, WHOLE),
  }),
]
