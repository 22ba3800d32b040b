import { Effect } from "effect"
import { bind, each } from "../http/Endpoint.ts"
import { renderEvent } from "../outbound/event/events.ts"
import { sandboxApi } from "./api.ts"
import { requestReset } from "./reset.ts"
import { triggerEvent } from "./trigger.ts"

export const sandboxEndpoints = [
  bind(sandboxApi.trigger, {
    kind: "write",
    run: each((request) => Effect.map(triggerEvent(request, request.body), renderEvent)),
  }),
  bind(sandboxApi.reset, { kind: "write", run: each((request) => requestReset(request, request.recordKey)) }),
]
