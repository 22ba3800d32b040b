import { Effect } from "effect"
import { bind } from "../http/Endpoint.ts"
import { listOf } from "../http/lists.ts"
import { clockApi } from "./api.ts"
import { clocks, renderClock } from "./clock.ts"
import { advanceClock, createClock, deleteClock } from "./clocks.ts"

export const clockEndpoints = [
  bind(clockApi.create, {
    kind: "write",
    run: (request) => Effect.map(createClock(request, request.body), renderClock),
  }),
  bind(clockApi.list, { kind: "read", run: (request) => listOf(clocks, request, renderClock) }),
  bind(clockApi.get, { kind: "read", run: (request) => Effect.map(clocks.get(request, request.id), renderClock) }),
  bind(clockApi.advance, {
    kind: "write",
    run: (request) => Effect.map(advanceClock(request, request.id, request.body), renderClock),
  }),
  bind(clockApi.delete, { kind: "write", run: (request) => deleteClock(request, request.id) }),
]
