/** Decides on which bills a newly set payment method is tried (decisions E6, E25). Pure: pages announce it, requests carry it out. */
import { hasEffect } from "../../../machines/decide.ts"
import { advance } from "../../runtime/lifecycle.ts"
import { type SubscriptionRow, subscriptionLifecycle } from "./subscription.ts"
import type { SubscriptionCommand } from "./transition.ts"

export interface NewMethod {
  /** null: not known yet. */
  readonly methodId: string | null
  /** The customer had another default method, or none. */
  readonly isNewDefault: boolean
  /** The method was entered on a page: overdue bills are charged to it, even if it is their current method. */
  readonly isEntered: boolean
  /** Now, on the customer's clock. */
  readonly now: number
}

/** Whether a subscription has a bill on which a new method is tried. A first payment that fails ends the subscription (decision D5). */
export const isBilled = ({ bill, status }: SubscriptionRow): boolean => bill !== null && status !== "incomplete"

/**
 * Whether the method is tried on a subscription. If the subscription has a method of its own, that one has failed, so the new one replaces
 * it (decision E16).
 */
const isTriedOn = (row: SubscriptionRow, { methodId, isNewDefault, isEntered }: NewMethod): boolean =>
  isBilled(row) && ((isEntered && row.dunning !== null) || (isNewDefault && row.payment_method_id !== methodId))

/** Returns the commands that try the method on these subscriptions of its customer; skips those on which it is not tried. */
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

/** The subscriptions whose bills a method entered on a page pays immediately. The others have an attempt under way that may pay. */
export const chargedAtOnce = (rows: ReadonlyArray<SubscriptionRow>, now: number): ReadonlyArray<SubscriptionRow> =>
  advance(
    subscriptionLifecycle,
    methodCommands(rows, { methodId: null, isNewDefault: false, isEntered: true, now }),
  ).flatMap(({ row, decision }) => (hasEffect(decision, "attemptCharge") ? [row] : []))
