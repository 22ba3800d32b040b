/** Defines the wire schemas and endpoints of customers. */
import { Schema } from "effect"
import { declare } from "../../http/Endpoint.ts"
import { pageFields } from "../../http/lists.ts"
import { email, id, metadata, metadataPatch, phone, text } from "../../http/parameters.ts"
import { common, Deleted, exampleId, idOrObject, metadata as metadataShown } from "../../http/response.ts"
import { EXAMPLE_CARD, PaymentMethod, PaymentMethodSummary } from "../payment_method/api.ts"

const { NullOr, optionalKey, String: Text, Struct } = Schema

export const Customer = Struct({
  ...common("customer"),
  name: Text,
  email: NullOr(Text),
  phone: NullOr(Text),
  default_payment_method: NullOr(PaymentMethodSummary),
  test_clock: NullOr(idOrObject),
  metadata: metadataShown,
}).annotate({
  identifier: "customer",
  examples: [
    {
      id: exampleId("customer"),
      object: "customer",
      livemode: false,
      created_at: "2026-11-01T09:00:00.000Z",
      name: "Ada Obi",
      email: "ada@example.com",
      phone: "+2348031234567",
      default_payment_method: EXAMPLE_CARD,
      test_clock: null,
      metadata: {},
    },
  ],
})

export const CustomerCreate = Struct({
  name: text(120),
  email: optionalKey(email),
  phone: optionalKey(phone),
  metadata: optionalKey(metadata),
  test_clock: optionalKey(NullOr(id("a test clock")).annotate({ description: "the ID of a test clock, or null" })),
})
export type CustomerCreate = typeof CustomerCreate.Type

export const CustomerPatch = Struct({
  name: optionalKey(text(120)),
  email: optionalKey(email),
  phone: optionalKey(phone),
  default_payment_method: optionalKey(
    NullOr(id("a payment method")).annotate({
      description: "the ID of a payment method of the customer, a pm_test_ ID in the sandbox, or null",
    }),
  ),
  metadata: optionalKey(metadataPatch),
})
export type CustomerPatch = typeof CustomerPatch.Type

const filter = (description: string) =>
  Schema.String.check(Schema.isBetweenCodePoints(1, 254)).annotate({ description })

const CustomerList = Struct({
  ...pageFields,
  email: optionalKey(filter("an e-mail address")),
  phone: optionalKey(filter("a phone number")),
  test_clock: optionalKey(id("a test clock")),
  metadata: optionalKey(Schema.Record(Schema.String, Schema.String)),
})

export const customerApi = {
  create: declare({
    method: "POST",
    path: "/customers",
    dryRun: true,
    summary: "Create a customer",
    access: "customers",
    body: CustomerCreate,
    example: { name: "Ada Obi", email: "ada@example.com", phone: "+2348031234567" },
    status: 201,
    success: Customer,
    expand: ["test_clock"],
    codes: ["resource_missing", "test_clock_full", "test_clock_not_ready"],
  }),
  list: declare({
    method: "GET",
    path: "/customers",
    summary: "List customers",
    access: "customers",
    query: CustomerList,
    metadataFilter: true,
    status: 200,
    success: Customer,
    list: true,
    expand: ["test_clock"],
  }),
  get: declare({
    method: "GET",
    path: "/customers/:id",
    summary: "Get a customer",
    access: "customers",
    status: 200,
    success: Customer,
    expand: ["test_clock"],
    codes: ["resource_missing"],
  }),
  update: declare({
    method: "PATCH",
    path: "/customers/:id",
    dryRun: true,
    summary: "Update a customer",
    access: "customers",
    body: CustomerPatch,
    example: { default_payment_method: "pm_test_success" },
    status: 200,
    success: Customer,
    expand: ["test_clock"],
    codes: ["resource_missing", "test_clock_advancing"],
  }),
  listMethods: declare({
    method: "GET",
    path: "/customers/:id/payment-methods",
    summary: "List a customer's payment methods",
    access: "customers",
    query: Struct(pageFields),
    status: 200,
    success: PaymentMethod,
    list: true,
    codes: ["resource_missing"],
  }),
  deleteMethod: declare({
    method: "DELETE",
    path: "/customers/:id/payment-methods/:payment_method",
    dryRun: true,
    summary: "Remove a payment method from a customer",
    notes:
      "Subscriptions that had it as their own payment method return to the customer's default, which is charged immediately for what they owe.",
    access: "customers",
    status: 200,
    success: Deleted,
    codes: ["resource_missing", "test_clock_advancing"],
  }),
}
