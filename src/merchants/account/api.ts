/** The wire schemas and endpoints of accounts. */
import { Schema } from "effect"
import { LIVE_ACCESS } from "../../../machines/live_access.ts"
import { API_PLANS } from "../../base/apiPlans.ts"
import { declare } from "../../http/Endpoint.ts"
import { common, exampleId } from "../../http/response.ts"

const { Boolean: Bool, Literal, Literals, String: Text, Struct } = Schema

export const Account = Struct({
  ...common("account"),
  business_name: Text,
  api_plan: Literals(API_PLANS),
  live_access: Literals(LIVE_ACCESS),
}).annotate({
  identifier: "account",
  examples: [
    {
      id: exampleId("account"),
      object: "account",
      livemode: false,
      created_at: "2026-11-01T09:00:00.000Z",
      business_name: "Fit Lagos",
      api_plan: "starter",
      live_access: "approved",
    },
  ],
})

const ClientConfig = Struct({
  object: Literal("client_config"),
  business_name: Text,
  livemode: Bool,
}).annotate({
  identifier: "client_config",
  examples: [{ object: "client_config", business_name: "Fit Lagos", livemode: false }],
})

export const accountApi = {
  get: declare({
    method: "GET",
    path: "/account",
    summary: "Get the account",
    access: "any",
    status: 200,
    success: Account,
  }),
  clientConfig: declare({
    method: "GET",
    path: "/client/config",
    summary: "Get the settings that a merchant's page needs, with a publishable key",
    access: "publishable",
    status: 200,
    success: ClientConfig,
    codes: ["origin_not_allowed"],
  }),
}
