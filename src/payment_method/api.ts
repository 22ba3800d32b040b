/** Payment methods on the wire. */
import { declare } from "../http/Endpoint.ts"

export const paymentMethodApi = {
  testIds: declare({
    method: "GET",
    path: "/payment-method-test-ids",
    summary: "List the payment methods that the sandbox offers, by ID",
    access: "customers",
    sandboxOnly: true,
    status: 200,
    answers: "test_payment_method",
    list: true,
  }),
}
