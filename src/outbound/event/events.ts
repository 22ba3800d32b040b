/** Writes events in the transaction of the change. GET /events and the webhooks read them. */

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
  /** The previous values of the changed fields; `{}` for `.created` (decision I6). Large ones may be left out (data.ts). */
  readonly previous: Readonly<Record<string, unknown>>
  readonly test_clock_id: string | null
  /** The time on the object's own clock. */
  readonly at: number
}

const { immutable } = columnsOf()

export const events = table(
  "event",
  { noun: "event", ids: "event" },
  {
    type: immutable(column.text),
    /** The ID of the event's object; the event's type if the object has no ID. */
    object_id: immutable(column.text),
    test_clock_id: immutable(column.nullable(column.text)),
    /** `object` and `previous_attributes` as JSON, in the exact bytes that webhooks deliver. */
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

/** Returns the key by which events are delivered in order: the object's ID, or the event's type if there is no usable ID. */
const orderingKeyOf = ({ object: { id }, type }: NewEvent<string>): string =>
  typeof id === "string" && id.length <= MAX_OBJECT_ID ? id : type

const rowOf = (event: NewEvent<string>): EventRow => ({
  account_id: event.account_id,
  livemode: event.livemode,
  id: newId("event", event),
  type: event.type,
  object_id: orderingKeyOf(event),
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
  // A delivery's ID is derived from the event's and the endpoint's, so there is one per pair. An account has few endpoints, all
  // accounts together have many: OFFSET makes Postgres look them up by account.
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

/** Appends events in the given order, each with a delivery to every endpoint enabled for its type. Returns their rows. */
export const appendEvents = (unit: UnitOfWork, appended: ReadonlyArray<NewEvent>): ReadonlyArray<EventRow> =>
  append(unit, appended, true)

/** Appends an event without deliveries: the caller creates them. Returns its row. */
export const appendUndelivered = (unit: UnitOfWork, event: NewEvent): EventRow => append(unit, [event], false)[0]!

/** Appends a merchant's test event of any type (decision I9), with deliveries like any other. Returns its row. */
export const appendTestEvent = (unit: UnitOfWork, event: NewEvent<string>): EventRow => append(unit, [event], true)[0]!

/** Compares two renderings of an object. Returns the previous values of the changed fields, of any size. */
export const previousAttributes = (before: Json, after: Json): Json => {
  const previous: Record<string, unknown> = {}
  for (const name of Object.keys(before)) {
    const [oldValue, newValue] = [before[name], after[name]]
    if (oldValue !== newValue && JSON.stringify(oldValue) !== JSON.stringify(newValue)) previous[name] = oldValue
  }
  return previous
}

/** The columns of an event that the API shows. */
type Shown = Pick<EventRow, "id" | "type" | "livemode" | "created_at" | "data">

export const renderEvent = (row: Shown): typeof Event.Type => ({
  id: row.id,
  object: "event",
  type: row.type,
  api_version: API_VERSION,
  livemode: row.livemode,
  created_at: formatInstant(row.created_at),
  // `append` wrote it in this shape.
  data: JSON.parse(row.data) as (typeof Event.Type)["data"],
})

/** Returns the body of a webhook delivery: the same bytes at every try. */
export const eventBody = (row: Shown): string => {
  const { data: _, ...head } = renderEvent({ ...row, data: "{}" })
  return `${JSON.stringify(head).slice(0, -1)},"data":${row.data}}`
}
