import { Effect } from "effect"
import { bind } from "../../http/Endpoint.ts"
import { findAccount, renderAccount } from "./accounts.ts"
import { accountApi } from "./api.ts"

export const accountEndpoints = [
  bind(accountApi.get, {
    kind: "read",
    run: (request) => Effect.map(findAccount(request.account_id), (row) => renderAccount(row!, request.livemode)),
  }),
  bind(accountApi.clientConfig, {
    kind: "read",
    run: (request) =>
      Effect.map(findAccount(request.account_id), (row) => ({
        object: "client_config" as const,
        business_name: row!.business_name,
        livemode: request.livemode,
      })),
  }),
]
