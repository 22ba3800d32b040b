/**
 * Reminding customers by itself (decisions E6, H4). The next reminder of a subscription is a timer of it, planned anew with
 * everything that moves the day it is counted from; the plan's rules are read when they are needed.
 */
import { Effect, Schedule } from "effect"
import { SqlClient } from "effect/sql"
import type { Fragment } from "effect/sql/Statement"
import {
  afterQuiet,
  isReminding,
  type QuietHours,
  type Reminder,
  type ReminderRules,
  remindersOf,
} from "../../machines/reminders.ts"
import { isCharging } from "../../machines/status.ts"
import type { Reminded } from "../../machines/subscription_setup.ts"
import { REF_COLUMNS, records } from "../db/records.ts"
import type { Ref, Tenant } from "../db/tenant.ts"
import type { OtherTimers } from "../lifecycle/commit.ts"
import type { About, Wanted } from "../nudge/make.ts"
import { Nudging } from "../nudge/Nudging.ts"
import { HOUR_MS } from "../time.ts"
import type { TimerRow } from "../timers/rows.ts"
import { orElseUnlessStopped } from "../timers/TimerWorker.ts"
import { Wakeups } from "../timers/Wakeups.ts"
import type { SubscriptionTransition } from "./commit.ts"
import type { SubscriptionRow } from "./rows.ts"

/** The timer's name, and the event that it fires. */
export const REMINDER = "reminder"
/** After everything else that a subscription does at the same instant (decision E19). */
const RANK = 7
/** What an outage held up for longer is not sent any more. */
const MOST_LATE_MS = HOUR_MS

interface Rules {
  readonly reminders: ReminderRules
  readonly unitKobo: number | null
}

/** What the plans of these subscriptions say about reminders, by plan ID. */
export const readRules = (rows: ReadonlyArray<SubscriptionRow>) =>
  Effect.gen(function* () {
    const plans = new Map(rows.map(({ account_id, livemode, plan_id: id }) => [id, { account_id, livemode, id }]))
    if (plans.size === 0) return new Map<string, Rules>()
    const sql = yield* SqlClient.SqlClient
    const found = yield* sql<{ id: string; reminders: ReminderRules; overage_per_unit_kobo: number | null }>`
      SELECT p.id, p.reminders, p.overage_per_unit_kobo
      FROM ${records(sql, [...plans.values()], REF_COLUMNS)} r
      JOIN plan p ON (p.account_id, p.livemode, p.id) = (r.account_id, r.livemode, r.id)`
    return new Map(
      found.map(({ id, reminders, overage_per_unit_kobo: unitKobo }): [string, Rules] => [id, { reminders, unitKobo }]),
    )
  })

/** The quiet hours of an environment: the sandbox has none. */
const quietHours = Effect.map(
  Nudging,
  (nudging) =>
    ({ livemode }: Tenant): QuietHours | null =>
      livemode ? nudging.quietHours : null,
)

const schedule = (row: SubscriptionRow, { reminders }: Rules, quiet: QuietHours | null): ReadonlyArray<Reminder> =>
  remindersOf(
    {
      state: row.state,
      periodStart: row.period_start_at,
      nextChargeAt: row.next_charge_at,
      firstFailedAt: row.dunning?.firstFailedAt ?? null,
      cancelling: row.cancel_at_period_end,
    },
    reminders,
    quiet,
  )

/** What a nudge says of a subscription: what is owed on it now, else what it is charged next. */
export const aboutOf = (row: SubscriptionRow, unitKobo: number | null): About => {
  const overdue = row.dunning !== null && row.bill !== null
  const units = row.status === "trialing" ? 0 : row.units * (unitKobo ?? 0)
  return {
    subscriptionId: row.id,
    planId: row.plan_id,
    amountKobo: overdue ? row.bill.amountKobo : row.price_kobo * row.quantity + units,
    dueAt: overdue ? null : row.next_charge_at,
  }
}

const timer = (row: SubscriptionRow, dueAt: number): TimerRow => ({
  account_id: row.account_id,
  livemode: row.livemode,
  actor_id: row.id,
  name: REMINDER,
  actor_kind: "subscription",
  generation: row.version,
  due_at: dueAt,
  rank: RANK,
  event: REMINDER,
  test_clock_id: row.test_clock_id,
})

/** The timers of subscriptions' next reminders, the first that is not before `from`. */
const plan = (
  rows: ReadonlyArray<{ readonly row: SubscriptionRow; readonly from: number }>,
  rules: ReadonlyMap<string, Rules>,
): Effect.Effect<OtherTimers, never, Nudging> =>
  Effect.gen(function* () {
    const quietOf = yield* quietHours
    const set: Array<TimerRow> = []
    const clear: Array<{ account_id: string; livemode: boolean; actor_id: string; name: string }> = []
    for (const { row, from } of rows) {
      const rule = rules.get(row.plan_id)
      const next = rule === undefined ? undefined : schedule(row, rule, quietOf(row)).find(({ at }) => at >= from)
      if (next !== undefined) set.push(timer(row, next.at))
      else clear.push({ account_id: row.account_id, livemode: row.livemode, actor_id: row.id, name: REMINDER })
    }
    return { set, clear }
  })

/**
 * Whether a transition moved what reminders are counted from, or used one up. While an attempt is under way nothing is
 * planned: what comes of it decides.
 */
const movesReminders = ({ row: before, event, to }: SubscriptionTransition, row: SubscriptionRow): boolean =>
  !isCharging(to) &&
  (event.type === REMINDER ||
    before.state !== to ||
    before.next_charge_at !== row.next_charge_at ||
    before.cancel_at_period_end !== row.cancel_at_period_end)

interface Moved {
  readonly transition: SubscriptionTransition
  readonly row: SubscriptionRow
}

/** The nudges that a transition asks for. */
const wantedBy = (
  { transition, row }: Moved,
  { reminders, unitKobo }: Rules,
  quiet: QuietHours | null,
  now: number,
): ReadonlyArray<Wanted> => {
  // Somebody who is leaving is not asked any more.
  if (!reminders.enabled || row.cancel_at_period_end) return []
  const sendAt = afterQuiet(now, quiet)
  const about = aboutOf(row, unitKobo)
  return transition.decision.effects
    .filter(({ type }) => type === "nudge" || type === "remind")
    .map(({ type, params }): Wanted => {
      // What both effects carry; only `remind` has a day.
      const { template, rule, day } = params as unknown as Reminded
      const of = (rule === "pre_due" ? row.next_charge_at : row.dunning?.firstFailedAt)!
      return {
        account_id: row.account_id,
        livemode: row.livemode,
        customerId: row.customer_id,
        testClockId: row.test_clock_id,
        about,
        template,
        message: null,
        channels: null,
        source: "automatic",
        reminder: type === "remind" ? { rule, day, of } : null,
        sendAt: sendAt > now ? sendAt : null,
        at: now,
      }
    })
}

/** What transitions mean for reminders: the timers of the next ones, and the nudges that are to be made now. */
export const reminding = (moved: ReadonlyArray<Moved>, now: number) =>
  Effect.gen(function* () {
    const moving = moved.filter(({ transition, row }) => movesReminders(transition, row))
    const asking = moved.filter(({ transition }) =>
      transition.decision.effects.some(({ type }) => type === "nudge" || type === "remind"),
    )
    const needed = new Map(
      [...moving.filter(({ row }) => isReminding(row.state)), ...asking].map((one) => [one.row.id, one.row]),
    )
    const rules = yield* readRules([...needed.values()])
    const timers = yield* plan(
      moving.map(({ transition: { event }, row }) => ({
        row,
        from: Math.max(event.type === REMINDER ? event.at + 1 : event.at, now - MOST_LATE_MS),
      })),
      rules,
    )
    const quietOf = yield* quietHours
    const wanted = asking.flatMap((one) => wantedBy(one, rules.get(one.row.plan_id)!, quietOf(one.row), now))
    return { timers, wanted }
  })

/** A subscription whose reminder timer is due. */
interface Due {
  readonly row: SubscriptionRow
  readonly at: number
}

/**
 * Which reminders the timers stand for, by subscription ID, as the plans are now: none where the plan changed, or an outage
 * held it up for too long. For these the timer of the next one is answered.
 */
export const dueReminders = (due: ReadonlyArray<Due>, now: number) =>
  Effect.gen(function* () {
    const rules = yield* readRules(due.map(({ row }) => row))
    const quietOf = yield* quietHours
    const found = new Map<string, Pick<Reminder, "rule" | "day">>()
    for (const { row, at } of due) {
      const reminder = schedule(row, rules.get(row.plan_id)!, quietOf(row)).find((one) => one.at === at)
      if (reminder !== undefined && now - at <= MOST_LATE_MS)
        found.set(row.id, { rule: reminder.rule, day: reminder.day })
    }
    const over = due.filter(({ row }) => !found.has(row.id))
    const timers = yield* plan(
      over.map(({ row, at }) => ({ row, from: Math.max(at + 1, now - MOST_LATE_MS) })),
      rules,
    )
    return { found, timers }
  })

/** Subscriptions planned anew in one transaction. */
const PLANNED_AT_ONCE = 1_000
const LOOK_EVERY_MS = 1_000

/**
 * Has subscriptions planned anew: their reminders' timers fire at once, each by its own clock, and find what is next. One
 * that is due already stays so. `which` is about the subscription `s`, `order` what is taken of them.
 */
const planSome = (which: Fragment, order: Fragment) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    // Locked like everybody does who sets their timers: clocks first.
    const rows = yield* sql<{ id: string }>`
      INSERT INTO timer (account_id, livemode, actor_id, name, actor_kind, generation, due_at, rank, event, test_clock_id)
      SELECT s.account_id, s.livemode, s.id, ${REMINDER}, 'subscription', s.version, s.now, ${RANK}::smallint, ${REMINDER}, s.test_clock_id
      FROM (
        SELECT s.account_id, s.livemode, s.id, s.version, s.test_clock_id, coalesce(k.frozen_at, now()) AS now
        FROM subscription s LEFT JOIN test_clock k ON (k.account_id, k.livemode, k.id) = (s.account_id, s.livemode, s.test_clock_id)
        WHERE s.status <> 'cancelled' AND ${which} ORDER BY ${order} FOR UPDATE OF s
      ) s
      ON CONFLICT (account_id, livemode, actor_id, name) DO UPDATE SET due_at = least(timer.due_at, excluded.due_at)
      RETURNING actor_id AS id`
    return rows.map(({ id }) => id).sort()
  })

/**
 * Told that a plan's rules for reminders changed. What stands on clocks follows at once, so that nothing moves before; the
 * rest, which may be many, is left to the worker.
 */
export const planAnew = (tenant: Tenant, planId: string) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const mine = sql`s.account_id = ${tenant.account_id} AND s.livemode = ${tenant.livemode} AND s.plan_id = ${planId}`
    const onClocks = sql`${mine} AND s.test_clock_id IS NOT NULL`
    yield* sql`
      SELECT 1 FROM test_clock k WHERE account_id = ${tenant.account_id} AND livemode = ${tenant.livemode}
        AND id IN (SELECT s.test_clock_id FROM subscription s WHERE ${onClocks}) ORDER BY id FOR SHARE`
    yield* planSome(onClocks, sql`s.id`)
    yield* sql`
      UPDATE plan SET reminders_planned_to = '' WHERE account_id = ${tenant.account_id} AND livemode = ${tenant.livemode} AND id = ${planId}`
  })

interface Changed extends Ref {
  readonly reminders_planned_to: string
}

/** Plans the next subscriptions of a plan whose rules changed; answers whether there was one. */
const planNext = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const wakeups = yield* Wakeups
  return yield* sql.withTransaction(
    Effect.gen(function* () {
      const [plan] = yield* sql<Changed>`
        SELECT account_id, livemode, id, reminders_planned_to FROM plan WHERE reminders_planned_to IS NOT NULL LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED`
      if (plan === undefined) return false
      const { account_id, livemode, id, reminders_planned_to: from } = plan
      const planned = yield* planSome(
        sql`s.plan_id = ${id} AND s.account_id = ${account_id} AND s.livemode = ${livemode} AND s.test_clock_id IS NULL AND s.id > ${from}`,
        sql`s.id LIMIT ${PLANNED_AT_ONCE}`,
      )
      const to = planned.length < PLANNED_AT_ONCE ? null : planned.at(-1)!
      yield* sql`UPDATE plan SET reminders_planned_to = ${to} WHERE account_id = ${account_id} AND livemode = ${livemode} AND id = ${id}`
      yield* wakeups.at([Date.now()])
      return true
    }),
  )
})

/** Lets subscriptions follow their plans' rules for as long as the scope is open. */
export const reminderWorker = Effect.forkScoped(
  Effect.repeat(
    Effect.repeat(planNext, { while: (found) => found }).pipe(
      orElseUnlessStopped((cause) => Effect.logError("reminders", cause)),
    ),
    Schedule.spaced(LOOK_EVERY_MS),
  ),
)
