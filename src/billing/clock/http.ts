import { Effect } from "effect"
import { bind, each } from "../../http/Endpoint.ts"
import { type Filter, listOf } from "../../http/lists.ts"
import { deleted } from "../../http/response.ts"
import { clockApi } from "./api.ts"
import { clocks, renderClock, visibleClocks } from "./clock.ts"
import { advanceClock, createClock } from "./clocks.ts"
import { deleteClock, whenDeleted } from "./deletion.ts"

/** The clocks that are not being deleted. */
const notDeleting: Filter = (sql) => sql`state <> 'deleting'`

export const clockEndpoints = [
  bind(clockApi.create, {
    kind: "write",
    run: each((request) => Effect.map(createClock(request, request.body), renderClock)),
  }),
  bind(clockApi.list, { kind: "read", run: (request) => listOf(clocks, request, renderClock, [notDeleting]) }),
  bind(clockApi.get, {
    kind: "read",
    run: (request) => Effect.map(visibleClocks.get(request, request.id), renderClock),
  }),
  bind(clockApi.advance, {
    kind: "write",
    run: each((request) => Effect.map(advanceClock(request, request.id, request.body), renderClock)),
  }),
  bind(clockApi.delete, {
    kind: "two-phase",
    begin: each((request) =>
      Effect.map(deleteClock(request, request.id), (clock) => ({
        id: clock.id,
        made: () => deleted("test_clock", clock),
        after: Effect.as(whenDeleted(clock), undefined),
      })),
    ),
    finish: ({ account_id, livemode }, id) => whenDeleted({ account_id, livemode, id }),
    reply: ({ livemode }, id) => Effect.succeed(deleted("test_clock", { livemode, id })),
  }),
]
