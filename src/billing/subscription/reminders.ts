/**
 * Decides when a subscription's customer is reminded automatically, and of what (decisions E6, H4). Pure. The next reminder is a timer of
 * the subscription. Every change of the day that it is counted from reschedules it.
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

/** A plan's reminder rules, and its price of a reported unit. */
export type Rules = Pick<PlanTerms, "reminders" | "overage_per_unit_kobo">

/**
 * Whether the next charge has reminders. On a plan billed by deliveries none come before it is due, nor before a trial's end (decision D8).
 * A trial that begins later has only the trial's own reminders (decision H10).
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

/** Returns the reminder of a timer due at `at`, by the plan's current rules; undefined if there is none, or it is too late. */
export const dueReminder = (
  row: SubscriptionRow,
  at: number,
  rules: Rules,
  quiet: QuietHours | null,
  now: number,
): Pick<Reminder, "rule" | "day"> | undefined =>
  now - at > MAX_LATE_MS ? undefined : scheduleOf(row, rules, quiet).find((one) => one.at === at)

/** Sets the timer of the next reminder after the instant `after`; skips reminders that are too late by `now`. */
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
 * Whether a transition changes the days that reminders are counted from, or uses a reminder up. None is set during an attempt: its result
 * decides.
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
  // A reminder at the transition's own instant is still due, unless it has just fired.
  nextReminder(row, event.type === REMINDER ? event.at : event.at - 1, rules, quiet, now)

/** Whether a transition asks for nudges. */
export const asksForNudges = ({ decision }: SubscriptionTransition): boolean =>
  hasEffect(decision, "nudge") || hasEffect(decision, "remind")

/** The next charge of a subscription that owes nothing, and its due time; null if there is none. Trial units are free (decision E1). */
const nextOf = (
  row: SubscriptionRow,
  { unitKobo = 0, proRate = false }: PlanFacts,
): Pick<About, "amountKobo" | "dueAt"> => {
  const ends = row.status === "cancelled" || row.cancel_at_period_end
  const hasNext = row.billing_cycle === "per_delivery" ? !ends : row.next_charge_at !== null
  const context = subscriptions.contextOf(row)
  const usage = row.status === "trialing" ? NO_USAGE : { units: row.units, unitKobo }
  const kobo = totalOf(row.pause === null ? planLines(context, usage) : resumeLines(context, proRate, usage))
  // Smaller amounts are waived (decision E2).
  return hasNext && kobo >= MIN_CHARGE_KOBO
    ? { amountKobo: kobo, dueAt: row.next_charge_at }
    : { amountKobo: null, dueAt: null }
}

/** The facts that a nudge gives about a subscription: the amount owed now, else the next charge. */
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
  // A customer who is leaving gets no nudges about overdue bills, and no reminders of them.
  const overdueNudges = row.cancel_at_period_end ? [] : allParamsOf(decision, "nudge")
  return [
    // A nudge about an event is due now, however late the event is; a reminder is due at its own instant.
    ...overdueNudges.map(({ template }) => ({
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
