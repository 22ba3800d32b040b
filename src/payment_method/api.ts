/** Payment methods on the wire. */
import { Schema } from "effect"
import { declare } from "../http/Endpoint.ts"
import { pageFields } from "../http/lists.ts"

export const paymentMethodApi = {
  testIds: declare({
    method: "GET",
    path: "/payment-method-test-ids",
    summary: "List the payment methods that the sandbox offers, by ID",
    access: "customers",
    sandboxOnly: true,
    query: Schema.Struct(pageFields),
    status: 200,
    answers: "test_payment_method",
    list: true,
  }),
}
