import { Effect } from "effect"
import { bind, each } from "../../http/Endpoint.ts"
import { mapPage, page } from "../../http/lists.ts"
import { providerApi } from "./api.ts"
import {
  changeVertical,
  chooseVertical,
  historyOf,
  providerChanges,
  renderProviderChange,
  requireProvider,
} from "./providers.ts"

export const providerEndpoints = [
  bind(providerApi.choose, { kind: "write", run: each((request) => chooseVertical(request, request.body.vertical)) }),
  bind(providerApi.change, {
    kind: "write",
    run: each((request) => changeVertical(request, { ...request.body, administrator: request.caller.name })),
  }),
  bind(providerApi.history, {
    kind: "read",
    run: Effect.fnUntraced(function* (request) {
      yield* requireProvider(request)
      const rows = yield* page(providerChanges, historyOf(request), request.query)
      return mapPage(rows, (row) => renderProviderChange(row, request.livemode))
    }),
  }),
]
