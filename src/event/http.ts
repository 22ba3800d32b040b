import { PgTypes } from "@effect/sql-pg"
import { Effect } from "effect"
import { bind } from "../http/Endpoint.ts"
import { equals, type Filter, listOf } from "../http/lists.ts"
import { parseInstant } from "../time.ts"
import { eventApi } from "./api.ts"
import { events, renderEvent } from "./events.ts"

const created = (side: ">" | "<", instant: string | undefined): Filter =>
  instant === undefined
    ? undefined
    : (sql) => sql`created_at ${sql.literal(side)} ${PgTypes.timestamptz(parseInstant(instant)!)}`

export const eventEndpoints = [
  bind(eventApi.list, {
    kind: "read",
    run: (request) => {
      const { type, created_after, created_before } = request.query
      return listOf(events, request, renderEvent, [
        equals("type", type),
        created(">", created_after),
        created("<", created_before),
      ])
    },
  }),
  bind(eventApi.get, { kind: "read", run: (request) => Effect.map(events.get(request, request.id), renderEvent) }),
]
