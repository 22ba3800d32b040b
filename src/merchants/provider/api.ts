/** The wire schemas and endpoints of providers. */
import { Schema } from "effect"
import { LIVE_ACCESS } from "../../../machines/live_access.ts"
import { declare } from "../../http/Endpoint.ts"
import { pageFields } from "../../http/lists.ts"
import { oneOf, text } from "../../http/parameters.ts"
import { common, exampleId } from "../../http/response.ts"
import { VERTICALS } from "../account/verticals.ts"

const { Literals, NullOr, String: Text, Struct } = Schema

export const Provider = Struct({
  ...common("provider"),
  vertical: NullOr(Literals(VERTICALS)),
  live_access: Literals(LIVE_ACCESS),
}).annotate({
  identifier: "provider",
  examples: [
    {
      id: exampleId("account"),
      object: "provider",
      livemode: false,
      created_at: "2026-11-01T09:00:00.000Z",
      vertical: "gym_fitness",
      live_access: "approved",
    },
  ],
})

export const ProviderChange = Struct({
  ...common("provider_change"),
  previous_vertical: NullOr(Literals(VERTICALS)),
  new_vertical: Literals(VERTICALS),
  administrator: Text,
  reason: Text,
}).annotate({
  identifier: "provider_change",
  examples: [
    {
      id: exampleId("provider_change"),
      object: "provider_change",
      livemode: false,
      created_at: "2026-11-01T09:00:00.000Z",
      previous_vertical: "generic",
      new_vertical: "fuel",
      administrator: "Ops",
      reason: "They sell diesel now",
    },
  ],
})

const vertical = oneOf(VERTICALS)

/** The shortest reason that makes sense in a history is 5 characters. */
const REASON = "a string of 5 to 500 characters that says why, without control characters other than tab and line ends"
export const reason = text(500, 5)
  .check(Schema.makeFilter((reason: string) => Array.from(reason.trim()).length >= 5))
  .annotate({ description: REASON })

export const providerApi = {
  choose: declare({
    method: "PATCH",
    path: "/providers/me/vertical",
    summary: "Choose the business type",
    access: "secret",
    right: "account",
    body: Struct({ vertical }),
    example: { vertical: "gym_fitness" },
    status: 200,
    success: Provider,
    codes: ["vertical_locked"],
  }),
  change: declare({
    method: "PATCH",
    path: "/providers/:id/vertical",
    summary: "Change a provider's business type, for a reason",
    access: "administrator",
    body: Struct({
      vertical,
      reason,
    }),
    example: { vertical: "fuel", reason: "They sell diesel now" },
    status: 200,
    success: Provider,
    codes: ["resource_missing"],
  }),
  history: declare({
    method: "GET",
    path: "/providers/:id/history",
    summary: "List the changes that administrators made to a provider's business type",
    access: "administrator",
    query: Struct(pageFields),
    status: 200,
    success: ProviderChange,
    list: true,
    codes: ["resource_missing"],
  }),
}
