/** Reschedules the reminders of subscriptions when their plan's reminder rules change (decision C3). */
import { Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import type { Fragment } from "effect/sql/Statement"
import { SECOND_MS } from "../../base/time.ts"
import { currentTime } from "../../base/wallClock.ts"
import { roundRobin } from "../../concurrency/roundRobin.ts"
import { REF_COLUMNS, rowsAsTable } from "../../db/rows.ts"
import { isRef, ofTenant, type Ref, staysHere, type Tenant } from "../../db/tenant.ts"
import { unitOfWork } from "../../db/UnitOfWork.ts"
import { isLockTimeout, withLockTimeout } from "../../postgres/lockWait.ts"
import { every } from "../../process/workers.ts"
import { noteTimers } from "../../runtime/commit.ts"
import { wakeAt } from "../../runtime/Wakeups.ts"
import { clockTimeSql } from "../clock/clocks.ts"
import { RemindersFollow } from "../plan/RemindersFollow.ts"
import { REMINDER, subscriptionLifecycle } from "./subscription.ts"

/** Limit of subscriptions rescheduled in one transaction. */
const MAX_BATCH = 1_000
const LOOK_EVERY_MS = SECOND_MS

/**
 * Reschedules the reminders of subscriptions: their timers fire now, each on its own clock, and set the next reminder. A timer that is
 * already due stays so. `which`: a condition on the subscription `s`; `order`: their order and limit.
 */
const rescheduleSome = Effect.fnUntraced(function* (which: Fragment, order: Fragment) {
  const sql = yield* SqlClient.SqlClient
  const rank = subscriptionLifecycle.ranks[REMINDER]
  // The lock order of all code that sets these timers: clocks first.
  const locked = yield* sql<Ref>`
    SELECT s.account_id, s.livemode, s.id FROM subscription s WHERE s.status <> 'cancelled' AND ${which} ORDER BY ${order} FOR UPDATE`
  if (locked.length === 0) return []
  const set = yield* sql<{ actor_id: string; name: string; due_at: number }>`
    INSERT INTO timer (account_id, livemode, actor_id, name, actor_kind, generation, due_at, rank, event, test_clock_id, customer_id)
    SELECT s.account_id, s.livemode, s.id, ${REMINDER}, 'subscription', s.version, s.now, ${rank}::smallint, ${REMINDER}, s.test_clock_id, CASE WHEN s.test_clock_id IS NOT NULL THEN s.customer_id END
    FROM (
      SELECT s.account_id, s.livemode, s.id, s.version, s.test_clock_id, s.customer_id, coalesce(${clockTimeSql(sql, "s", "k")}, now()) AS now
      FROM ${rowsAsTable(locked, REF_COLUMNS)} r
      JOIN subscription s ON (s.account_id, s.livemode, s.id) = (r.account_id, r.livemode, r.id)
      LEFT JOIN test_clock k ON (k.account_id, k.livemode, k.id) = (s.account_id, s.livemode, s.test_clock_id)
    ) s
    ON CONFLICT (account_id, livemode, actor_id, name) DO UPDATE SET due_at = least(timer.due_at, excluded.due_at)
    RETURNING actor_id, name, due_at`
  noteTimers(yield* unitOfWork, [...set])
  return locked.map(({ id }) => id).sort()
})

/**
 * Reschedules the reminders of a plan's subscriptions. Those on clocks follow immediately, before their clocks advance. The rest, which may
 * be many, are left to the worker.
 */
const rescheduleReminders = Effect.fn("subscription.rescheduleReminders")(function* (tenant: Tenant, planId: string) {
  const sql = yield* SqlClient.SqlClient
  const onClocks = sql`${ofTenant(sql, tenant, "s")} AND s.plan_id = ${planId} AND s.test_clock_id IS NOT NULL`
  yield* sql`
    SELECT 1 FROM test_clock k WHERE ${ofTenant(sql, tenant)}
      AND id IN (SELECT s.test_clock_id FROM subscription s WHERE ${onClocks}) ORDER BY id FOR SHARE`
  yield* rescheduleSome(onClocks, sql`s.id`)
  yield* sql`UPDATE plan SET reminders_rescheduled_to = '' WHERE ${isRef(sql, { ...tenant, id: planId })}`
})

export const remindersFollowLayer = Layer.succeed(RemindersFollow, { reschedule: rescheduleReminders })

interface ChangedPlan extends Ref {
  readonly reminders_rescheduled_to: string
}

/**
 * Creates an effect that reschedules the next subscriptions of a plan whose rules changed, and returns whether there was one. It takes
 * accounts in turn, and of an account's plans the one that has waited longest. A plan that changes again in the meantime starts over,
 * without delaying other plans.
 */
export const rescheduleNext = (maxBatch = MAX_BATCH) => {
  const nextTurn = roundRobin()
  const work = Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const plan = yield* nextTurn(
      (account) => sql<ChangedPlan>`
        SELECT account_id, livemode, id, reminders_rescheduled_to FROM plan p
        WHERE reminders_rescheduled_to IS NOT NULL AND account_id > ${account} AND ${staysHere(sql, "p")}
        ORDER BY account_id, reminders_turn_at NULLS FIRST LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED`,
    )
    if (plan === undefined) return false
    const rescheduled = yield* rescheduleSome(
      sql`s.plan_id = ${plan.id} AND ${ofTenant(sql, plan, "s")} AND s.test_clock_id IS NULL AND s.id > ${plan.reminders_rescheduled_to}`,
      sql`s.id LIMIT ${maxBatch}`,
    )
    const to = rescheduled.length < maxBatch ? null : rescheduled.at(-1)!
    yield* sql`
      UPDATE plan SET reminders_rescheduled_to = ${to}, reminders_turn_at = clock_timestamp() WHERE ${isRef(sql, plan)}`
    wakeAt(yield* unitOfWork, [currentTime()])
    return true
  })
  // If another transaction has locked a subscription, the next account has its turn.
  return Effect.catchIf(withLockTimeout(work), isLockTimeout, () => Effect.succeed(false))
}

/** Reschedules reminders after changes of plans' rules, for as long as the scope is open. */
export const reminderWorker = every(
  "reminders",
  LOOK_EVERY_MS,
  Effect.repeat(rescheduleNext(), { while: (found) => found }),
)
