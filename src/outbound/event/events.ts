/** Events: written in the transaction of the change, read by GET /events and the webhooks. */

import { newId } from "../../base/ids.ts"
import type { Json } from "../../base/json.ts"
import { formatInstant } from "../../base/time.ts"
import * as column from "../../db/columns.ts"
import { names, REF_COLUMNS, rowsAsTable } from "../../db/rows.ts"
import { columnsOf, type RowOf, table } from "../../db/table.ts"
import type { Tenant } from "../../db/tenant.ts"
import type { UnitOfWork } from "../../db/UnitOfWork.ts"
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

const { immutable } = columnsOf()

export const events = table(
  "event",
  { noun: "event", ids: "event" },
  {
    type: immutable(column.text),
    /** The object that it is about; of one without an ID, its type. */
    object_id: immutable(column.text),
    test_clock_id: immutable(column.nullable(column.text)),
    /** `object` and `previous_attributes` as JSON, byte for byte as webhooks deliver them. */
    data: immutable(column.text),
    created_at: immutable(column.instant),
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

const append = (unit: UnitOfWork, appended: ReadonlyArray<NewEvent<string>>, deliver: boolean) => {
  const rows = appended.map(rowOf)
  if (rows.length === 0) return rows
  const { sql } = unit
  const events = sql`
    INSERT INTO event (${names(INSERTED)}) SELECT * FROM ${rowsAsTable(rows, INSERTED)} r
    RETURNING account_id, livemode, id, type, object_id`
  // The ID of a delivery follows from the event's and the endpoint's, so there is one. An account has few endpoints and all accounts
  // together many: OFFSET makes Postgres look them up by account.
  const deliveries = sql`
    INSERT INTO webhook_delivery (account_id, livemode, id, event_id, webhook_endpoint_id, object_id)
    SELECT m.account_id, m.livemode, 'dlv' || substr(m.id, 4) || substr(w.id, 3), m.id, w.id, m.object_id
    FROM events m CROSS JOIN LATERAL (
      SELECT e.id FROM webhook_endpoint e
      WHERE e.account_id = m.account_id AND e.livemode = m.livemode AND e.state = 'enabled' AND e.enabled_events && event_patterns(m.type)
      OFFSET 0
    ) w
    ORDER BY m.id, w.id`
  unit.add([["events", events], ...(deliver ? [["deliveries", deliveries] as const] : [])])
  return rows
}

/** Appends events in the given order, each with a delivery to every endpoint that wants it; returns their rows. */
export const appendEvents = (unit: UnitOfWork, appended: ReadonlyArray<NewEvent>): ReadonlyArray<EventRow> =>
  append(unit, appended, true)

/** Appends an event that is sent only to the endpoints that its caller names; returns its row. */
export const appendUndelivered = (unit: UnitOfWork, event: NewEvent): EventRow => append(unit, [event], false)[0]!

/** Appends an event of any type for a merchant's own tests (decision I9), delivered like any other; returns its row. */
export const appendTestEvent = (unit: UnitOfWork, event: NewEvent<string>): EventRow => append(unit, [event], true)[0]!

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
