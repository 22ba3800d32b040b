/** Charges on the wire. */
import { Schema } from "effect"
import { declare } from "../http/Endpoint.ts"
import { pageFields } from "../http/lists.ts"
import { id, oneOf } from "../http/parameters.ts"

const ChargeList = Schema.Struct({
  ...pageFields,
  customer: Schema.optionalKey(id("a customer")),
  subscription: Schema.optionalKey(id("a subscription")),
  status: Schema.optionalKey(oneOf(["pending", "succeeded", "failed"])),
})

const common = { access: "charges", answers: "charge", expand: ["customer", "subscription"], status: 200 } as const

export const chargeApi = {
  list: declare({ method: "GET", path: "/charges", summary: "List charges", ...common, query: ChargeList, list: true }),
  get: declare({
    method: "GET",
    path: "/charges/:id",
    summary: "Get a charge",
    ...common,
    codes: ["resource_missing"],
  }),
}
