/** The types of events (spec 6): what endpoints can be enabled for, and what nothing else is ever emitted as. */

export const EVENT_TYPES = [
  "subscription.created",
  "subscription.trial_will_end",
  "subscription.updated",
  "subscription.renewed",
  "subscription.past_due",
  "subscription.recovered",
  "subscription.escalated",
  "subscription.paused",
  "subscription.resumed",
  "subscription.cancelled",
  "charge.succeeded",
  "charge.failed",
  "charge.retry_scheduled",
  "nudge.sent",
  "nudge.delivered",
  "nudge.failed",
  "usage.threshold_reached",
  "test_clock.ready",
  "webhook_endpoint.test",
] as const

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
