import { Effect } from "effect"
import { bind } from "../http/Endpoint.ts"
import { mapPage, page } from "../http/lists.ts"
import { providerApi } from "./api.ts"
import {
  changeVertical,
  chooseVertical,
  historyOf,
  type ProviderChangeRow,
  renderProviderChange,
  requireProvider,
} from "./Providers.ts"

export const providerEndpoints = [
  bind(providerApi.choose, { kind: "write", run: (request) => chooseVertical(request, request.body.vertical) }),
  bind(providerApi.change, {
    kind: "write",
    run: (request) => changeVertical(request, { ...request.body, administrator: request.caller.name }),
  }),
  bind(providerApi.history, {
    kind: "list",
    run: (request) =>
      Effect.map(
        Effect.andThen(
          requireProvider(request),
          page<ProviderChangeRow>("provider_history", historyOf(request), request.query, []),
        ),
        (rows) => mapPage(rows, (row) => renderProviderChange(row, request.livemode)),
      ),
  }),
]
