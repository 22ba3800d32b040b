import { Effect } from "effect"
import { parseInstant } from "../../base/time.ts"
import { bind } from "../../http/Endpoint.ts"
import { between, equals, listOf } from "../../http/lists.ts"
import { eventApi } from "./api.ts"
import { events, renderEvent } from "./events.ts"

const millis = (instant: string | undefined) => (instant === undefined ? undefined : parseInstant(instant)!)

export const eventEndpoints = [
  bind(eventApi.list, {
    kind: "read",
    run: (request) => {
      const { type, test_clock, created_after, created_before } = request.query
      const finder = between("created_at", millis(created_after), millis(created_before))
      return listOf(events, request, renderEvent, [equals("type", type), equals("test_clock_id", test_clock)], {
        finder,
      })
    },
  }),
  bind(eventApi.get, { kind: "read", run: (request) => Effect.map(events.get(request, request.id), renderEvent) }),
]
