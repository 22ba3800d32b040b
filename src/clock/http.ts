import { Effect } from "effect"
import { bind } from "../http/Endpoint.ts"
import { mapPage, page } from "../http/lists.ts"
import { clockApi } from "./api.ts"
import { advanceClock, type ClockRow, createClock, deleteClock, getClock, renderClock } from "./Clocks.ts"

export const clockEndpoints = [
  bind(clockApi.create, {
    kind: "write",
    run: (request) => Effect.map(createClock(request, request.body), renderClock),
  }),
  bind(clockApi.list, {
    kind: "list",
    run: (request) =>
      Effect.map(page<ClockRow>("test_clock", request, request.query, []), (rows) => mapPage(rows, renderClock)),
  }),
  bind(clockApi.get, { kind: "read", run: (request) => Effect.map(getClock(request, request.id), renderClock) }),
  bind(clockApi.advance, {
    kind: "write",
    run: (request) => Effect.map(advanceClock(request, request.id, request.body), renderClock),
  }),
  bind(clockApi.delete, { kind: "write", run: (request) => deleteClock(request, request.id) }),
]
