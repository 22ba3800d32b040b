/** A webhook endpoint: its table, its lifecycle and its rendering for the API. */
import {
  DISABLED_REASONS,
  ENDPOINT_STATUSES,
  type EndpointStatus,
  type WebhookEndpointContext,
  webhookEndpointMachine,
} from "../../../machines/webhook_endpoint.ts"
import * as column from "../../db/columns.ts"
import { actorTable, columnsOf, type RowOf } from "../../db/table.ts"
import { commonOf } from "../../http/response.ts"
import type { Lease } from "../../process/lease.ts"
import type { Lifecycle } from "../../runtime/lifecycle.ts"
import type { WebhookEndpoint } from "./api.ts"

const { immutable, mutable } = columnsOf<WebhookEndpointContext>()

export const endpoints = actorTable<WebhookEndpointContext>()(
  "webhook_endpoint",
  { noun: "webhook endpoint", ids: "webhook_endpoint" },
  {
    /** One of the account's slots: their number limits its endpoints (decision I7). */
    slot: immutable(column.smallint),
    created_at: immutable(column.instant),
    url: mutable(column.text),
    description: mutable(column.nullable(column.text)),
    enabled_events: mutable(column.texts),
    // The machine's states are the API's statuses.
    state: mutable(column.oneOf(ENDPOINT_STATUSES), (state) => state as EndpointStatus),
    disabled_reason: mutable(column.nullable(column.oneOf(DISABLED_REASONS)), "reason"),
    /** Deliveries up to this `seq` are given up. */
    given_up_to: mutable(column.bigint),
    /** The process that delivers to it now. */
    runner: mutable(column.nullable(column.integer)),
    /** Failed tries since the last success. */
    failures: mutable(column.integer),
    failing_since: mutable(column.nullable(column.instant)),
  },
)

export type EndpointRow = RowOf<typeof endpoints>

/** The lease of the process that delivers to an endpoint. */
export const endpointLease: Lease = { name: "webhook_endpoint" }

export const endpointLifecycle: Lifecycle<typeof webhookEndpointMachine, EndpointRow> = {
  kind: "webhook_endpoint",
  machine: webhookEndpointMachine,
  machineVersion: 1,
  ranks: {},
  table: endpoints,
}

export const renderEndpoint = (row: EndpointRow): typeof WebhookEndpoint.Type => ({
  ...commonOf("webhook_endpoint", row),
  url: row.url,
  description: row.description,
  enabled_events: row.enabled_events,
  status: row.state,
  disabled_reason: row.disabled_reason,
})
