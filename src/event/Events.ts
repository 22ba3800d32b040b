/** Events (spec 2.10, 6): written in the transaction of the change, read by GET /events and the webhooks. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { names, REF_COLUMNS, records } from "../db/records.ts"
import type { Tenant } from "../db/tenant.ts"
import { newId } from "../ids.ts"
import { formatInstant } from "../time.ts"

const API_VERSION = "v1"

export interface NewEvent extends Tenant {
  readonly type: string
  readonly object: Readonly<Record<string, unknown>>
  /** The former values of what changed; `{}` for `.created` (decision I6). */
  readonly previous: Readonly<Record<string, unknown>>
  readonly test_clock_id: string | null
  /** In the object's own clock. */
  readonly at: number
}

const INSERTED = {
  ...REF_COLUMNS,
  type: "text",
  object_id: "text",
  test_clock_id: "text",
  data: "text",
  created_at: "timestamptz",
} as const

/**
 * Appends events in the given order, and answers their rows. With each goes a delivery to every endpoint that wants it; its
 * ID follows from both, so that there is one.
 */
export const appendEvents = (
  events: ReadonlyArray<NewEvent>,
  { deliver = true }: { readonly deliver?: boolean } = {},
) =>
  Effect.gen(function* () {
    if (events.length === 0) return []
    const sql = yield* SqlClient.SqlClient
    const rows = events.map((event) => ({
      account_id: event.account_id,
      livemode: event.livemode,
      id: newId("event"),
      type: event.type,
      // What has no ID of its own is in order by its type.
      object_id: typeof event.object.id === "string" ? event.object.id : event.type,
      test_clock_id: event.test_clock_id,
      data: JSON.stringify({ object: event.object, previous_attributes: event.previous }),
      created_at: event.at,
    }))
    yield* sql`
      WITH made AS (
        INSERT INTO event (${names(sql, INSERTED)}) SELECT * FROM ${records(sql, rows, INSERTED)} r
        RETURNING account_id, livemode, id, type, object_id
      )
      INSERT INTO webhook_delivery (account_id, livemode, id, event_id, webhook_endpoint_id, object_id)
      SELECT m.account_id, m.livemode, 'dlv' || substr(m.id, 4) || substr(w.id, 3), m.id, w.id, m.object_id
      FROM made m CROSS JOIN LATERAL (
        SELECT e.id FROM webhook_endpoint e
        WHERE e.account_id = m.account_id AND e.livemode = m.livemode AND e.state = 'enabled' AND e.enabled_events && event_patterns(m.type)
        -- An account has few endpoints, and all accounts together many: always looked up by account.
        OFFSET 0
      ) w
      WHERE ${deliver} ORDER BY m.id, w.id`
    return rows satisfies ReadonlyArray<EventRow>
  })

type Json = Readonly<Record<string, unknown>>

/** What changed between two renderings of an object: the former values of the fields that differ now. */
export const previousAttributes = (before: Json, after: Json): Json =>
  Object.fromEntries(
    Object.entries(before).filter(
      ([name, value]) => value !== after[name] && JSON.stringify(value) !== JSON.stringify(after[name]),
    ),
  )

export interface EventRow extends Tenant {
  readonly id: string
  readonly type: string
  readonly data: string
  readonly created_at: number
}

/** An event as the API shows it (spec 2.10). */
export const renderEvent = (row: EventRow) => ({
  id: row.id,
  object: "event" as const,
  type: row.type,
  api_version: API_VERSION,
  livemode: row.livemode,
  created_at: formatInstant(row.created_at),
  data: JSON.parse(row.data) as Json,
})

/** The event as webhooks deliver it: the same bytes at every try. */
export const eventBody = (row: EventRow): string => {
  const { data: _, ...head } = renderEvent({ ...row, data: "{}" })
  return `${JSON.stringify(head).slice(0, -1)},"data":${row.data}}`
}
