/** One try of one delivery: what is sent, and what its outcome makes of it (machines/delivery.ts). */
import { Effect, type Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { decide, restore, stateName } from "../../machines/decide.ts"
import { deliveryMachine } from "../../machines/delivery.ts"
import { REF_COLUMNS, records } from "../db/records.ts"
import type { Ref, Tenant } from "../db/tenant.ts"
import { type EventRow, eventBody } from "../event/Events.ts"
import type { DeliveryRow } from "./Deliveries.ts"
import type { EndpointRow } from "./Endpoint.ts"
import { getEndpoint, readSecrets } from "./Endpoints.ts"
import { Sender, type Tried } from "./Sender.ts"

/** A delivery with the event that it delivers. */
export interface Waiting extends Ref {
  readonly webhook_endpoint_id: string
  readonly object_id: string
  readonly once: boolean
  readonly attempt: number
  readonly event: EventRow
}

/** A try that was made, and where it leaves the delivery. */
export interface Outcome extends Ref {
  readonly status: DeliveryRow["status"]
  readonly attempt: number
  readonly due_at: number | null
  readonly response_status: number | null
  readonly response_body: string | null
  readonly failure_reason: string | null
  readonly duration_ms: number
}

const outcomeOf = (delivery: Waiting, tried: Tried, at: number): Outcome => {
  const snapshot = restore(deliveryMachine, "due", { attempt: delivery.attempt, once: delivery.once })
  const event = tried.delivered
    ? { type: "try.succeeded", at }
    : { type: "try.failed", at, jitter: 2 * Math.random() - 1, retryAfterMs: tried.retryAfterMs }
  const { snapshot: after, set } = decide(deliveryMachine, snapshot, event)
  const state = stateName(after)
  return {
    account_id: delivery.account_id,
    livemode: delivery.livemode,
    id: delivery.id,
    status: state === "succeeded" || state === "failed" ? state : "pending",
    attempt: after.context.attempt,
    due_at: set[0]?.dueAt ?? null,
    response_status: tried.status,
    response_body: tried.body,
    failure_reason: tried.failure,
    duration_ms: tried.durationMs,
  }
}

/** Tries a delivery; answers the outcome, which is to be recorded. */
export const tryDelivery = (
  delivery: Waiting,
  url: string,
  secrets: ReadonlyArray<Redacted.Redacted<string>>,
): Effect.Effect<Outcome, never, Sender> =>
  Effect.gen(function* () {
    const sender = yield* Sender
    const { livemode, event } = delivery
    const tried = yield* sender.send({ url, livemode, id: event.id, body: eventBody(event), secrets })
    return outcomeOf(delivery, tried, Date.now())
  })

const OUTCOME = {
  ...REF_COLUMNS,
  status: "text",
  attempt: "smallint",
  due_at: "timestamptz",
  response_status: "smallint",
  response_body: "text",
  failure_reason: "text",
  duration_ms: "integer",
} as const

/** Writes outcomes. One whose delivery was tried by another process meanwhile changes nothing: that try counts. */
export const recordOutcomes = (outcomes: ReadonlyArray<Outcome>) =>
  Effect.gen(function* () {
    if (outcomes.length === 0) return
    const sql = yield* SqlClient.SqlClient
    yield* sql`
      UPDATE webhook_delivery d SET status = r.status, attempt = r.attempt, due_at = r.due_at, response_status = r.response_status,
        response_body = r.response_body, failure_reason = r.failure_reason, duration_ms = r.duration_ms
      FROM ${records(sql, outcomes, OUTCOME)} r
      WHERE (d.account_id, d.livemode, d.id) = (r.account_id, r.livemode, r.id) AND d.status = 'pending' AND d.attempt = r.attempt - 1`
  })

/** A delivery's columns with those of its event, as one row. */
export const WITH_EVENT =
  "d.account_id, d.livemode, d.id, d.webhook_endpoint_id, d.object_id, d.once, d.attempt, e.id AS event_id, e.type, e.data, e.created_at"

export interface WithEvent extends Omit<Waiting, "event">, Omit<EventRow, "id"> {
  readonly event_id: string
}

export const waitingOf = ({ type, data, created_at, event_id, ...delivery }: WithEvent): Waiting => ({
  ...delivery,
  event: { account_id: delivery.account_id, livemode: delivery.livemode, id: event_id, type, data, created_at },
})

/** Sends a test, unless that was done: once, whatever comes of it (decision I8). */
export const sendTest = (tenant: Tenant, deliveryId: string) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const [row] = yield* sql<WithEvent>`
      SELECT ${sql.literal(WITH_EVENT)} FROM webhook_delivery d
      JOIN event e ON (e.account_id, e.livemode, e.id) = (d.account_id, d.livemode, d.event_id)
      WHERE d.account_id = ${tenant.account_id} AND d.livemode = ${tenant.livemode} AND d.id = ${deliveryId} AND d.status = 'pending'`
    if (row === undefined) return
    const endpoint: EndpointRow = yield* getEndpoint(tenant, row.webhook_endpoint_id)
    const outcome = yield* tryDelivery(waitingOf(row), endpoint.url, yield* readSecrets(endpoint))
    yield* recordOutcomes([outcome])
  })
