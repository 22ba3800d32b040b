/** A webhook endpoint (decision I2): enabled, or disabled by its owner or because deliveries fail. */
import { assign, setup } from "xstate"

export const ENDPOINT_STATUSES = ["enabled", "disabled"] as const
export type EndpointStatus = (typeof ENDPOINT_STATUSES)[number]
export const DISABLED_REASONS = ["endpoint_gone", "repeated_failures"] as const
export type DisabledReason = (typeof DISABLED_REASONS)[number]

export interface WebhookEndpointContext {
  /** Why it was disabled; null if its owner did it. */
  readonly reason: DisabledReason | null
}

export type WebhookEndpointEvent = {
  readonly type: "enable" | "disable" | "endpoint.gone" | "endpoint.failing"
  readonly at: number
}

export const webhookEndpointMachine = setup({
  types: {} as { context: WebhookEndpointContext; events: WebhookEndpointEvent; input: { readonly at: number } },
  actions: {
    /** Gives up waiting deliveries: an endpoint that is enabled again gets only later events. */
    giveUpWaiting: () => {},
    emailOwner: () => {},
  },
}).createMachine({
  id: "webhook_endpoint",
  context: { reason: null },
  initial: "enabled",
  states: {
    enabled: {
      exit: "giveUpWaiting",
      on: {
        disable: "disabled",
        // 410: the endpoint reports that it is gone.
        "endpoint.gone": { target: "disabled", actions: assign({ reason: "endpoint_gone" as const }) },
        "endpoint.failing": {
          target: "disabled",
          actions: [assign({ reason: "repeated_failures" as const }), "emailOwner"],
        },
      },
    },
    disabled: { on: { enable: { target: "enabled", actions: assign({ reason: null }) } } },
  },
})
