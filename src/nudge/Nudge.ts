/** A nudge as the API shows it (spec 2.8), and its lifecycle. */
import { type Channel, type NudgeContext, nudgeMachine } from "../../machines/nudge.ts"
import type { Lifecycle } from "../lifecycle/advance.ts"
import { formatInstant, formatInstantOrNull } from "../time.ts"
import type { NudgeRow } from "./rows.ts"

export type NudgeStatus = "queued" | "sent" | "delivered" | "failed"

export const renderNudge = (row: NudgeRow) => ({
  id: row.id,
  object: "nudge" as const,
  livemode: row.livemode,
  created_at: formatInstant(row.created_at),
  customer: row.customer_id,
  subscription: row.subscription_id,
  channel: row.channel,
  template: row.template,
  source: row.source,
  status: row.status,
  failure_reason: row.failure_reason,
  counts_toward_allowance: row.counts,
  billed_as_overage: row.billed_as_overage,
  sent_at: formatInstantOrNull(row.sent_at),
  delivered_at: formatInstantOrNull(row.delivered_at),
  attempts: row.attempts.map((attempt) => ({ ...attempt, at: formatInstant(attempt.at) })),
})

/** Passed on to another channel it stays what it was: sent. */
const statusOf = (state: string, { sentAt }: NudgeContext): NudgeStatus => {
  if (state === "delivered" || state === "failed") return state
  return sentAt === null ? "queued" : "sent"
}

/** The columns that the machine owns, for a snapshot. `otherwise`: the channel of a nudge that reaches nobody. */
export const machineColumns = (state: string, context: NudgeContext, otherwise: Channel) => ({
  state,
  status: statusOf(state, context),
  channels: context.channels,
  channel: context.channels[context.position] ?? otherwise,
  position: context.position,
  tries: context.tries,
  attempts: context.attempts,
  send_at: context.sendAt,
  sent_at: context.sentAt,
  delivered_at: context.deliveredAt,
  receipt_at: context.receiptAt,
  failure_reason: context.failureReason,
  counts: context.counts,
})

export const nudgeLifecycle: Lifecycle<typeof nudgeMachine, NudgeRow> = {
  kind: "nudge",
  machine: nudgeMachine,
  machineVersion: 1,
  // After everything that subscriptions do at the same instant.
  ranks: { sendLater: 8, sendAgain: 8, receipt: 9, unheard: 9 },
  contextOf: (row): NudgeContext => ({
    channels: row.channels,
    position: row.position,
    tries: row.tries,
    attempts: row.attempts,
    sendAt: row.send_at,
    sentAt: row.sent_at,
    deliveredAt: row.delivered_at,
    receiptAt: row.receipt_at,
    failureReason: row.failure_reason,
    counts: row.counts,
  }),
}
