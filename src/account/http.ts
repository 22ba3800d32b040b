import { Effect } from "effect"
import { bind } from "../http/Endpoint.ts"
import { findAccount, renderAccount } from "./Accounts.ts"
import { accountApi } from "./api.ts"

export const accountEndpoints = [
  bind(accountApi.get, {
    kind: "read",
    run: (request) => Effect.map(findAccount(request.account_id), (row) => renderAccount(row!, request.livemode)),
  }),
]
