/** The events that a subscription receives and emits: the vocabulary of machines/subscription.ts. */
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
  /** Whether it starts when its checkout session is completed (decision G2). */
  readonly checkout?: boolean
}

type Timed<T extends string> = { readonly type: T; readonly at: number }

/** The current facts of the plan that a decision needs (decision C3); events that may need them carry them. */
export interface PlanFacts {
  /** The price of a reported unit (kobo). */
  readonly unitKobo?: number
  readonly proRate?: boolean
}

type Timer<Delay extends string, State extends string> = DelayEvent<Delay, `subscription.${State}`> & PlanFacts

export const UNIT_ACTIONS = ["increment", "set"] as const
export type UnitAction = (typeof UNIT_ACTIONS)[number]

export type SubscriptionEvent =
  /** Carries the machine's input, so that the journal alone replays it. */
  | ({ readonly type: "create" } & SubscriptionInput)
  /** `methodId`: the payment method of the charge, if it was not known before; null: one that cannot be used again. */
  | (Timed<"charge.succeeded"> & { readonly methodId?: string | null })
  /**
   * `attemptedAt`: when the attempt was made; absent: when it was due. `retryNotBefore`: the rail takes no further attempt before this; absent:
   * no limit.
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
  /** PATCH: absent fields stay unchanged (decision E14). */
  | (Timed<"update"> & { readonly quantity?: number; readonly cancelAtPeriodEnd?: boolean } & PlanFacts)
  | (Timed<"pause"> & { readonly resumesAt: number | null; readonly reason: string | null } & PlanFacts)
  | (Timed<"resume"> & PlanFacts)
  /** The buyer has submitted the checkout page: the first payment is made, or the trial starts (decision G2). `methodId` null: the method is not known yet, or cannot be used again. */
  | (Timed<"check_out"> & { readonly methodId: string | null })
  /** The checkout session has expired, by time or by request (decision G3). */
  | Timed<"checkout_expired">
  /** Try the overdue bill now, with a payment method for this attempt only, or with the subscription's (null). */
  | (Timed<"retry"> & { readonly methodId: string | null })
  /** A payment method was set (decision E6). `methodId` null: the subscription's own method changed. */
  | (Timed<"method"> & { readonly methodId: string | null })
  /** A payment method was removed: it must not be used. */
  | (Timed<"method.removed"> & { readonly methodId: string })
  /**
   * An attempt at a bill, made before the database was restored from a backup that does not have it (decision F9): the bill as the attempt
   * had it.
   */
  | (Timed<"charge.found"> & { readonly bill: Bill })
  /** Units reported: they add to the period's units, or replace them (decision E17). */
  | (Timed<"units"> & { readonly quantity: number; readonly action: UnitAction })
  /** Deliveries made by `deliveredAt`, on a plan that bills deliveries (decision D8). */
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

/** The events that a subscription emits, including those of its charges. */
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

/** The templates of automatic nudges. */
export type AutomaticTemplate = Exclude<NudgeTemplate, "custom">

/** How a bill is posted; amounts come from its lines (`src/ledger/postings.ts`). */
export type Posting = "paid" | "owed" | "overdue_paid" | "written_off" | "waived"

/** Why service of a period ends early, or outside the calendar; its postings: src/billing/subscription/postings.ts. */
export type ServiceEndReason = "cancelled" | "paused" | "escalated" | "delivered"

export interface ServiceEnd {
  readonly reason: ServiceEndReason
  readonly at: number
  /** The part of the period's price that is credited when service continues (kobo). */
  readonly creditKobo: number
}

export interface Settlement {
  readonly willRetry: boolean
  readonly nextRetryAt: number | null
  readonly refundDue: boolean
}
