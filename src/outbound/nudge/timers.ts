/** Handles due timers of nudges. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import type { nudgeMachine } from "../../../machines/nudge.ts"
import type { NowOf } from "../../base/time.ts"
import { REF_COLUMNS, rowsAsTable } from "../../db/rows.ts"
import { type Due, timerHandler } from "../../runtime/fire.ts"
import { type NudgeRow, nudgeLifecycle } from "./nudge.ts"
import { type NudgeCommand, transitionNudges } from "./transition.ts"

/**
 * Returns the nudges that waited through the quiet hours and are obsolete: the subscription was charged, paid or set to
 * cancel; or the instalment plan was paid or has ended.
 */
const findObsolete = Effect.fnUntraced(function* (rows: ReadonlyArray<NudgeRow>) {
  const waiting = rows.filter(
    ({ state, subscription_id, instalment_plan_id }) =>
      state === "waiting" && (subscription_id !== null || instalment_plan_id !== null),
  )
  if (waiting.length === 0) return new Set<string>()
  const sql = yield* SqlClient.SqlClient
  const obsolete = yield* sql<{ id: string }>`
    SELECT n.id FROM ${rowsAsTable(waiting, REF_COLUMNS)} r
    JOIN nudge n ON (n.account_id, n.livemode, n.id) = (r.account_id, r.livemode, r.id)
    JOIN subscription s ON (s.account_id, s.livemode, s.id) = (n.account_id, n.livemode, n.subscription_id)
    WHERE NOT CASE n.template
        WHEN 'payment_due' THEN s.status IN ('incomplete', 'trialing', 'active') AND s.next_charge_at = n.reminder_of AND s.next_charge_at > now()
        WHEN 'service_paused' THEN NOT s.cancel_at_period_end AND s.status = 'paused' AND s.escalation IS NOT NULL
        ELSE NOT s.cancel_at_period_end AND s.dunning IS NOT NULL END
    UNION ALL
    SELECT n.id FROM ${rowsAsTable(waiting, REF_COLUMNS)} r
    JOIN nudge n ON (n.account_id, n.livemode, n.id) = (r.account_id, r.livemode, r.id)
    JOIN instalment_plan p ON (p.account_id, p.livemode, p.id) = (n.account_id, n.livemode, n.instalment_plan_id)
    WHERE p.status NOT IN ('active', 'overdue') OR p.charge_settled_at > n.created_at OR (n.reminder_rule = 'post_due' AND p.status <> 'overdue')`
  return new Set(obsolete.map(({ id }) => id))
})

export const nudgeTimers = timerHandler(
  nudgeLifecycle,
  Effect.fnUntraced(function* (due: ReadonlyArray<Due<typeof nudgeMachine, NudgeRow>>, nowOf: NowOf) {
    const obsolete = yield* findObsolete(due.map(({ row }) => row))
    const commands = due.map(
      ({ row, event }): NudgeCommand =>
        obsolete.has(row.id) ? { row, event: { type: "withdraw", at: event.at } } : { row, event },
    )
    yield* transitionNudges(commands, nowOf)
    return Effect.void
  }),
)
