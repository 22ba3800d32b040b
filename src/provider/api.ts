/** Providers on the wire. */
import { Schema } from "effect"
import { declare } from "../http/Endpoint.ts"
import { pageFields } from "../http/lists.ts"
import { oneOf } from "../http/parameters.ts"
import { VERTICALS } from "./Providers.ts"

const vertical = oneOf(VERTICALS)

export const providerApi = {
  choose: declare({
    method: "PATCH",
    path: "/providers/me/vertical",
    summary: "Choose the business type",
    access: "secret",
    body: Schema.Struct({ vertical }),
    example: { vertical: "gym_fitness" },
    status: 200,
    answers: "provider",
    codes: ["vertical_locked"],
  }),
  change: declare({
    method: "PATCH",
    path: "/providers/:id/vertical",
    summary: "Change a provider's business type, for a reason",
    access: "administrator",
    body: Schema.Struct({
      vertical,
      reason: Schema.String.check(Schema.isBetweenCodePoints(5, 500)).annotate({
        description: "a string of 5 to 500 characters",
      }),
    }),
    example: { vertical: "fuel", reason: "They sell diesel now" },
    status: 200,
    answers: "provider",
    codes: ["resource_missing"],
  }),
  history: declare({
    method: "GET",
    path: "/providers/:id/history",
    summary: "List the changes that administrators made to a provider's business type",
    access: "administrator",
    query: Schema.Struct(pageFields),
    status: 200,
    answers: "provider_change",
    list: true,
    codes: ["resource_missing"],
  }),
}
