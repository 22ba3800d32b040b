/** A webhook endpoint: its table, its lifecycle, and how the API shows it. */
import {
  DISABLED_REASONS,
  ENDPOINT_STATUSES,
  type EndpointStatus,
  type WebhookEndpointContext,
  webhookEndpointMachine,
} from "../../machines/webhook_endpoint.ts"
import {
  actorTable,
  bigint,
  columnsOf,
  instant,
  integer,
  nullable,
  oneOf,
  type RowOf,
  smallint,
  text,
  texts,
} from "../db/table.ts"
import type { Lease } from "../process/lease.ts"
import type { Lifecycle } from "../runtime/lifecycle.ts"
import { formatInstant } from "../time.ts"
import type { WebhookEndpoint } from "./api.ts"

const { fixed, moving, edited } = columnsOf<WebhookEndpointContext>()

export const endpoints = actorTable<WebhookEndpointContext>()(
  "webhook_endpoint",
  { noun: "webhook endpoint" },
  {
    /** One of the places that an account has (decision I7). */
    slot: fixed(smallint),
    created_at: fixed(instant),
    url: edited(text),
    description: edited(nullable(text)),
    enabled_events: edited(texts),
    // The machine's states are what the API shows.
    state: moving(oneOf(ENDPOINT_STATUSES), (state) => state as EndpointStatus),
    disabled_reason: moving(nullable(oneOf(DISABLED_REASONS)), "reason"),
    /** Deliveries up to this one are given up. */
    given_up_to: moving(bigint),
    /** The process that delivers to it. */
    runner: moving(nullable(integer)),
    /** Tries that failed since the last one that succeeded. */
    failures: moving(integer),
    failing_since: moving(nullable(instant)),
  },
)

export type EndpointRow = RowOf<typeof endpoints>

/** The process that delivers to an endpoint. */
export const endpointLease: Lease = { name: "webhook_endpoint" }

export const endpointLifecycle: Lifecycle<typeof webhookEndpointMachine, EndpointRow> = {
  kind: "webhook_endpoint",
  machine: webhookEndpointMachine,
  machineVersion: 1,
  ranks: {},
  table: endpoints,
}

export const renderEndpoint = (row: EndpointRow): typeof WebhookEndpoint.Type => ({
  id: row.id,
  object: "webhook_endpoint",
  livemode: row.livemode,
  created_at: formatInstant(row.created_at),
  url: row.url,
  description: row.description,
  enabled_events: row.enabled_events,
  status: row.state,
  disabled_reason: row.disabled_reason,
})
