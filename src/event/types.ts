/** The types of events: what the service emits, and what endpoints can be enabled for. */
import { CHECKOUT_EVENT_TYPES } from "../../machines/checkout.ts"
import { SUBSCRIPTION_EVENT_TYPES } from "../../machines/events.ts"
import { INSTALMENT_EVENT_TYPES } from "../../machines/instalment.ts"
import { NUDGE_EVENT_TYPES } from "../../machines/nudge.ts"

export const EVENT_TYPES = [
  ...SUBSCRIPTION_EVENT_TYPES,
  ...CHECKOUT_EVENT_TYPES,
  ...INSTALMENT_EVENT_TYPES,
  ...NUDGE_EVENT_TYPES,
  "usage.threshold_reached",
  "test_clock.ready",
  "webhook_endpoint.test",
] as const

/** Nothing else is emitted, other than by a merchant's own tests. */
export type EventType = (typeof EVENT_TYPES)[number]

const FAMILIES: ReadonlySet<string> = new Set(EVENT_TYPES.map((type) => type.split(".")[0]!))
const TYPES: ReadonlySet<string> = new Set(EVENT_TYPES)

/** What any type, and any family, looks like. */
const PATTERN = /^[a-z][a-z0-9_]{0,39}\.(\*|[a-z][a-z0-9_]{0,59})$/

/** Whether an endpoint can be enabled for it (decision I7): in the sandbox also for what only tests send. */
export const isEventPattern = (pattern: string, livemode: boolean): boolean => {
  if (pattern === "*") return true
  if (!livemode) return PATTERN.test(pattern)
  return pattern.endsWith(".*") ? FAMILIES.has(pattern.slice(0, -2)) : TYPES.has(pattern)
}
