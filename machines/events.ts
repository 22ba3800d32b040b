/** What happens to a subscription, and what it makes happen: the vocabulary of machines/subscription.ts. */
import type { BillingCycle } from "./calendar.ts"
import type { DelayEvent } from "./decide.ts"
import type { DunningPolicy } from "./dunning.ts"
import type { NudgeTemplate } from "./nudge.ts"
import type { Bill, CancellationReason } from "./periods.ts"
import type { Reminder } from "./reminders.ts"

export interface SubscriptionInput {
  readonly at: number
  readonly billingCycle: BillingCycle
  readonly priceKobo: number
  readonly quantity: number
  readonly trialDays: number
  /** The creation instant unless the subscription starts later (decision D3). */
  readonly startAt: number
  /** Whether it starts once its checkout session is completed (decision G2). */
  readonly checkout?: boolean
}

type Timed<T extends string> = { readonly type: T; readonly at: number }

/** What a decision needs to know of the plan as it stands now (decision C3); brought along where it may matter. */
export interface PlanFacts {
  /** What a reported unit costs (kobo). */
  readonly unitKobo?: number
  readonly proRate?: boolean
}

type Timer<Delay extends string, State extends string> = DelayEvent<Delay, `subscription.${State}`> & PlanFacts

export const UNIT_ACTIONS = ["increment", "set"] as const
export type UnitAction = (typeof UNIT_ACTIONS)[number]

export type SubscriptionEvent =
  /** Carries the machine's input, so that the journal alone replays it. */
  | ({ readonly type: "create" } & SubscriptionInput)
  /** `methodId`: the payment method that it was made with, where that was not known before; null: one that cannot be used again. */
  | (Timed<"charge.succeeded"> & { readonly methodId?: string | null })
  /**
   * `attemptedAt`: when the attempt was made; absent: when it was due. `retryNotBefore`: the rail takes no further attempt before; absent:
   * it says nothing of the kind.
   */
  | (Timed<"charge.failed"> & {
      readonly retryable: boolean
      readonly policy: DunningPolicy
      readonly attemptedAt?: number
      readonly retryNotBefore?: number
    } & PlanFacts)
  /** The rail has not decided yet. */
  | Timed<"charge.unsettled">
  | (Timed<"cancel"> & { readonly atPeriodEnd: boolean; readonly reason: CancellationReason } & PlanFacts)
  /** PATCH: what is left out stays as it is (decision E14). */
  | (Timed<"update"> & { readonly quantity?: number; readonly cancelAtPeriodEnd?: boolean } & PlanFacts)
  | (Timed<"pause"> & { readonly resumesAt: number | null; readonly reason: string | null } & PlanFacts)
  | (Timed<"resume"> & PlanFacts)
  /** The buyer has submitted the page of the checkout session: the first payment is made, or the trial begins (decision G2); null: with a method that is not known yet, or cannot be used again. */
  | (Timed<"check_out"> & { readonly methodId: string | null })
  /** The checkout session is over, by time or by request (decision G3). */
  | Timed<"checkout_expired">
  /** The overdue bill is to be tried now, with a payment method named for this once or with the subscription's (null). */
  | (Timed<"retry"> & { readonly methodId: string | null })
  /** A payment method was set (decision E6); null: the subscription's own is the new one. */
  | (Timed<"method"> & { readonly methodId: string | null })
  /** A payment method is gone: it is not to be tried. */
  | (Timed<"method.removed"> & { readonly methodId: string })
  /**
   * An attempt at a bill that was made before the database was put back from a backup, which does not know it (decision F9): the bill as the
   * attempt had it.
   */
  | (Timed<"charge.found"> & { readonly bill: Bill })
  /** Units reported: added to the period's, or put in their place (decision E17). */
  | (Timed<"units"> & { readonly quantity: number; readonly action: UnitAction })
  /** Deliveries made by `deliveredAt`, on a plan that is billed by them (decision D8). */
  | (Timed<"deliver"> & { readonly deliveries: number; readonly deliveredAt: number })
  /** A day of the plan's reminders has come (machines/reminders.ts). */
  | (Timed<"reminder"> & Pick<Reminder, "rule" | "day">)
  | Timer<"start", "scheduled">
  | Timer<"trialWillEnd", "trialing.running">
  | Timer<"trialEnd", "trialing.running">
  | Timer<"periodEnd", "active.current">
  | Timer<"pausedPeriodEnd", "paused">
  | Timer<"resume", "paused">
  | Timer<"nextRetry", "overdue.retrying">
  | Timer<"billPeriodEnd", "overdue">
  | Timer<"unpaidTooLong", "overdue">

/** What a subscription emits, its charges' events among it. */
export const SUBSCRIPTION_EVENT_TYPES = [
  "subscription.created",
  "subscription.trial_will_end",
  "subscription.updated",
  "subscription.renewed",
  "subscription.past_due",
  "subscription.recovered",
  "subscription.escalated",
  "subscription.paused",
  "subscription.resumed",
  "subscription.cancelled",
  "charge.succeeded",
  "charge.failed",
  "charge.retry_scheduled",
] as const

export type SubscriptionEventType = (typeof SUBSCRIPTION_EVENT_TYPES)[number]

/** What an automatic nudge is about. */
export type AutomaticTemplate = Exclude<NudgeTemplate, "custom">

/** What the bill does in the books; amounts come from its lines (`src/ledger/postings.ts`). */
export type Posting = "paid" | "owed" | "overdue_paid" | "written_off" | "waived"

/** Why a period is not served to its end, or not by the calendar; what that does in the books: src/billing/subscription/postings.ts. */
export type ServiceEndReason = "cancelled" | "paused" | "escalated" | "delivered"

export interface ServiceEnd {
  readonly reason: ServiceEndReason
  readonly at: number
  /** What of the period's price is credited when service goes on (kobo). */
  readonly creditKobo: number
}

export interface Settlement {
  readonly willRetry: boolean
  readonly nextRetryAt: number | null
  readonly refundDue: boolean
}
