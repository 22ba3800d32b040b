/** A nudge: its table, its lifecycle and its rendering for the API. */
import {
  CHANNELS,
  type Channel,
  NUDGE_STATUSES,
  NUDGE_TEMPLATES,
  type NudgeAttempt,
  type NudgeContext,
  nudgeMachine,
  nudgeStatusOf,
} from "../../../machines/nudge.ts"
import { REMINDER_RULES } from "../../../machines/reminders.ts"
import type { Json } from "../../base/json.ts"
import { formatInstant, formatInstantOrNull } from "../../base/time.ts"
import * as column from "../../db/columns.ts"
import { actorTable, columnsOf, type RowOf } from "../../db/table.ts"
import { commonOf } from "../../http/response.ts"
import type { Lease } from "../../process/lease.ts"
import type { Lifecycle, Transition } from "../../runtime/lifecycle.ts"
import { NUDGE_SOURCES, type Nudge } from "./api.ts"
import type { Worded } from "./messages.ts"

const { immutable, mutable } = columnsOf<NudgeContext>()

export const nudges = actorTable<NudgeContext>()(
  "nudge",
  {
    noun: "nudge",
    ids: "nudge",
    once: "(subscription_id, reminder_of, reminder_rule, reminder_day, account_id, livemode) WHERE reminder_rule IS NOT NULL",
  },
  {
    customer_id: immutable(column.text),
    subscription_id: immutable(column.nullable(column.text)),
    instalment_plan_id: immutable(column.nullable(column.text)),
    test_clock_id: immutable(column.nullable(column.text)),
    source: immutable(column.oneOf(NUDGE_SOURCES)),
    template: immutable(column.oneOf(NUDGE_TEMPLATES)),
    reminder_rule: immutable(column.nullable(column.oneOf(REMINDER_RULES))),
    reminder_day: immutable(column.nullable(column.smallint)),
    reminder_of: immutable(column.nullable(column.instant)),
    contacts: immutable(column.json<Readonly<Partial<Record<Channel, string>>>>()),
    message: immutable(column.json<Worded>()),
    link_token_hash: immutable(column.nullable(column.text)),
    created_at: immutable(column.instant),
    channels: immutable(column.someOf(CHANNELS), "channels"),
    status: mutable(column.oneOf(NUDGE_STATUSES), nudgeStatusOf),
    /** The channel tried now or last; the preferred one if the customer has no contact details. */
    channel: mutable(column.oneOf(CHANNELS)),
    position: mutable(column.smallint, "position"),
    tries: mutable(column.smallint, "tries"),
    attempts: mutable(column.json<ReadonlyArray<NudgeAttempt>>(), "attempts"),
    send_at: mutable(column.nullable(column.instant), "sendAt"),
    sent_at: mutable(column.nullable(column.instant), "sentAt"),
    delivered_at: mutable(column.nullable(column.instant), "deliveredAt"),
    receipt_at: mutable(column.nullable(column.instant), "receiptAt"),
    failure_reason: mutable(column.nullable(column.text), "failureReason"),
    counts: mutable(column.flag, "counts"),
    billed_as_overage: mutable(column.flag),
    /** The process that is sending it, since `taken_at` (written by the statement that takes it). */
    runner: mutable(column.nullable(column.integer)),
    /** The message ID of the messenger that accepted it last. */
    message_id: mutable(column.nullable(column.text)),
    /** The nudge as the newest event showed it. */
    announced: mutable(column.nullable(column.json<Json>())),
  },
)

export type NudgeRow = RowOf<typeof nudges>
export type NudgeTransition = Transition<typeof nudgeMachine, NudgeRow>

export const nudgeLifecycle: Lifecycle<typeof nudgeMachine, NudgeRow> = {
  kind: "nudge",
  machine: nudgeMachine,
  machineVersion: 1,
  // After all timers of subscriptions at the same instant.
  ranks: { sendLater: 8, sendAgain: 8, receipt: 9, unheard: 9 },
  table: nudges,
}

/**
 * The lease of the process that sends a nudge. A dead process's nudge is taken over only after more than the messenger's
 * timeout: the process may have lost only its database connection, and may still record the answer. Sandbox nudges need no wait.
 */
export const nudgeLease: Lease = { name: "nudge", grace: { own: "5 seconds", dead: "20 seconds" } }

export const renderNudge = (row: NudgeRow): typeof Nudge.Type => ({
  ...commonOf("nudge", row),
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
