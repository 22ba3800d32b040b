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
} from "../../../machines/nudge.ts"
import { REMINDER_RULES } from "../../../machines/reminders.ts"
import type { Json } from "../../base/json.ts"
import { formatInstant, formatInstantOrNull } from "../../base/time.ts"
import * as Kind from "../../db/columns.ts"
import { actorTable, columnsOf, type RowOf } from "../../db/table.ts"
import { commonOf } from "../../http/response.ts"
import type { Lease } from "../../process/lease.ts"
import type { Lifecycle, Transition } from "../../runtime/lifecycle.ts"
import { NUDGE_SOURCES, type Nudge } from "./api.ts"
import type { Worded } from "./messages.ts"

const { fixed, moving } = columnsOf<NudgeContext>()

export const nudges = actorTable<NudgeContext>()(
  "nudge",
  {
    noun: "nudge",
    ids: "nudge",
    once: "(subscription_id, reminder_of, reminder_rule, reminder_day, account_id, livemode) WHERE reminder_rule IS NOT NULL",
  },
  {
    customer_id: fixed(Kind.text),
    subscription_id: fixed(Kind.nullable(Kind.text)),
    instalment_plan_id: fixed(Kind.nullable(Kind.text)),
    test_clock_id: fixed(Kind.nullable(Kind.text)),
    source: fixed(Kind.oneOf(NUDGE_SOURCES)),
    template: fixed(Kind.oneOf(NUDGE_TEMPLATES)),
    reminder_rule: fixed(Kind.nullable(Kind.oneOf(REMINDER_RULES))),
    reminder_day: fixed(Kind.nullable(Kind.smallint)),
    reminder_of: fixed(Kind.nullable(Kind.instant)),
    contacts: fixed(Kind.json<Readonly<Partial<Record<Channel, string>>>>()),
    message: fixed(Kind.json<Worded>()),
    link_token_hash: fixed(Kind.nullable(Kind.text)),
    created_at: fixed(Kind.instant),
    channels: fixed(Kind.someOf(CHANNELS), "channels"),
    status: moving(Kind.oneOf(NUDGE_STATUSES), nudgeStatusOf),
    /** The one tried now or last; of a nudge that reaches nobody, the one preferred. */
    channel: moving(Kind.oneOf(CHANNELS)),
    position: moving(Kind.smallint, "position"),
    tries: moving(Kind.smallint, "tries"),
    attempts: moving(Kind.json<ReadonlyArray<NudgeAttempt>>(), "attempts"),
    send_at: moving(Kind.nullable(Kind.instant), "sendAt"),
    sent_at: moving(Kind.nullable(Kind.instant), "sentAt"),
    delivered_at: moving(Kind.nullable(Kind.instant), "deliveredAt"),
    receipt_at: moving(Kind.nullable(Kind.instant), "receiptAt"),
    failure_reason: moving(Kind.nullable(Kind.text), "failureReason"),
    counts: moving(Kind.flag, "counts"),
    billed_as_overage: moving(Kind.flag),
    /** The process that gives it to a messenger, since `taken_at`, which whoever takes it writes. */
    runner: moving(Kind.nullable(Kind.integer)),
    /** What the messenger that took it last calls it. */
    message_id: moving(Kind.nullable(Kind.text)),
    /** As the newest event showed it. */
    announced: moving(Kind.nullable(Kind.json<Json>())),
  },
)

export type NudgeRow = RowOf<typeof nudges>
export type NudgeTransition = Transition<typeof nudgeMachine, NudgeRow>

export const nudgeLifecycle: Lifecycle<typeof nudgeMachine, NudgeRow> = {
  kind: "nudge",
  machine: nudgeMachine,
  machineVersion: 2,
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
