import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { bind } from "../http/Endpoint.ts"
import { mapPage, page } from "../http/lists.ts"
import { noSuch } from "../problem.ts"
import { parseInstant } from "../time.ts"
import { eventApi } from "./api.ts"
import { type EventRow, renderEvent } from "./Events.ts"

const dateOf = (instant: string): Date => new Date(parseInstant(instant)!)

export const eventEndpoints = [
  bind(eventApi.list, {
    kind: "list",
    run: (request) =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const { type, created_after, created_before } = request.query
        const rows = yield* page<EventRow>("event", request, request.query, [
          ...(type === undefined ? [] : [sql`type = ${type}`]),
          ...(created_after === undefined ? [] : [sql`created_at > ${dateOf(created_after)}`]),
          ...(created_before === undefined ? [] : [sql`created_at < ${dateOf(created_before)}`]),
        ])
        return mapPage(rows, renderEvent)
      }),
  }),
  bind(eventApi.get, {
    kind: "read",
    run: (request) =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const [row] = yield* sql<EventRow>`
          SELECT * FROM event WHERE account_id = ${request.account_id} AND livemode = ${request.livemode} AND id = ${request.id}`
        return renderEvent(row ?? (yield* noSuch("event", request.id)))
      }),
  }),
]
