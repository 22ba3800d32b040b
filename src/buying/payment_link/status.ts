/** How things stand behind a payment link (decision F5): what is owed now, or why it takes nothing any more. Pure. */
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

export type Standing =
  /** A payment was made by it, and nothing is owed by now. */
  | { readonly kind: "used"; readonly charges: ReadonlyArray<ChargeRow> }
  | { readonly kind: "cancelled"; readonly at: number }
  | { readonly kind: "expired"; readonly at: number }
  /** An attempt at what is owed is at the rail. */
  | { readonly kind: "under_way"; readonly chargeId: string }
  | { readonly kind: "owing"; readonly owing: ReadonlyArray<SubscriptionRow>; readonly totalKobo: number }
  | { readonly kind: "settled" }

/** When a link stops working. */
const expiryOf = ({ created_at }: NudgeRow): number => created_at + LIFETIME_MS

/** The payments of bills that were made by a link, and are not owed back. */
const paidOf = (tries: ReadonlyArray<ChargeRow>): ReadonlyArray<ChargeRow> =>
  tries.filter(({ purpose, status, refund_due }) => purpose === "sale" && status === "succeeded" && !refund_due)

/**
 * `subscriptions`: the link's own, or, of a link that is about no subscription, those of the customer on which something is
 * owed. `tries`: the payments that were tried by the link.
 */
export const standingOf = (
  nudge: NudgeRow,
  subscriptions: ReadonlyArray<SubscriptionRow>,
  tries: ReadonlyArray<ChargeRow>,
  now: number,
): Standing => {
  const paid = paidOf(tries)
  const owing = subscriptions.filter(isDue)
  // One that is owing again, or of which another bill was declined, goes on.
  if (paid.length > 0 && owing.length === 0) return { kind: "used", charges: paid }
  const own = nudge.subscription_id === null ? undefined : subscriptions[0]
  if (own?.status === "cancelled") return { kind: "cancelled", at: own.cancelled_at! }
  // What was begun by the link is waited for, also once that is too old.
  const begun = tries.find(({ status }) => status === "pending")
  if (begun !== undefined) return { kind: "under_way", chargeId: begun.id }
  if (now >= expiryOf(nudge)) return { kind: "expired", at: expiryOf(nudge) }
  const charging = subscriptions.find(({ state }) => isCharging(state))
  if (charging !== undefined) return { kind: "under_way", chargeId: charging.latest_charge_id! }
  return owing.length === 0 ? { kind: "settled" } : { kind: "owing", owing, totalKobo: totalDue(owing) }
}

const escalationWord = (dunning: Dunning): Consequence["what"] | undefined => {
  const action = ESCALATIONS[dunning.policy.escalation]
  return action === "none" ? undefined : action
}

/** Dunning as it goes on by itself: a retry that finds no payment method fails as one that is not worth another (decision E22). */
const goingOn = (dunning: Dunning, methodId: string | null): Dunning =>
  methodId === null ? { ...dunning, nextRetryAt: null } : dunning

/** What happens by itself on a subscription if nobody does anything, in order of time. */
export const consequencesOf = (
  row: SubscriptionRow,
  { default_payment_method_id }: Pick<CustomerRow, "default_payment_method_id">,
  plan: string,
): ReadonlyArray<Consequence> => {
  if (row.dunning === null) return []
  const dunning = goingOn(row.dunning, row.bill?.standIn ?? row.payment_method_id ?? default_payment_method_id)
  const context = subscriptions.contextOf(row)
  const { asked, unpaid } = endsAt(context)
  const escalatesAt = row.escalation === null ? lastRetryAt(dunning) : null
  const word = escalationWord(dunning)
  const cancelsAt = Math.min(asked, unpaid)
  const found: ReadonlyArray<Consequence | undefined> = [
    dunning.nextRetryAt === null ? undefined : { at: dunning.nextRetryAt, what: "retry", plan },
    escalatesAt === null || word === undefined ? undefined : { at: escalatesAt, what: word, plan },
    Number.isFinite(cancelsAt) ? { at: cancelsAt, what: "cancel", plan } : undefined,
  ]
  return found
    .filter((one) => one !== undefined)
    .filter(({ at, what }) => what === "cancel" || isBeforeEnd(context, at))
}
