/** What a subscription knows, and the arithmetic of its periods and bills (decisions D2, D4, D7, E1). */
import { type Line, periodLines, totalOf, type Usage } from "./billing.ts"
import { type BillingCycle, boundary, DAY_MS } from "./calendar.ts"
import type { Dunning, EscalationAction } from "./dunning.ts"

export type CancellationReason = "customer_request" | "merchant_request" | "nonpayment" | "checkout_expired" | "other"
export type BillPurpose = "first" | "trial_end" | "renewal"

/** What is to be paid for one period, over as many attempts as it takes. */
export interface Bill {
  /** Counts the subscription's bills from 1. */
  readonly no: number
  readonly purpose: BillPurpose
  readonly periodStart: number
  readonly periodEnd: number
  readonly lines: ReadonlyArray<Line>
  readonly amountKobo: number
  /** Number of the newest attempt, from 1 (decision E4). */
  readonly attempt: number
  /** When that attempt was due. */
  readonly attemptedAt: number
  /** Whether it was one of the schedule's retries. */
  readonly automaticRetry: boolean
}

export interface SubscriptionContext {
  readonly billingCycle: BillingCycle
  readonly priceKobo: number
  readonly quantity: number
  readonly startAt: number
  readonly trialEnd: number | null
  /** The grid of periods: boundary n = anchor + n cycles. */
  readonly anchorAt: number
  /** The current period is [boundary n, boundary n + 1]; -1 before the first paid one. */
  readonly periodNo: number
  readonly periodStart: number
  readonly periodEnd: number
  /** Units reported and not billed yet (decisions E1, E18). */
  readonly units: number
  readonly cancelAtPeriodEnd: boolean
  /** Why it will be cancelled at period end. */
  readonly cancelReason: CancellationReason | null
  readonly billsMade: number
  /** The unpaid bill, while there is one. */
  readonly bill: Bill | null
  readonly dunning: Dunning | null
  readonly escalation: { readonly action: EscalationAction; readonly triggeredAt: number } | null
  readonly cancelledAt: number | null
  readonly cancellationReason: CancellationReason | null
}

/** A trial's last reminder goes out this long before its end (spec 6). */
export const TRIAL_NOTICE_MS = 3 * DAY_MS

export const firstPeriod = (context: Pick<SubscriptionContext, "billingCycle">, anchorAt: number) => ({
  anchorAt,
  periodNo: 0,
  periodStart: anchorAt,
  periodEnd: boundary(context.billingCycle, anchorAt, 1),
})

export const nextPeriod = (context: SubscriptionContext) => ({
  anchorAt: context.anchorAt,
  periodNo: context.periodNo + 1,
  periodStart: boundary(context.billingCycle, context.anchorAt, context.periodNo + 1),
  periodEnd: boundary(context.billingCycle, context.anchorAt, context.periodNo + 2),
})

export const billFor = (context: SubscriptionContext, purpose: BillPurpose, at: number, usage: Usage): Bill => {
  const lines = periodLines(context.priceKobo, context.quantity, usage)
  const { periodStart, periodEnd } = nextPeriod(context)
  const amountKobo = totalOf(lines)
  const no = context.billsMade + 1
  return { no, purpose, periodStart, periodEnd, lines, amountKobo, attempt: 1, attemptedAt: at, automaticRetry: false }
}

/** The period that a late payment buys (decision D7): where it belongs, unless that time passed without service. */
export const recoveredPeriod = (context: SubscriptionContext, at: number) =>
  context.bill!.periodEnd <= at || context.escalation?.action === "pause"
    ? firstPeriod(context, at)
    : nextPeriod(context)

export const isShortTrial = (context: SubscriptionContext): boolean =>
  context.trialEnd! - context.startAt <= TRIAL_NOTICE_MS

/** What is over once a bill is paid. */
export const SETTLED = { bill: null, dunning: null, escalation: null } as const
