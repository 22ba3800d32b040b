/** Tries one delivery, and decides its next state from the result (machines/delivery.ts). */
import { Effect, type Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { decide, restore, stateName } from "../../../machines/decide.ts"
import { type DeliveryEvent, deliveryMachine } from "../../../machines/delivery.ts"
import { currentTime } from "../../base/wallClock.ts"
import { REF_COLUMNS, rowsAsTable } from "../../db/rows.ts"
import { isRef, type Ref, type Tenant, tenantOf } from "../../db/tenant.ts"
import { isLockTimeout } from "../../postgres/lockWait.ts"
import { type EventRow, eventBody, events } from "../event/events.ts"
import type { DeliveryRow } from "./delivery.ts"
import { disable, GONE } from "./ending.ts"
import { type EndpointRow, endpoints } from "./endpoint.ts"
import { Sender, type TryResult } from "./Sender.ts"
import { readSecrets } from "./secrets.ts"

/** An endpoint as last read, with its signing secrets. */
export interface Target {
  readonly endpoint: EndpointRow
  readonly secrets: ReadonlyArray<Redacted.Redacted<string>>
}

/** A waiting delivery. The body of its event is loaded when there is room (Bodies.ts). */
export interface Waiting extends Ref {
  /** Order of creation. */
  readonly seq: number
  readonly webhook_endpoint_id: string
  readonly object_id: string
  readonly once: boolean
  readonly attempt: number
  readonly event_id: string
  /** The size of its event's data. The rest of the body is small. */
  readonly bytes: number
}

/** The result of a try, and the delivery's state after it. */
export interface Outcome extends Ref {
  readonly status: DeliveryRow["status"]
  readonly attempt: number
  readonly due_at: number | null
  readonly response_status: number | null
  readonly response_body: string | null
  readonly failure_reason: string | null
  readonly duration_ms: number
}

type NextState = Pick<Outcome, "status" | "attempt" | "due_at">

const decideTry = ({ attempt, once }: Waiting, event: DeliveryEvent): NextState => {
  const { snapshot, set } = decide(deliveryMachine, restore(deliveryMachine, "due", { attempt, once }), event)
  const state = stateName(snapshot)
  return {
    status: state === "succeeded" || state === "failed" ? state : "pending",
    attempt: snapshot.context.attempt,
    due_at: set[0]?.dueAt ?? null,
  }
}

/** A cache of the state after a success, by number of tries: it does not depend on the time. */
const successes = new Map<number, NextState>()

const nextStateOf = (delivery: Waiting, { delivered, retryAfterMs }: TryResult): NextState => {
  const at = currentTime()
  if (!delivered) return decideTry(delivery, { type: "try.failed", at, jitter: 2 * Math.random() - 1, retryAfterMs })
  const succeeded = successes.get(delivery.attempt) ?? decideTry(delivery, { type: "try.succeeded", at })
  successes.set(delivery.attempt, succeeded)
  return succeeded
}

/** Tries a delivery of `body`. Returns the outcome, which the caller records. */
export const tryDelivery = async (
  { send }: Sender["Service"],
  delivery: Waiting,
  body: string,
  { endpoint, secrets }: Target,
): Promise<Outcome> => {
  const { livemode, event_id } = delivery
  const result = await send({ url: endpoint.url, livemode, id: event_id, body, secrets })
  return {
    account_id: delivery.account_id,
    livemode: delivery.livemode,
    id: delivery.id,
    ...nextStateOf(delivery, result),
    response_status: result.status,
    response_body: result.body,
    failure_reason: result.failure,
    duration_ms: result.durationMs,
  }
}

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

/**
 * Records outcomes. If another process tried the delivery meanwhile, its outcome counts and this one is ignored. If the delivery was given
 * up meanwhile (endpoint disabled), the last response is stored, and it is not tried again.
 */
export const recordOutcomes = Effect.fnUntraced(function* (outcomes: ReadonlyArray<Outcome>) {
  if (outcomes.length === 0) return
  const sql = yield* SqlClient.SqlClient
  yield* sql`
      UPDATE webhook_delivery d SET
        status = CASE WHEN r.status = 'pending' THEN d.status ELSE r.status END,
        due_at = CASE d.status WHEN 'pending' THEN r.due_at END,
        failure_reason = CASE WHEN r.status = 'pending' AND d.status = 'failed' THEN d.failure_reason ELSE r.failure_reason END,
        attempt = r.attempt, response_status = r.response_status, response_body = r.response_body, duration_ms = r.duration_ms
      FROM ${rowsAsTable(outcomes, OUTCOME)} r
      WHERE (d.account_id, d.livemode, d.id) = (r.account_id, r.livemode, r.id) AND d.attempt = r.attempt - 1
        AND (d.status = 'pending' OR d.failure_reason = 'endpoint_disabled')`
})

/** SQL: the columns of a delivery `d` joined with its `event`. */
export const DELIVERY =
  "d.account_id, d.livemode, d.id, d.seq, d.webhook_endpoint_id, d.object_id, d.once, d.attempt, d.event_id, octet_length(event.data) AS bytes"

/** Reads the bodies of events by ID, in one statement. Deleted events are missing. */
export const readBodies = Effect.fnUntraced(function* (wanted: ReadonlyArray<Ref>) {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<Pick<EventRow, "livemode" | "id" | "type" | "data" | "created_at">>`
    SELECT e.livemode, e.id, e.type, e.data, e.created_at FROM ${rowsAsTable(wanted, REF_COLUMNS)} r
    CROSS JOIN LATERAL (SELECT * FROM event WHERE (account_id, livemode, id) = (r.account_id, r.livemode, r.id) OFFSET 0) e`
  return new Map(rows.map((row) => [row.id, eventBody(row)]))
})

/** Sends a test once, without retries (decision I8). Returns its outcome; undefined if it was already sent. */
export const sendTest = Effect.fnUntraced(function* (tenant: Tenant, deliveryId: string) {
  const sql = yield* SqlClient.SqlClient
  const [delivery] = yield* sql<Waiting>`
    SELECT ${sql.literal(DELIVERY)} FROM webhook_delivery d
    JOIN event ON (event.account_id, event.livemode, event.id) = (d.account_id, d.livemode, d.event_id)
    WHERE ${isRef(sql, { ...tenantOf(tenant), id: deliveryId }, "d")} AND d.status = 'pending'`
  if (delivery === undefined) return undefined
  const endpoint = yield* endpoints.get(tenant, delivery.webhook_endpoint_id)
  const target = { endpoint, secrets: yield* readSecrets(endpoint) }
  const body = eventBody(yield* events.get(tenant, delivery.event_id))
  const sender = yield* Sender
  const outcome = yield* Effect.promise(() => tryDelivery(sender, delivery, body, target))
  yield* recordOutcomes([outcome])
  // On a lock timeout the endpoint is being changed and may work again: the next delivery decides.
  if (outcome.response_status === GONE)
    yield* Effect.catchIf(disable({ endpoint, type: "endpoint.gone" }), isLockTimeout, () => Effect.void)
  return outcome
})
