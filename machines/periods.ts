/** The context of a subscription, and the arithmetic of its periods and bills (decisions D2, D4, D7, D8, E1, E11). */
import {
  creditedIn,
  type Line,
  MIN_CHARGE_KOBO,
  overageLines,
  periodLines,
  shareOf,
  totalOf,
  type Usage,
} from "./billing.ts"
import { type BillingCycle, boundary } from "./calendar.ts"
import type { AttemptOrigin, Dunning, EscalationAction } from "./dunning.ts"
import { DAY_MS } from "./time.ts"

export const CANCELLATION_REASONS = [
  "customer_request",
  "merchant_request",
  "nonpayment",
  "checkout_expired",
  "other",
] as const
export type CancellationReason = (typeof CANCELLATION_REASONS)[number]
export const BILL_PURPOSES = ["first", "trial_end", "renewal", "resume", "last"] as const
export type BillPurpose = (typeof BILL_PURPOSES)[number]

/** A period on the grid of an anchor: [boundary n, boundary n + 1], boundary n = anchor + n cycles. */
export interface Period {
  readonly anchorAt: number
  readonly periodNo: number
  readonly periodStart: number
  readonly periodEnd: number
}

/** The payment for one period, over all its attempts. */
export interface Bill extends Period {
  /** Counts the subscription's bills from 1. */
  readonly no: number
  readonly purpose: BillPurpose
  /** The quantity of the plan in this period. */
  readonly quantity: number
  readonly lines: ReadonlyArray<Line>
  readonly amountKobo: number
  /** The number of the newest attempt, from 1 (decision E4). */
  readonly attempt: number
  /** When that attempt was due. */
  readonly attemptedAt: number
  readonly origin: AttemptOrigin
  /** The payment method for that attempt only; null: the subscription's. */
  readonly methodId: string | null
  /** A payment method that was set during the attempt: it is tried next if the attempt fails. */
  readonly nextMethod: { readonly methodId: string | null } | null
  /** A method that replaces the subscription's own after that failed (decision E25): the retry schedule uses it. */
  readonly standIn: string | null
}

export interface SubscriptionContext extends Period {
  readonly billingCycle: BillingCycle
  readonly priceKobo: number
  readonly quantity: number
  readonly startAt: number
  readonly trialEnd: number | null
  /** The billed quantity of the plan in the current period. Before the first paid period `periodNo` is -1. */
  readonly periodQuantity: number
  /** Reported units that are not billed yet (decisions E1, E18). */
  readonly units: number
  readonly cancelAtPeriodEnd: boolean
  /** Why it will be cancelled at period end. */
  readonly cancelReason: CancellationReason | null
  readonly billsMade: number
  /** The unpaid bill, while there is one. */
  readonly bill: Bill | null
  readonly dunning: Dunning | null
  readonly escalation: { readonly action: EscalationAction; readonly triggeredAt: number } | null
  /** Set while paused by request (decision E10); null `resumesAt`: until a request resumes it. */
  readonly pause: { readonly at: number; readonly resumesAt: number | null } | null
  readonly cancelledAt: number | null
  readonly cancellationReason: CancellationReason | null
}

/** A trial's last reminder is sent this long before its end (decision D4). */
export const TRIAL_NOTICE_MS = 3 * DAY_MS

/** The first period of a new grid. */
export const firstPeriod = (billingCycle: BillingCycle, anchorAt: number): Period => ({
  anchorAt,
  periodNo: 0,
  periodStart: anchorAt,
  periodEnd: boundary(billingCycle, anchorAt, 1),
})

export const nextPeriod = ({ billingCycle, anchorAt, periodNo }: SubscriptionContext): Period => ({
  anchorAt,
  periodNo: periodNo + 1,
  periodStart: boundary(billingCycle, anchorAt, periodNo + 1),
  periodEnd: boundary(billingCycle, anchorAt, periodNo + 2),
})

export const periodOf = ({ anchorAt, periodNo, periodStart, periodEnd }: Period): Period => ({
  anchorAt,
  periodNo,
  periodStart,
  periodEnd,
})

/** The first attempt at the bill for `period`. */
export const billFor = (
  context: SubscriptionContext,
  purpose: BillPurpose,
  period: Period,
  at: number,
  lines: ReadonlyArray<Line>,
): Bill => ({
  ...periodOf(period),
  no: context.billsMade + 1,
  purpose,
  quantity: context.quantity,
  lines,
  amountKobo: totalOf(lines),
  attempt: 1,
  attemptedAt: at,
  origin: "due",
  methodId: null,
  nextMethod: null,
  standIn: null,
})

/** The plan in advance, the units of the closed period in arrears. */
export const planLines = (context: SubscriptionContext, usage: Usage): ReadonlyArray<Line> =>
  periodLines(context.priceKobo, context.quantity, usage)

/** One price for each delivery made (decision D8). */
export const deliveryLines = (context: SubscriptionContext, deliveries: number): ReadonlyArray<Line> => {
  const quantity = context.quantity * deliveries
  const amount = context.priceKobo * quantity
  return [{ type: "plan", description: "Deliveries", quantity, unit_amount: context.priceKobo, amount }]
}

/**
 * The credit of the current period after a pause from `pausedAt` on (decisions E11, E24): the unused time on plans that prorate; on a
 * delivery plan, the delivery that is paid and not yet made.
 */
export const creditKobo = (context: SubscriptionContext, pausedAt: number, proRate: boolean): number => {
  const { billingCycle, periodStart, periodEnd } = context
  const paidKobo = context.priceKobo * context.periodQuantity
  if (billingCycle === "per_delivery") return paidKobo
  return proRate ? shareOf(paidKobo, Math.max(0, periodEnd - pausedAt), periodEnd - periodStart) : 0
}

/**
 * The lines of the first bill after a pause (decisions E9, E11), which credits the unused part. If a bill of the same resumption was given up,
 * its credit moves to the next one (decision E24).
 */
export const resumeLines = (context: SubscriptionContext, proRate: boolean, usage: Usage): ReadonlyArray<Line> => {
  const { pause, bill } = context
  const kept = bill?.purpose === "resume" ? creditedIn(bill.lines) : 0
  const credit = pause === null ? kept : creditKobo(context, pause.at, proRate)
  return periodLines(context.priceKobo, context.quantity, usage, credit)
}

/** The line for the units of the last period (decision E34); undefined if they are too few to charge. */
export const lastLines = (context: SubscriptionContext, usage: Usage): ReadonlyArray<Line> | undefined => {
  const lines = overageLines(usage)
  return context.billingCycle === "per_delivery" || totalOf(lines) < MIN_CHARGE_KOBO ? undefined : lines
}

/** The end of the last period as an empty period, because the last bill covers no time. If a bill is overdue, its period counts. */
export const endOfPeriod = (context: SubscriptionContext): Period => {
  const last = periodOf(context.bill ?? context)
  return { ...last, periodStart: last.periodEnd }
}

/** The period that a payment buys. */
export const paidPeriod = (bill: Bill) => ({ ...periodOf(bill), periodQuantity: bill.quantity })

/** The period that a late payment buys (decision D7): the billed one, unless its time passed without service. */
export const recoveredPeriod = (context: SubscriptionContext, at: number) => {
  const bill = context.bill!
  const missed = bill.periodEnd <= at || context.escalation?.action === "pause"
  return missed ? { ...firstPeriod(context.billingCycle, at), periodQuantity: bill.quantity } : paidPeriod(bill)
}

export const isShortTrial = (context: SubscriptionContext): boolean =>
  context.trialEnd! - context.periodStart <= TRIAL_NOTICE_MS

/** The context changes when a bill is paid or forgiven. */
export const SETTLED = { bill: null, dunning: null, escalation: null } as const
