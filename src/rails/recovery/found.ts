/** Rebuilds charges from transactions that a rail has and the database does not (decision F9). Pure. */
import { boundary } from "../../../machines/calendar.ts"
import { type Bill, firstPeriod, nextPeriod, type Period } from "../../../machines/periods.ts"
import { isId, isPlanCode } from "../../base/ids.ts"
import { type ChargeRow, newCharge } from "../../billing/charge/charge.ts"
import type { Described } from "../../billing/payments/railMetadata.ts"
import { type SubscriptionRow, subscriptions } from "../../billing/subscription/subscription.ts"
import type { Ref } from "../../db/tenant.ts"
import type { PaymentMethodSummary } from "../rail/PaymentRail.ts"
import type { OutsideRail, RailTransaction } from "../rail/Rail.ts"

export interface FoundTransaction extends Ref {
  readonly rail: OutsideRail
  readonly described: Described
  readonly transaction: RailTransaction
  /** When the attempt was made, and when its rail settled it, if it says so (ms since the epoch). */
  readonly madeAt: number
  readonly settledAt: number
}

/** Why a transaction is not entered, in words for the operator. */
export type Reason = string

const purposeOf = ({ id, described: { page } }: FoundTransaction): ChargeRow["purpose"] => {
  if (isId("verification", id)) return "verification"
  return page !== null && isPlanCode(page) ? "instalment" : "sale"
}

/** Returns the payment method of a token. If it is not in the database, the rail's answer fills it. */
const methodOf = (
  { described: { hosted, method }, transaction: { saved } }: FoundTransaction,
  attached: PaymentMethodSummary | undefined,
): PaymentMethodSummary | null => {
  if (hosted || method === null) return null
  if (attached !== undefined) return attached
  const { type = "card", brand = null, last4 = null, bank_name = null, exp_month = null, exp_year = null } = saved ?? {}
  return { id: method, type, brand, last4, bank_name, exp_month, exp_year }
}

/** Builds the charge as it was committed before it was sent. */
export const chargeOf = (
  found: FoundTransaction,
  attached: PaymentMethodSummary | undefined,
  bill: Pick<Bill, "no" | "periodStart" | "periodEnd"> | null,
  retryOf: string | null,
): ChargeRow => {
  const { described } = found
  return {
    ...newCharge({
      account_id: found.account_id,
      livemode: found.livemode,
      customer_id: described.customer,
      subscription_id: described.subscription,
      test_clock_id: null,
      bill_no: bill?.no ?? null,
      attempt_number: described.attempt,
      amount_kobo: described.amountKobo,
      period_start_at: bill?.periodStart ?? null,
      period_end_at: bill?.periodEnd ?? null,
      lines: described.lines,
      purpose: purposeOf(found),
      hosted: described.hosted,
      payment_method: methodOf(found, attached),
      payment_method_named: described.named,
      retry_of: retryOf,
      page_id: described.page,
      submission: described.submission,
      rail: found.rail,
      sent_at: found.madeAt,
      description: described.description,
      metadata: {},
      created_at: found.madeAt,
      runner: 0,
    }),
    id: found.id,
    runner: null,
  }
}

/** More bills than a subscription makes between a backup and its restore. */
const MAX_BILLS_LOST = 1_000

const isOnGrid = ({ billing_cycle: cycle }: SubscriptionRow, { anchorAt, periodNo, periodStart, periodEnd }: Period) =>
  boundary(cycle, anchorAt, periodNo) === periodStart && boundary(cycle, anchorAt, periodNo + 1) === periodEnd

/**
 * Returns the period of a bill. If the subscription's state determines it, that one counts. Else it is the period in the metadata, if the
 * subscription can have it.
 */
const periodFor = (
  row: SubscriptionRow,
  described: Period,
  { no, purpose }: Pick<Bill, "no" | "purpose">,
): Period | undefined => {
  const context = subscriptions.contextOf(row)
  if (row.bill !== null && row.bill.no === no && row.dunning !== null) return row.bill
  const isNext = no === row.bills_made + 1
  if (isNext && purpose === "renewal" && row.state === "active.current" && row.billing_cycle !== "per_delivery")
    return nextPeriod(context)
  if (purpose === "trial_end" && row.state === "trialing.running")
    return firstPeriod(row.billing_cycle, row.trial_end_at!)
  if (purpose === "first" && row.state === "scheduled") return firstPeriod(row.billing_cycle, row.start_at)
  return described.periodStart >= row.period_start_at && isOnGrid(row, described) ? described : undefined
}

/** Rebuilds the bill of an attempt. A text: why it cannot be rebuilt. */
export const billOf = (row: SubscriptionRow, { described }: FoundTransaction): Bill | Reason => {
  const { bill, billDetails, attempt, amountKobo, lines, method, named } = described
  if (bill === null || billDetails === null) return "its metadata does not say which bill it is for"
  if (bill.no > row.bills_made + MAX_BILLS_LOST)
    return `bill ${bill.no} cannot be one of ${row.id}: its number is too high`
  const { anchor_at: anchorAt, period_no: periodNo, attempted_at: attemptedAt, quantity, purpose, origin } = billDetails
  const period = periodFor(row, { ...bill, anchorAt, periodNo }, { no: bill.no, purpose })
  if (period === undefined) return `the period of bill ${bill.no} does not fit the current state of ${row.id}`
  const { periodStart, periodEnd } = period
  return {
    no: bill.no,
    purpose,
    anchorAt: period.anchorAt,
    periodNo: period.periodNo,
    periodStart,
    periodEnd,
    quantity,
    lines,
    amountKobo,
    attempt,
    attemptedAt,
    origin,
    methodId: named ? method : null,
    nextMethod: null,
    standIn: origin === "method" ? method : null,
  }
}

/**
 * Moves the instants of a transaction back by as much as the period in its metadata starts after the period of its bill. So a clock that was
 * ahead when the attempt was made does not make the attempt a late one.
 */
export const withinPeriod = (found: FoundTransaction, { periodStart }: Bill): FoundTransaction => {
  const ahead = Math.max(0, (found.described.bill?.periodStart ?? periodStart) - periodStart)
  return { ...found, madeAt: found.madeAt - ahead, settledAt: found.settledAt - ahead }
}
