/** Creates deliveries by request: resends and tests (decisions I5, I8). */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { newId } from "../../base/ids.ts"
import { asReference, problem } from "../../base/problem.ts"
import { currentTime } from "../../base/wallClock.ts"
import { ofTenant, type Ref, type Tenant, tenantOf } from "../../db/tenant.ts"
import { unitOfWork } from "../../db/UnitOfWork.ts"
import { appendUndelivered, type EventRow, events } from "../event/events.ts"
import { type DeliveryRow, deliveries } from "./delivery.ts"
import { type EndpointRow, endpoints, renderEndpoint } from "./endpoint.ts"

/** Builds a delivery that was not tried yet. */
const newDelivery = (
  tenant: Tenant,
  event: Pick<EventRow, "id" | "object_id">,
  endpoint: Ref,
  once: boolean,
): DeliveryRow => ({
  ...tenantOf(tenant),
  id: newId("delivery"),
  event_id: event.id,
  webhook_endpoint_id: endpoint.id,
  object_id: event.object_id,
  once,
  created_at: currentTime(),
  status: "pending",
  attempt: 0,
  due_at: null,
  response_status: null,
  response_body: null,
  failure_reason: null,
  duration_ms: null,
})

/** Reads the endpoints that are enabled for a type of event. */
const enabledFor = Effect.fnUntraced(function* (tenant: Tenant, type: string) {
  const sql = yield* SqlClient.SqlClient
  return yield* sql<EndpointRow>`
    SELECT * FROM webhook_endpoint
    WHERE ${ofTenant(sql, tenant)} AND state = 'enabled' AND enabled_events && event_patterns(${type}) ORDER BY id`
})

/** Sends an event again (decision I5): to the given endpoint, else to all that are enabled for it. */
export const resend = Effect.fn("event.resend")(function* (
  tenant: Tenant,
  eventId: string,
  endpointId: string | undefined,
) {
  const event = yield* events.get(tenant, eventId)
  const recipients =
    endpointId === undefined
      ? yield* enabledFor(tenant, event.type)
      : [yield* asReference(endpoints.get(tenant, endpointId), "webhook_endpoint")]
  if (recipients.some(({ state }) => state === "disabled"))
    return yield* problem("webhook_endpoint_disabled", "The webhook endpoint is disabled: enable it first.")
  const rows = recipients.map((endpoint) => newDelivery(tenant, event, endpoint, false))
  ;(yield* unitOfWork).insert(deliveries, rows)
  return rows
})

/** Creates a test event and its delivery for one endpoint only. The requesting process sends it, once. */
export const startTest = Effect.fn("webhookEndpoint.test")(function* (endpoint: EndpointRow) {
  const event = appendUndelivered(yield* unitOfWork, {
    ...tenantOf(endpoint),
    type: "webhook_endpoint.test",
    object: renderEndpoint(endpoint),
    previous: {},
    test_clock_id: null,
    at: currentTime(),
  })
  const delivery = newDelivery(endpoint, event, endpoint, true)
  ;(yield* unitOfWork).insert(deliveries, [delivery])
  return delivery
})
