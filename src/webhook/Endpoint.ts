/** A webhook endpoint as the API shows it (spec 2.9), and its lifecycle. */
import type { WebhookEndpointContext } from "../../machines/webhook_endpoint.ts"
import { webhookEndpointMachine } from "../../machines/webhook_endpoint.ts"
import type { ActorRow, Lifecycle } from "../lifecycle/advance.ts"
import { formatInstant } from "../time.ts"

export interface EndpointRow extends ActorRow {
  readonly url: string
  readonly description: string | null
  readonly enabled_events: ReadonlyArray<string>
  readonly state: "enabled" | "disabled"
  readonly disabled_reason: WebhookEndpointContext["reason"]
  /** Deliveries up to this one are given up. */
  readonly given_up_to: number
  readonly runner: number | null
  readonly failures: number
  readonly failing_since: number | null
  readonly created_at: number
}

export const renderEndpoint = (row: EndpointRow) => ({
  id: row.id,
  object: "webhook_endpoint" as const,
  livemode: row.livemode,
  created_at: formatInstant(row.created_at),
  url: row.url,
  description: row.description,
  enabled_events: row.enabled_events,
  status: row.state,
  disabled_reason: row.disabled_reason,
})

export const endpointLifecycle: Lifecycle<typeof webhookEndpointMachine, EndpointRow> = {
  kind: "webhook_endpoint",
  machine: webhookEndpointMachine,
  machineVersion: 1,
  ranks: {},
  contextOf: (row) => ({ reason: row.disabled_reason }),
}
