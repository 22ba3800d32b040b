/** Events: written in the transaction of the change, read by GET /events and the webhooks. */
import { Effect } from "effect"
import type { SqlClient } from "effect/sql"
import * as Kind from "../db/Kind.ts"
import { names, REF_COLUMNS, records } from "../db/records.ts"
import { carriedOut } from "../db/sending.ts"
import { columnsOf, type RowOf, table } from "../db/table.ts"
import type { Tenant } from "../db/tenant.ts"
import { inOneStatement, type Write } from "../db/writes.ts"
import { newId } from "../ids.ts"
import type { Json } from "../json.ts"
import { formatInstant } from "../time.ts"
import type { Event } from "./api.ts"
import { eventData } from "./data.ts"
import type { EventType } from "./types.ts"

const API_VERSION = "v1"

export interface NewEvent<Type extends string = EventType> extends Tenant {
  readonly type: Type
  readonly object: Readonly<Record<string, unknown>>
  /** The former values of what changed; `{}` for `.created` (decision I6). Of large ones not all are told (data.ts). */
  readonly previous: Readonly<Record<string, unknown>>
  readonly test_clock_id: string | null
  /** In the object's own clock. */
  readonly at: number
}

const { fixed } = columnsOf()

export const events = table(
  "event",
  { noun: "event", ids: "event" },
  {
    type: fixed(Kind.text),
    /** The object that it is about; of one without an ID, its type. */
    object_id: fixed(Kind.text),
    test_clock_id: fixed(Kind.nullable(Kind.text)),
    /** `object` and `previous_attributes` as JSON, byte for byte as webhooks deliver them. */
    data: fixed(Kind.text),
    created_at: fixed(Kind.instant),
  },
)

export type EventRow = RowOf<typeof events>

const INSERTED = {
  ...REF_COLUMNS,
  type: "text",
  object_id: "text",
  test_clock_id: "text",
  data: "text",
  created_at: "timestamptz",
} as const

/** No ID of ours is longer. */
const MAX_OBJECT_ID = 64

/** What the events of one object have in common: its ID. What has none, or what a test calls one, is in order by its type. */
const orderOf = ({ object: { id }, type }: NewEvent<string>): string =>
  typeof id === "string" && id.length <= MAX_OBJECT_ID ? id : type

const rowOf = (event: NewEvent<string>): EventRow => ({
  account_id: event.account_id,
  livemode: event.livemode,
  id: newId("event", event),
  type: event.type,
  object_id: orderOf(event),
  test_clock_id: event.test_clock_id,
  data: eventData(event.object, event.previous),
  created_at: event.at,
})

const inserting = (sql: SqlClient.SqlClient, rows: ReadonlyArray<EventRow>, deliver: boolean): ReadonlyArray<Write> =>
  rows.length === 0
    ? []
    : [
        [
          "events",
          sql`
            INSERT INTO event (${names(INSERTED)}) SELECT * FROM ${records(rows, INSERTED)} r
            RETURNING account_id, livemode, id, type, object_id`,
        ],
        [
          "deliveries",
          sql`
            INSERT INTO webhook_delivery (account_id, livemode, id, event_id, webhook_endpoint_id, object_id)
            SELECT m.account_id, m.livemode, 'dlv' || substr(m.id, 4) || substr(w.id, 3), m.id, w.id, m.object_id
            FROM events m CROSS JOIN LATERAL (
              SELECT e.id FROM webhook_endpoint e
              WHERE e.account_id = m.account_id AND e.livemode = m.livemode AND e.state = 'enabled' AND e.enabled_events && event_patterns(m.type)
              -- An account has few endpoints, and all accounts together many: always looked up by account.
              OFFSET 0
            ) w
            WHERE ${deliver} ORDER BY m.id, w.id`,
        ],
      ]

/**
 * Appends events in the given order. With each goes a delivery to every endpoint that wants it; its ID follows from both, so that
 * there is one.
 */
export const appendingEvents = (sql: SqlClient.SqlClient, appended: ReadonlyArray<NewEvent>): ReadonlyArray<Write> =>
  inserting(sql, appended.map(rowOf), true)

const append = (appended: ReadonlyArray<NewEvent<string>>, deliver: boolean) => {
  const rows = appended.map(rowOf)
  return Effect.as(
    carriedOut((sql) => inOneStatement(sql, inserting(sql, rows, deliver))),
    rows,
  )
}

/** Appends events like {@link appendingEvents}; returns their rows. */
export const appendEvents = (appended: ReadonlyArray<NewEvent>) => append(appended, true)

/** Appends an event that no endpoint is sent, other than by whoever asked for it; returns its row. */
export const appendUndelivered = (event: NewEvent) => Effect.map(append([event], false), ([row]) => row!)

/** Appends an event of any type for a merchant's own tests (decision I9), delivered like any other; returns its row. */
export const appendTestEvent = (event: NewEvent<string>) => Effect.map(append([event], true), ([row]) => row!)

/** What changed between two renderings of an object: the former values of the fields that differ now, however large. */
export const previousAttributes = (before: Json, after: Json): Json => {
  const previous: Record<string, unknown> = {}
  for (const name of Object.keys(before)) {
    const [was, is] = [before[name], after[name]]
    if (was !== is && JSON.stringify(was) !== JSON.stringify(is)) previous[name] = was
  }
  return previous
}

/** What an event shows of its row. */
type Shown = Pick<EventRow, "id" | "type" | "livemode" | "created_at" | "data">

export const renderEvent = (row: Shown): typeof Event.Type => ({
  id: row.id,
  object: "event",
  type: row.type,
  api_version: API_VERSION,
  livemode: row.livemode,
  created_at: formatInstant(row.created_at),
  // Written by appendEvents in this shape.
  data: JSON.parse(row.data) as (typeof Event.Type)["data"],
})

/** The event as webhooks deliver it: the same bytes at every try. */
export const eventBody = (row: Shown): string => {
  const { data: _, ...head } = renderEvent({ ...row, data: "{}" })
  return `${JSON.stringify(head).slice(0, -1)},"data":${row.data}}`
}
