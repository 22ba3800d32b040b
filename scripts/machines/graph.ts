/** The machines, with their titles, and the parts of their graphs. */
import type { AnyStateMachine, AnyStateNode, AnyTransitionDefinition } from "xstate"
import { chargeMachine } from "../../machines/charge.ts"
import { checkoutMachine } from "../../machines/checkout.ts"
import { clockMachine } from "../../machines/clock.ts"
import { triggerOf } from "../../machines/decide.ts"
import { deliveryMachine } from "../../machines/delivery.ts"
import { instalmentMachine } from "../../machines/instalment.ts"
import { invoiceMachine } from "../../machines/invoice.ts"
import { liveAccessMachine } from "../../machines/live_access.ts"
import { nudgeMachine } from "../../machines/nudge.ts"
import { refundMachine } from "../../machines/refund.ts"
import { subscriptionMachine } from "../../machines/subscription.ts"
import { webhookEndpointMachine } from "../../machines/webhook_endpoint.ts"

interface Listed {
  readonly title: string
  readonly file: string
  /** The kind of its actors in the journal; of machines without a journal, their noun. */
  readonly kind: string
  readonly machine: AnyStateMachine
}

export const MACHINES: ReadonlyArray<Listed> = [
  { title: "Subscription", file: "machines/subscription.ts", kind: "subscription", machine: subscriptionMachine },
  { title: "Charge", file: "machines/charge.ts", kind: "charge", machine: chargeMachine },
  { title: "Refund", file: "machines/refund.ts", kind: "refund", machine: refundMachine },
  { title: "Checkout session", file: "machines/checkout.ts", kind: "checkout_session", machine: checkoutMachine },
  { title: "Instalment plan", file: "machines/instalment.ts", kind: "instalment_plan", machine: instalmentMachine },
  { title: "Test clock", file: "machines/clock.ts", kind: "test_clock", machine: clockMachine },
  { title: "Service invoice", file: "machines/invoice.ts", kind: "invoice", machine: invoiceMachine },
  {
    title: "Webhook endpoint",
    file: "machines/webhook_endpoint.ts",
    kind: "webhook_endpoint",
    machine: webhookEndpointMachine,
  },
  { title: "Webhook delivery", file: "machines/delivery.ts", kind: "webhook_delivery", machine: deliveryMachine },
  { title: "Nudge", file: "machines/nudge.ts", kind: "nudge", machine: nudgeMachine },
  { title: "Live access", file: "machines/live_access.ts", kind: "live_access", machine: liveAccessMachine },
]

/** What causes a transition, and its guard. */
export const label = (transition: AnyTransitionDefinition): string => {
  const words = transition.eventType === "" ? "" : triggerOf(transition.eventType)
  const guard = transition.guard === undefined ? "" : ` [${String(transition.guard)}]`
  return `${words}${guard}`.trim()
}

/** What causes a transition, without its guard. */
export const triggerIn = ({ eventType }: AnyTransitionDefinition): string =>
  eventType === "" ? "immediately" : triggerOf(eventType)

export const walk = (node: AnyStateNode): ReadonlyArray<AnyStateNode> => [
  node,
  ...Object.values(node.states).flatMap(walk),
]

export const transitionsOf = (node: AnyStateNode): ReadonlyArray<AnyTransitionDefinition> => [
  ...[...node.transitions.values()].flat(),
  ...(node.always ?? []),
]
