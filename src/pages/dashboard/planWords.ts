/** Describes the rules of a plan in sentences: retries, escalation, reminders. */
import type { EscalationRule } from "../../../machines/dunning.ts"
import type { Reminders, RetryLogic } from "../../billing/plan/api.ts"
import { CHANNEL_NAMES } from "./nudgeWords.ts"

export const ESCALATION_WORDS: Readonly<Record<EscalationRule, string>> = {
  pause_service: "Pause the subscription",
  restrict_access: "Tell your systems to restrict access",
  hold_delivery: "Tell your systems to hold deliveries",
  none: "Nothing",
}

const ESCALATED: Readonly<Record<EscalationRule, string>> = {
  pause_service: "the subscription is paused until it is paid",
  restrict_access: "the subscription asks your systems to restrict access until it is paid",
  hold_delivery: "the subscription asks your systems to hold deliveries until it is paid",
  none: "nothing else happens",
}

const listed = (parts: ReadonlyArray<string | number>, last = "and"): string =>
  parts.length < 2 ? parts.join("") : `${parts.slice(0, -1).join(", ")} ${last} ${parts.at(-1)}`

const days = (count: number | string): string => `${count} ${count === 1 || count === "1" ? "day" : "days"}`

/** The days before each retry: the last interval repeats. */
const waitsOf = ({ max_attempts, retry_intervals_days }: RetryLogic): ReadonlyArray<number> =>
  Array.from({ length: max_attempts }, (_, at) => retry_intervals_days[at] ?? retry_intervals_days.at(-1) ?? 0)

/** Describes what happens after a payment fails. */
export const retryText = (rules: RetryLogic): string => {
  const { enabled, escalation_on_failure, cancel_after_days_unpaid } = rules
  const waits = enabled ? waitsOf(rules) : []
  const tries =
    waits.length === 0
      ? "A failed payment is not tried again automatically."
      : `A failed payment is tried again ${waits.length === 1 ? "once" : `up to ${waits.length} times`}, ${listed(waits)} ${waits.at(-1) === 1 ? "day" : "days"} after the try before.`
  const then = `${waits.length === 0 ? "Then" : "If all fail,"} ${ESCALATED[escalation_on_failure]}.`
  const end =
    cancel_after_days_unpaid === null
      ? "It is never cancelled for non-payment."
      : `If it is still unpaid ${days(cancel_after_days_unpaid)} after the first failure, it is cancelled.`
  return `${tries} ${then} ${end}`
}

/** Describes which reminders the customer gets. */
export const reminderText = ({ enabled, channels, pre_due_days, post_due_days }: Reminders): string => {
  if (!enabled || (pre_due_days.length === 0 && post_due_days.length === 0)) return "No reminders are sent."
  const at = [
    ...(pre_due_days.length === 0 ? [] : [`${days(listed(pre_due_days))} before a charge`]),
    ...(post_due_days.length === 0 ? [] : [`${days(listed(post_due_days))} after a failed payment`]),
  ]
  const by = channels.map((channel) => CHANNEL_NAMES[channel])
  return `A reminder is sent ${at.join(", and ")}, by ${listed(by, "or")}: the first that reaches the customer.`
}
