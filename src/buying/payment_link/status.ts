/** Computes the state of a payment link (decision F5): the amount due, or why it accepts nothing any more. Pure. */
import { type Dunning, ESCALATIONS, lastRetryAt } from "../../../machines/dunning.ts"
import { endsAt, isBeforeEnd, isCharging } from "../../../machines/status.ts"
import { DAY_MS } from "../../base/time.ts"
import type { ChargeRow } from "../../billing/charge/charge.ts"
import type { CustomerRow } from "../../billing/customer/customer.ts"
import { type SubscriptionRow, subscriptions } from "../../billing/subscription/subscription.ts"
import type { NudgeRow } from "../../outbound/nudge/nudge.ts"
import type { Consequence } from "../../pages/views.ts"
import { isDue, totalDue } from "../payment_page/amountDue.ts"

const LIFETIME_MS = 30 * DAY_MS

export type LinkState =
  /** A payment was made with it, and nothing is due now. */
  | { readonly kind: "used"; readonly charges: ReadonlyArray<ChargeRow> }
  | { readonly kind: "cancelled"; readonly at: number }
  | { readonly kind: "expired"; readonly at: number }
  /** A payment attempt is at the rail. */
  | { readonly kind: "under_way"; readonly chargeId: string }
  | { readonly kind: "due"; readonly due: ReadonlyArray<SubscriptionRow>; readonly totalKobo: number }
  | { readonly kind: "settled" }

/** Returns when a link stops working. */
const expiryOf = ({ created_at }: NudgeRow): number => created_at + LIFETIME_MS

/** Returns the bill payments that were made with a link and are not owed back. */
const paidOf = (tries: ReadonlyArray<ChargeRow>): ReadonlyArray<ChargeRow> =>
  tries.filter(({ purpose, status, refund_due }) => purpose === "sale" && status === "succeeded" && !refund_due)

/**
 * Returns the state of a link. `subscriptions`: the link's own, or, for a link without one, the customer's overdue ones. `tries`: the
 * payments that were tried with the link.
 */
export const linkStateOf = (
  nudge: NudgeRow,
  subscriptions: ReadonlyArray<SubscriptionRow>,
  tries: ReadonlyArray<ChargeRow>,
  now: number,
): LinkState => {
  const paid = paidOf(tries)
  const overdue = subscriptions.filter(isDue)
  // A link stays open if its subscription is overdue again, or another bill was declined.
  if (paid.length > 0 && overdue.length === 0) return { kind: "used", charges: paid }
  const own = nudge.subscription_id === null ? undefined : subscriptions[0]
  if (own?.status === "cancelled") return { kind: "cancelled", at: own.cancelled_at! }
  // A payment that was started with the link is awaited even after the link expires.
  const pending = tries.find(({ status }) => status === "pending")
  if (pending !== undefined) return { kind: "under_way", chargeId: pending.id }
  if (now >= expiryOf(nudge)) return { kind: "expired", at: expiryOf(nudge) }
  const charging = subscriptions.find(({ state }) => isCharging(state))
  if (charging !== undefined) return { kind: "under_way", chargeId: charging.latest_charge_id! }
  return overdue.length === 0 ? { kind: "settled" } : { kind: "due", due: overdue, totalKobo: totalDue(overdue) }
}

const escalationWord = (dunning: Dunning): Consequence["what"] | undefined => {
  const action = ESCALATIONS[dunning.policy.escalation]
  return action === "none" ? undefined : action
}

/** Returns dunning as it will run: a retry without a payment method fails, and no further retry follows (decision E22). */
const effectiveDunning = (dunning: Dunning, methodId: string | null): Dunning =>
  methodId === null ? { ...dunning, nextRetryAt: null } : dunning

/** Returns what will happen to a subscription if its bill stays unpaid, in order of time. */
export const consequencesOf = (
  row: SubscriptionRow,
  { default_payment_method_id }: Pick<CustomerRow, "default_payment_method_id">,
  plan: string,
): ReadonlyArray<Consequence> => {
  if (row.dunning === null) return []
  const dunning = effectiveDunning(row.dunning, row.bill?.standIn ?? row.payment_method_id ?? default_payment_method_id)
  const context = subscriptions.contextOf(row)
  const { asked, unpaid } = endsAt(context)
  const escalatesAt = row.escalation === null ? lastRetryAt(dunning) : null
  const word = escalationWord(dunning)
  const cancelsAt = Math.min(asked, unpaid)
  const possible: ReadonlyArray<Consequence | undefined> = [
    dunning.nextRetryAt === null ? undefined : { at: dunning.nextRetryAt, what: "retry", plan },
    escalatesAt === null || word === undefined ? undefined : { at: escalatesAt, what: word, plan },
    Number.isFinite(cancelsAt) ? { at: cancelsAt, what: "cancel", plan } : undefined,
  ]
  return possible
    .filter((one) => one !== undefined)
    .filter(({ at, what }) => what === "cancel" || isBeforeEnd(context, at))
}
