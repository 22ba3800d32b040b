/**
 * When a subscription's customer is reminded by itself, and of what (decisions E6, H4). Pure. The next reminder is a timer
 * of the subscription, rescheduled with everything that moves the day it is counted from.
 */
import { MIN_CHARGE_KOBO, NO_USAGE, totalOf } from "../../../machines/billing.ts"
import { allParamsOf, hasEffect } from "../../../machines/decide.ts"
import type { PlanFacts } from "../../../machines/events.ts"
import { planLines, resumeLines } from "../../../machines/periods.ts"
import { MAX_LATE_MS, type QuietHours, type Reminder, remindersOf, turnOf } from "../../../machines/reminders.ts"
import { isCharging, nextChargeAt } from "../../../machines/status.ts"
import type { About, NudgeRequest } from "../../outbound/nudge/create.ts"
import type { OwnTimers } from "../../runtime/outcome.ts"
import type { PlanTerms } from "../plan/plan.ts"
import { REMINDER, type SubscriptionRow, type SubscriptionTransition, subscriptions } from "./subscription.ts"

/** What a plan says of reminders, and what a reported unit costs on it. */
export type Rules = Pick<PlanTerms, "reminders" | "overage_per_unit_kobo">

/**
 * Whether a charge ahead is reminded of. A plan that is billed by deliveries reminds of none before it is due, of a trial's end neither
 * (decision D8); of a trial that begins later reminders are those of the trial itself (decision H10).
 */
const isRemindedOf = ({ billing_cycle, state, trial_end_at }: SubscriptionRow): boolean =>
  billing_cycle !== "per_delivery" && (state !== "scheduled" || trial_end_at === null)

const scheduleOf = (row: SubscriptionRow, { reminders }: Rules, quiet: QuietHours | null): ReadonlyArray<Reminder> =>
  remindersOf(
    {
      state: row.state,
      since: row.state === "scheduled" ? row.created_at : row.period_start_at,
      nextChargeAt: isRemindedOf(row) ? row.next_charge_at : null,
      firstFailedAt: row.dunning?.firstFailedAt ?? null,
      cancelling: row.cancel_at_period_end,
    },
    reminders,
    quiet,
  )

/** The reminder that a timer due at `at` stands for, as the plan is now; undefined where there is none, or it is too late. */
export const dueReminder = (
  row: SubscriptionRow,
  at: number,
  rules: Rules,
  quiet: QuietHours | null,
  now: number,
): Pick<Reminder, "rule" | "day"> | undefined =>
  now - at > MAX_LATE_MS ? undefined : scheduleOf(row, rules, quiet).find((one) => one.at === at)

/** The timer of the next reminder after the instant `after`; what is too late by `now` is passed over. */
export const nextReminder = (
  row: SubscriptionRow,
  after: number,
  rules: Rules | undefined,
  quiet: QuietHours | null,
  now: number,
): OwnTimers<typeof REMINDER> => {
  const next =
    rules === undefined
      ? undefined
      : scheduleOf(row, rules, quiet).find(({ at }) => at > after && at >= now - MAX_LATE_MS)
  return next === undefined ? { clear: [REMINDER] } : { set: [{ name: REMINDER, dueAt: next.at }] }
}

/**
 * Whether a transition moved what reminders are counted from, or used one up. While an attempt is under way none is set:
 * what comes of it decides.
 */
export const movesReminders = ({ row: before, event, decision, from, to }: SubscriptionTransition): boolean => {
  const { context } = decision.snapshot
  return (
    !isCharging(to) &&
    (event.type === REMINDER ||
      from !== to ||
      before.next_charge_at !== nextChargeAt(to, context) ||
      before.cancel_at_period_end !== context.cancelAtPeriodEnd)
  )
}

/** The timers of the next reminder after a transition that moves it. */
export const remindersAfter = (
  { event }: SubscriptionTransition,
  row: SubscriptionRow,
  rules: Rules | undefined,
  quiet: QuietHours | null,
  now: number,
): OwnTimers<typeof REMINDER> =>
  // One that falls on the instant of the transition itself is still to come, but for the one that has just fired.
  nextReminder(row, event.type === REMINDER ? event.at : event.at - 1, rules, quiet, now)

/** Whether a transition asks for nudges. */
export const asksForNudges = ({ decision }: SubscriptionTransition): boolean =>
  hasEffect(decision, "nudge") || hasEffect(decision, "remind")

/** What a subscription that owes nothing is charged next, and when; null where nothing lies ahead. Units of a trial are free (decision E1). */
const nextOf = (
  row: SubscriptionRow,
  { unitKobo = 0, proRate = false }: PlanFacts,
): Pick<About, "amountKobo" | "dueAt"> => {
  const ends = row.status === "cancelled" || row.cancel_at_period_end
  const lies = row.billing_cycle === "per_delivery" ? !ends : row.next_charge_at !== null
  const context = subscriptions.contextOf(row)
  const usage = row.status === "trialing" ? NO_USAGE : { units: row.units, unitKobo }
  const kobo = totalOf(row.pause === null ? planLines(context, usage) : resumeLines(context, proRate, usage))
  // What is smaller is waived (decision E2).
  return lies && kobo >= MIN_CHARGE_KOBO
    ? { amountKobo: kobo, dueAt: row.next_charge_at }
    : { amountKobo: null, dueAt: null }
}

/** What a nudge says of a subscription: what is owed on it now, else what it is charged next. */
export const aboutOf = (row: SubscriptionRow, facts: PlanFacts): About => ({
  subscriptionId: row.id,
  planId: row.plan_id,
  ...(row.dunning !== null && row.bill !== null
    ? { amountKobo: row.bill.amountKobo, dueAt: null }
    : nextOf(row, facts)),
})

/** The nudges that a transition asks for. */
export const nudgesOf = (
  { event, decision }: SubscriptionTransition,
  row: SubscriptionRow,
  { reminders, overage_per_unit_kobo: unitKobo }: Rules,
  quiet: QuietHours | null,
  now: number,
): ReadonlyArray<NudgeRequest> => {
  if (!reminders.enabled) return []
  const request = {
    account_id: row.account_id,
    livemode: row.livemode,
    customerId: row.customer_id,
    testClockId: row.test_clock_id,
    about: aboutOf(row, { unitKobo: unitKobo ?? 0 }),
    message: null,
    channels: null,
    source: "automatic" as const,
    at: now,
  }
  // Who is leaving is not asked any more for what is overdue: reminders of that are not scheduled either.
  const asked = row.cancel_at_period_end ? [] : allParamsOf(decision, "nudge")
  return [
    // A nudge about an event is due from now on, however late the event is; a reminder is due at its own instant.
    ...asked.map(({ template }) => ({
      ...request,
      template,
      sendAt: turnOf(now, now, quiet),
      reminder: null,
    })),
    ...allParamsOf(decision, "remind").map(({ template, rule, day }) => ({
      ...request,
      template,
      sendAt: turnOf(event.at, now, quiet),
      reminder: { rule, day, of: (rule === "pre_due" ? row.next_charge_at : row.dunning?.firstFailedAt)! },
    })),
  ]
}
