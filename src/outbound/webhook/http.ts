import { Effect } from "effect"
import { formatInstant } from "../../base/time.ts"
import type { Tenant } from "../../db/tenant.ts"
import { bind, each } from "../../http/Endpoint.ts"
import { equals, listOf } from "../../http/lists.ts"
import { events } from "../event/events.ts"
import { type EndpointPatch, webhookApi } from "./api.ts"
import { sendTest } from "./deliver.ts"
import { resend, startTest } from "./deliveries.ts"
import { type DeliveryRow, deliveries, renderDelivery } from "./delivery.ts"
import { endpoints, renderEndpoint } from "./endpoint.ts"
import { checkPatterns, checkUrl, createEndpoint, deleteEndpoint, rollSecret, updateEndpoint } from "./endpoints.ts"
import { Sender } from "./Sender.ts"

/** Validates a field of an endpoint. A URL's check queries DNS. */
const check = (name: string, { url, enabled_events: patterns }: EndpointPatch, { livemode }: Tenant) => {
  if (name === "enabled_events") return checkPatterns(patterns!, livemode)
  if (name !== "url") return undefined
  return Effect.andThen(
    checkUrl(url!, livemode),
    Effect.flatMap(Sender, (sender) => sender.check(url!, livemode)),
  )
}

/** Renders the result of a test. */
const renderTest = ({
  event_id,
  response_status,
  duration_ms,
  status,
}: Pick<DeliveryRow, "event_id" | "response_status" | "duration_ms" | "status">) => ({
  event: event_id,
  response_status,
  // Not null after a try.
  duration_ms: duration_ms!,
  delivered: status === "succeeded",
})

export const webhookEndpoints = [
  bind(webhookApi.create, {
    kind: "write",
    check,
    run: each((request) =>
      Effect.map(createEndpoint(request, request.body), ({ row, secret }) => ({ ...renderEndpoint(row), secret })),
    ),
  }),
  bind(webhookApi.list, { kind: "read", run: (request) => listOf(endpoints, request, renderEndpoint) }),
  bind(webhookApi.get, {
    kind: "read",
    run: (request) => Effect.map(endpoints.get(request, request.id), renderEndpoint),
  }),
  bind(webhookApi.update, {
    kind: "write",
    check,
    run: each((request) => Effect.map(updateEndpoint(request, request.id, request.body), renderEndpoint)),
  }),
  bind(webhookApi.remove, { kind: "write", run: each((request) => deleteEndpoint(request, request.id)) }),
  bind(webhookApi.rollSecret, {
    kind: "write",
    run: each((request) =>
      Effect.map(rollSecret(request, request.id), ({ row, secret, previousExpiresAt }) => ({
        ...renderEndpoint(row),
        secret,
        previous_secret_expires_at: formatInstant(previousExpiresAt),
      })),
    ),
  }),
  bind(webhookApi.test, {
    kind: "two-phase",
    begin: each(
      Effect.fnUntraced(function* (request) {
        const { id, event_id } = yield* startTest(yield* endpoints.get(request, request.id))
        return {
          id,
          made: () => ({ event: event_id, response_status: null, duration_ms: 0, delivered: false }),
          after: Effect.map(sendTest(request, id), (tried) => tried && renderTest({ ...tried, event_id })),
        }
      }),
    ),
    finish: (tenant, id) => Effect.asVoid(sendTest(tenant, id)),
    reply: (tenant, id) => Effect.map(deliveries.get(tenant, id), renderTest),
  }),
  bind(webhookApi.deliveries, {
    kind: "read",
    run: Effect.fnUntraced(function* (request) {
      const event = yield* events.get(request, request.id)
      return yield* listOf(deliveries, request, renderDelivery, [equals("event_id", event.id)])
    }),
  }),
  bind(webhookApi.resend, {
    kind: "write",
    run: each((request) =>
      Effect.map(resend(request, request.id, request.body.webhook_endpoint), (rows) => ({
        data: rows.map(renderDelivery),
        hasMore: false,
        limit: Math.max(1, rows.length),
      })),
    ),
  }),
]
