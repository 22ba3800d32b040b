import { Effect } from "effect"
import { renderEvent } from "../event/events.ts"
import { bind } from "../http/Endpoint.ts"
import { sandboxApi } from "./api.ts"
import { requestReset } from "./reset.ts"
import { triggerEvent } from "./trigger.ts"

export const sandboxEndpoints = [
  bind(sandboxApi.trigger, {
    kind: "write",
    run: (request) => Effect.map(triggerEvent(request, request.body), renderEvent),
  }),
  bind(sandboxApi.reset, { kind: "write", run: (request) => requestReset(request, request.recordKey) }),
]
