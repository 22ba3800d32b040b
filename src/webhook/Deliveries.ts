/** Deliveries of events (decisions I2, I5, I8): listed, sent again, tested. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import type { Ref, Tenant } from "../db/tenant.ts"
import { appendEvents, type EventRow } from "../event/Events.ts"
import { newId } from "../ids.ts"
import { noSuch, noSuchReference, problem } from "../problem.ts"
import { formatInstant, formatInstantOrNull } from "../time.ts"
import { type EndpointRow, renderEndpoint } from "./Endpoint.ts"

export interface DeliveryRow extends Ref {
  readonly event_id: string
  readonly webhook_endpoint_id: string
  readonly status: "pending" | "succeeded" | "failed"
  /** Tries made. */
  readonly attempt: number
  /** The next try; null: at once, or none. */
  readonly due_at: number | null
  readonly response_status: number | null
  readonly response_body: string | null
  readonly failure_reason: string | null
  readonly duration_ms: number | null
  readonly created_at: number
}

export const renderDelivery = (row: DeliveryRow) => ({
  id: row.id,
  object: "delivery" as const,
  livemode: row.livemode,
  created_at: formatInstant(row.created_at),
  event: row.event_id,
  webhook_endpoint: row.webhook_endpoint_id,
  attempt: row.attempt,
  status: row.status,
  response_status: row.response_status,
  response_body: row.response_body,
  failure_reason: row.failure_reason,
  duration_ms: row.duration_ms,
  next_attempt_at: row.status === "pending" ? formatInstantOrNull(row.due_at ?? row.created_at) : null,
})

/** Sends an event again (decision I5): to the endpoint given, else to all that are enabled for it. */
export const resend = (tenant: Tenant, eventId: string, endpointId: string | undefined) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const mine = sql`account_id = ${tenant.account_id} AND livemode = ${tenant.livemode}`
    const [event] = yield* sql<EventRow & { object_id: string }>`SELECT * FROM event WHERE ${mine} AND id = ${eventId}`
    if (event === undefined) return yield* noSuch("event", eventId)
    const wanted =
      endpointId === undefined
        ? sql`state = 'enabled' AND enabled_events && event_patterns(${event.type})`
        : sql`id = ${endpointId}`
    const endpoints = yield* sql<EndpointRow>`SELECT * FROM webhook_endpoint WHERE ${mine} AND ${wanted} ORDER BY id`
    if (endpointId !== undefined && endpoints.length === 0)
      return yield* noSuchReference("webhook endpoint", endpointId, "webhook_endpoint")
    if (endpoints.some(({ state }) => state === "disabled"))
      return yield* problem("webhook_endpoint_disabled", "The webhook endpoint is disabled: enable it first.")
    return yield* Effect.forEach(endpoints, (endpoint) =>
      Effect.map(
        sql<DeliveryRow>`
          INSERT INTO webhook_delivery (account_id, livemode, id, event_id, webhook_endpoint_id, object_id)
          VALUES (${tenant.account_id}, ${tenant.livemode}, ${newId("delivery")}, ${eventId}, ${endpoint.id}, ${event.object_id}) RETURNING *`,
        ([row]) => row!,
      ),
    )
  })

/** A test event for one endpoint, to be sent once by whoever asks for it; other endpoints hear nothing of it. */
export const beginTest = (endpoint: EndpointRow) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const { account_id, livemode, id } = endpoint
    const [event] = yield* appendEvents(
      [
        {
          account_id,
          livemode,
          type: "webhook_endpoint.test",
          object: renderEndpoint(endpoint),
          previous: {},
          test_clock_id: null,
          at: Date.now(),
        },
      ],
      { deliver: false },
    )
    const deliveryId = newId("delivery")
    yield* sql`
      INSERT INTO webhook_delivery (account_id, livemode, id, event_id, webhook_endpoint_id, object_id, once)
      VALUES (${account_id}, ${livemode}, ${deliveryId}, ${event!.id}, ${id}, ${id}, true)`
    return deliveryId
  })
