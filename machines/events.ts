/** What happens to a subscription, and what it makes happen: the vocabulary of machines/subscription.ts. */
import type { BillingCycle } from "./calendar.ts"
import type { DunningPolicy } from "./dunning.ts"
import type { CancellationReason } from "./periods.ts"

export interface SubscriptionInput {
  readonly at: number
  readonly billingCycle: BillingCycle
  readonly priceKobo: number
  readonly quantity: number
  readonly trialDays: number
  /** The creation instant unless the subscription starts later (decision D3). */
  readonly startAt: number
}

type Timed<T extends string> = { readonly type: T; readonly at: number }
/** A timer's event; where units wait to be billed the runtime adds what one costs now (kobo). */
type Timer<Delay extends string, State extends string> = Timed<`xstate.after.${Delay}.subscription.${State}`> & {
  readonly unitKobo?: number
}

export type SubscriptionEvent =
  | Timed<"create">
  | Timed<"charge.succeeded">
  | (Timed<"charge.failed"> & { readonly retryable: boolean; readonly policy: DunningPolicy })
  /** The rail has not decided yet. */
  | Timed<"charge.unsettled">
  | (Timed<"cancel"> & { readonly atPeriodEnd: boolean; readonly reason: CancellationReason })
  | Timed<"keep">
  /** Units reported: added to the period's, or put in their place (decision E17). */
  | (Timed<"units"> & { readonly quantity: number; readonly action: "increment" | "set" })
  | Timer<"start", "scheduled">
  | Timer<"trialWillEnd", "trialing.running">
  | Timer<"trialEnd", "trialing.running">
  | Timer<"periodEnd", "active.current">
  | Timer<"nextRetry", "overdue.retrying">
  | Timer<"billPeriodEnd", "overdue">
  | Timer<"unpaidTooLong", "overdue">

export type SubscriptionEventType =
  | "subscription.created"
  | "subscription.trial_will_end"
  | "subscription.updated"
  | "subscription.renewed"
  | "subscription.past_due"
  | "subscription.recovered"
  | "subscription.escalated"
  | "subscription.paused"
  | "subscription.resumed"
  | "subscription.cancelled"
  | "charge.succeeded"
  | "charge.failed"
  | "charge.retry_scheduled"

/** What the bill does in the books; amounts come from its lines (`src/ledger/postings.ts`). */
export type Posting = "paid" | "owed" | "overdue_paid" | "written_off"

export interface Settlement {
  readonly willRetry: boolean
  readonly nextRetryAt: number | null
  readonly refundDue: boolean
}
