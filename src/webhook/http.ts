import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import type { Tenant } from "../db/tenant.ts"
import { bind } from "../http/Endpoint.ts"
import { mapPage, page } from "../http/lists.ts"
import { noSuch } from "../problem.ts"
import { formatInstant } from "../time.ts"
import { type EndpointPatch, webhookApi } from "./api.ts"
import { beginTest, type DeliveryRow, renderDelivery, resend } from "./Deliveries.ts"
import { sendTest } from "./deliver.ts"
import { type EndpointRow, renderEndpoint } from "./Endpoint.ts"
import { createEndpoint, deleteEndpoint, getEndpoint, judge, rollSecret, updateEndpoint } from "./Endpoints.ts"
import { Sender } from "./Sender.ts"

/** Judges what is asked for, before any transaction: where a URL leads is a question to DNS. */
const judgeAll = (request: Tenant & { readonly body: EndpointPatch }) =>
  Effect.gen(function* () {
    yield* judge(request, request.body)
    const { url } = request.body
    if (url !== undefined) yield* (yield* Sender).check(url, request.livemode)
  })

export const webhookEndpoints = [
  bind(webhookApi.create, {
    kind: "write",
    before: judgeAll,
    run: (request) =>
      Effect.map(createEndpoint(request, request.body), ({ row, secret }) => ({ ...renderEndpoint(row), secret })),
  }),
  bind(webhookApi.list, {
    kind: "list",
    run: (request) =>
      Effect.map(page<EndpointRow>("webhook_endpoint", request, request.query, []), (rows) =>
        mapPage(rows, renderEndpoint),
      ),
  }),
  bind(webhookApi.get, {
    kind: "read",
    run: (request) => Effect.map(getEndpoint(request, request.id), renderEndpoint),
  }),
  bind(webhookApi.update, {
    kind: "write",
    before: judgeAll,
    run: (request) => Effect.map(updateEndpoint(request, request.id, request.body), renderEndpoint),
  }),
  bind(webhookApi.remove, { kind: "write", run: (request) => deleteEndpoint(request, request.id) }),
  bind(webhookApi.rollSecret, {
    kind: "write",
    run: (request) =>
      Effect.map(rollSecret(request, request.id), ({ row, secret, previousExpiresAt }) => ({
        ...renderEndpoint(row),
        secret,
        previous_secret_expires_at: formatInstant(previousExpiresAt),
      })),
  }),
  bind(webhookApi.test, {
    kind: "staged",
    begin: (request) =>
      Effect.gen(function* () {
        const id = yield* beginTest(yield* getEndpoint(request, request.id))
        return { id, after: sendTest(request, id) }
      }),
    resume: sendTest,
    reply: (tenant, id) =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const [row] = yield* sql<DeliveryRow>`
          SELECT * FROM webhook_delivery WHERE account_id = ${tenant.account_id} AND livemode = ${tenant.livemode} AND id = ${id}`
        const { event_id, response_status, duration_ms, status } = row ?? (yield* noSuch("delivery", id))
        return { event: event_id, response_status, duration_ms, delivered: status === "succeeded" }
      }),
  }),
  bind(webhookApi.deliveries, {
    kind: "list",
    run: (request) =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const [event] = yield* sql`
          SELECT 1 FROM event WHERE account_id = ${request.account_id} AND livemode = ${request.livemode} AND id = ${request.id}`
        if (event === undefined) return yield* noSuch("event", request.id)
        const rows = yield* page<DeliveryRow>("webhook_delivery", request, request.query, [
          sql`event_id = ${request.id}`,
        ])
        return mapPage(rows, renderDelivery)
      }),
  }),
  bind(webhookApi.resend, {
    kind: "write",
    run: (request) =>
      Effect.map(resend(request, request.id, request.body.webhook_endpoint), (rows) => {
        const data = rows.map(renderDelivery)
        return { data, hasMore: false, limit: Math.max(1, data.length) }
      }),
  }),
]
