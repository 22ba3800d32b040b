/** Defines the wire schemas and endpoints of payment methods. */
import { Schema } from "effect"
import { declare } from "../../http/Endpoint.ts"
import { pageFieldsOf } from "../../http/lists.ts"
import { common, exampleId } from "../../http/response.ts"
import { PAYMENT_METHOD_TYPES } from "../../rails/rail/PaymentRail.ts"

const { Boolean: Bool, Int, Literal, Literals, NullOr, String: Text, Struct } = Schema

const displayFields = {
  type: Literals(PAYMENT_METHOD_TYPES),
  brand: NullOr(Text),
  last4: NullOr(Text),
  bank_name: NullOr(Text),
  exp_month: NullOr(Int),
  exp_year: NullOr(Int),
}

/** A payment method as other objects show it. */
export const PaymentMethodSummary = Struct({ id: Text, ...displayFields })

export const EXAMPLE_CARD = {
  id: "pm_test_success",
  type: "card",
  brand: "visa",
  last4: "4242",
  bank_name: null,
  exp_month: 12,
  exp_year: 2034,
} as const

export const PaymentMethod = Struct({ ...common("payment_method"), customer: Text, ...displayFields }).annotate({
  identifier: "payment_method",
  examples: [
    {
      ...EXAMPLE_CARD,
      object: "payment_method",
      livemode: false,
      created_at: "2026-11-01T09:00:00.000Z",
      customer: exampleId("customer"),
    },
  ],
})

export const TestPaymentMethod = Struct({
  id: Text,
  object: Literal("test_payment_method"),
  livemode: Bool,
  ...displayFields,
  behaviour: Text.annotate({ description: "How charges with this payment method behave, in words" }),
}).annotate({
  identifier: "test_payment_method",
  examples: [{ ...EXAMPLE_CARD, object: "test_payment_method", livemode: false, behaviour: "Every charge succeeds." }],
})

/** Default page size, which fits all test methods. */
export const DEFAULT_PAGE_SIZE = 100

export const paymentMethodApi = {
  testIds: declare({
    method: "GET",
    path: "/payment-method-test-ids",
    summary: "List the payment methods that the sandbox offers, by ID",
    access: "customers",
    sandboxOnly: true,
    query: Schema.Struct(pageFieldsOf(DEFAULT_PAGE_SIZE)),
    status: 200,
    success: TestPaymentMethod,
    list: true,
  }),
}
