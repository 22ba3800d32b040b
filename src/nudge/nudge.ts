/** A nudge: its table, its lifecycle, and how the API shows it. */
import {
  CHANNELS,
  type Channel,
  NUDGE_STATUSES,
  NUDGE_TEMPLATES,
  type NudgeAttempt,
  type NudgeContext,
  nudgeMachine,
  nudgeStatusOf,
} from "../../machines/nudge.ts"
import { REMINDER_RULES } from "../../machines/reminders.ts"
import {
  actorTable,
  columnsOf,
  flag,
  instant,
  integer,
  json,
  nullable,
  oneOf,
  type RowOf,
  smallint,
  someOf,
  text,
} from "../db/table.ts"
import type { Json } from "../json.ts"
import type { Lease } from "../process/lease.ts"
import type { Lifecycle, Transition } from "../runtime/lifecycle.ts"
import { formatInstant, formatInstantOrNull } from "../time.ts"
import { NUDGE_SOURCES, type Nudge } from "./api.ts"
import type { Worded } from "./messages.ts"

const { fixed, moving } = columnsOf<NudgeContext>()

export const nudges = actorTable<NudgeContext>()(
  "nudge",
  {
    noun: "nudge",
    once: "(subscription_id, reminder_of, reminder_rule, reminder_day, account_id, livemode) WHERE reminder_rule IS NOT NULL",
  },
  {
    customer_id: fixed(text),
    subscription_id: fixed(nullable(text)),
    test_clock_id: fixed(nullable(text)),
    source: fixed(oneOf(NUDGE_SOURCES)),
    template: fixed(oneOf(NUDGE_TEMPLATES)),
    reminder_rule: fixed(nullable(oneOf(REMINDER_RULES))),
    reminder_day: fixed(nullable(smallint)),
    reminder_of: fixed(nullable(instant)),
    contacts: fixed(json<Readonly<Partial<Record<Channel, string>>>>()),
    message: fixed(json<Worded>()),
    link_token_hash: fixed(nullable(text)),
    created_at: fixed(instant),
    channels: fixed(someOf(CHANNELS), "channels"),
    status: moving(oneOf(NUDGE_STATUSES), nudgeStatusOf),
    /** The one tried now or last; of a nudge that reaches nobody, the one preferred. */
    channel: moving(oneOf(CHANNELS)),
    position: moving(smallint, "position"),
    tries: moving(smallint, "tries"),
    attempts: moving(json<ReadonlyArray<NudgeAttempt>>(), "attempts"),
    send_at: moving(nullable(instant), "sendAt"),
    sent_at: moving(nullable(instant), "sentAt"),
    delivered_at: moving(nullable(instant), "deliveredAt"),
    receipt_at: moving(nullable(instant), "receiptAt"),
    failure_reason: moving(nullable(text), "failureReason"),
    counts: moving(flag, "counts"),
    billed_as_overage: moving(flag),
    /** The process that gives it to a messenger, since `taken_at`, which whoever takes it writes. */
    runner: moving(nullable(integer)),
    /** What the messenger that took it last calls it. */
    message_id: moving(nullable(text)),
    /** As the newest event showed it. */
    announced: moving(nullable(json<Json>())),
  },
)

export type NudgeRow = RowOf<typeof nudges>
export type NudgeTransition = Transition<typeof nudgeMachine, NudgeRow>

export const nudgeLifecycle: Lifecycle<typeof nudgeMachine, NudgeRow> = {
  kind: "nudge",
  machine: nudgeMachine,
  machineVersion: 1,
  // After everything that subscriptions do at the same instant.
  ranks: { sendLater: 8, sendAgain: 8, receipt: 9, unheard: 9 },
  table: nudges,
}

/**
 * The process that gives a nudge to its messenger. What another one seems to have died over is left alone for longer than a
 * messenger is given to answer: it may have lost no more than its connection, and be about to write down what the
 * messenger said. What is simulated need not wait.
 */
export const nudgeLease: Lease = { name: "nudge", grace: { own: "5 seconds", dead: "20 seconds" } }

export const renderNudge = (row: NudgeRow): typeof Nudge.Type => ({
  id: row.id,
  object: "nudge",
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
