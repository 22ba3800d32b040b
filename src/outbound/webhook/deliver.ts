/** One try of one delivery: what is sent, and what its outcome makes of it (machines/delivery.ts). */
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

/** An endpoint as it was read last, with what to sign by. */
export interface Target {
  readonly endpoint: EndpointRow
  readonly secrets: ReadonlyArray<Redacted.Redacted<string>>
}

/** A delivery that waits. The body of its event is loaded as there is room (Bodies.ts). */
export interface Waiting extends Ref {
  /** Order of creation. */
  readonly seq: number
  readonly webhook_endpoint_id: string
  readonly object_id: string
  readonly once: boolean
  readonly attempt: number
  readonly event_id: string
  /** Of its event's data; what stands beside it is little. */
  readonly bytes: number
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

type Decided = Pick<Outcome, "status" | "attempt" | "due_at">

const decideTry = ({ attempt, once }: Waiting, event: DeliveryEvent): Decided => {
  const { snapshot, set } = decide(deliveryMachine, restore(deliveryMachine, "due", { attempt, once }), event)
  const state = stateName(snapshot)
  return {
    status: state === "succeeded" || state === "failed" ? state : "pending",
    attempt: snapshot.context.attempt,
    due_at: set[0]?.dueAt ?? null,
  }
}

/** A success is decided alike each time, whenever it is: the machine is asked once for each number of tries. */
const successes = new Map<number, Decided>()

const decided = (delivery: Waiting, { delivered, retryAfterMs }: TryResult): Decided => {
  const at = currentTime()
  if (!delivered) return decideTry(delivery, { type: "try.failed", at, jitter: 2 * Math.random() - 1, retryAfterMs })
  const known = successes.get(delivery.attempt) ?? decideTry(delivery, { type: "try.succeeded", at })
  successes.set(delivery.attempt, known)
  return known
}

/** Tries a delivery of `body`; returns the outcome, which is to be recorded. */
export const tryDelivery = async (
  { send }: Sender["Service"],
  delivery: Waiting,
  body: string,
  { endpoint, secrets }: Target,
): Promise<Outcome> => {
  const { livemode, event_id } = delivery
  const tried = await send({ url: endpoint.url, livemode, id: event_id, body, secrets })
  return {
    account_id: delivery.account_id,
    livemode: delivery.livemode,
    id: delivery.id,
    ...decided(delivery, tried),
    response_status: tried.status,
    response_body: tried.body,
    failure_reason: tried.failure,
    duration_ms: tried.durationMs,
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
 * Writes outcomes. One whose delivery was tried by another process meanwhile changes nothing: that try counts. Of one that was given up
 * meanwhile, since its endpoint was disabled, it is told how the last try ended; it is not tried again.
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

/** The columns of a delivery `d` of an `event`. */
export const DELIVERY =
  "d.account_id, d.livemode, d.id, d.seq, d.webhook_endpoint_id, d.object_id, d.once, d.attempt, d.event_id, octet_length(event.data) AS bytes"

/** The bodies of events that there are, by ID: one statement. */
export const readBodies = Effect.fnUntraced(function* (wanted: ReadonlyArray<Ref>) {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<Pick<EventRow, "livemode" | "id" | "type" | "data" | "created_at">>`
    SELECT e.livemode, e.id, e.type, e.data, e.created_at FROM ${rowsAsTable(wanted, REF_COLUMNS)} r
    CROSS JOIN LATERAL (SELECT * FROM event WHERE (account_id, livemode, id) = (r.account_id, r.livemode, r.id) OFFSET 0) e`
  return new Map(rows.map((row) => [row.id, eventBody(row)]))
})

/** Sends a test, unless that was done: once, whatever comes of it (decision I8). Returns how that ended. */
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
  // Somebody is changing it, so that it may not be gone any more: the next delivery says.
  if (outcome.response_status === GONE)
    yield* Effect.catchIf(disable({ endpoint, type: "endpoint.gone" }), isLockTimeout, () => Effect.void)
  return outcome
})
