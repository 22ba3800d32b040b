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

/** Appends events in the given order, and answers their rows. */
export const appendEvents = (events: ReadonlyArray<NewEvent>) =>
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
    yield* sql`INSERT INTO event (${names(sql, INSERTED)}) SELECT * FROM ${records(sql, rows, INSERTED)} r`
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

/** An event as the API shows it and webhooks deliver it (spec 2.10). */
export const renderEvent = (row: EventRow) => ({
  id: row.id,
  object: "event" as const,
  type: row.type,
  api_version: API_VERSION,
  livemode: row.livemode,
  created_at: formatInstant(row.created_at),
  data: JSON.parse(row.data) as Json,
})
