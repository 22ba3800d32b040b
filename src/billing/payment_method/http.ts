import { bind } from "../../http/Endpoint.ts"
import { pageOf } from "../../http/lists.ts"
import { TEST_METHODS } from "../../rails/rail/simulator/methods.ts"
import { DEFAULT_PAGE_SIZE, paymentMethodApi, type TestPaymentMethod } from "./api.ts"

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
    run: (request) => pageOf(listed, request.query, DEFAULT_PAGE_SIZE),
  }),
]
