/** What a payment method that is set means to the bills of its customer (decisions E6, E25). Pure: pages say it before, and it is carried out. */
import { hasEffect } from "../../../machines/decide.ts"
import { advance } from "../../runtime/lifecycle.ts"
import { type SubscriptionRow, subscriptionLifecycle } from "./subscription.ts"
import type { SubscriptionCommand } from "./transition.ts"

export interface NewMethod {
  /** null: it is not known yet. */
  readonly methodId: string | null
  /** The customer had another default, or none. */
  readonly isNewDefault: boolean
  /** It was entered on a page: what is overdue is charged to it, whichever method that is. */
  readonly isEntered: boolean
  /** The customer's. */
  readonly now: number
}

/** Whether it has, or may be getting, a bill that a new method is tried on. A first payment that fails ends the subscription (decision D5). */
export const isBilled = ({ bill, status }: SubscriptionRow): boolean => bill !== null && status !== "incomplete"

/**
 * Whether it is tried on a subscription. Where that has a method of its own, that one has failed, so the new one stands in for it
 * (decision E16).
 */
const isTriedOn = (row: SubscriptionRow, { methodId, isNewDefault, isEntered }: NewMethod): boolean =>
  isBilled(row) && ((isEntered && row.dunning !== null) || (isNewDefault && row.payment_method_id !== methodId))

/** What it does to these subscriptions of its customer; those that it is not tried on are left out. */
export const methodCommands = (
  rows: ReadonlyArray<SubscriptionRow>,
  method: NewMethod,
): ReadonlyArray<SubscriptionCommand> =>
  rows
    .filter((row) => isTriedOn(row, method))
    .map((row) => {
      const isItsOwn = row.payment_method_id === null || row.payment_method_id === method.methodId
      return { row, event: { type: "method", at: method.now, methodId: isItsOwn ? null : method.methodId } }
    })

/** Those whose bills are charged at once to a method that is entered on a page. Of others an attempt is under way, which may pay them. */
export const chargedAtOnce = (rows: ReadonlyArray<SubscriptionRow>, now: number): ReadonlyArray<SubscriptionRow> =>
  advance(
    subscriptionLifecycle,
    methodCommands(rows, { methodId: null, isNewDefault: false, isEntered: true, now }),
  ).flatMap(({ row, decision }) => (hasEffect(decision, "attemptCharge") ? [row] : []))
