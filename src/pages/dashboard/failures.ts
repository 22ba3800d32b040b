/** Explains to the merchant why a charge failed, and what to do. Buyers read other words (src/buying/payment_page/declines.ts). */
import type { FailureCode } from "../../rails/rail/PaymentRail.ts"

export interface Failure {
  readonly why: string
  readonly todo: string
}

/** The nudge that helps after a failure. */
export type HelpfulNudge = "update_payment_method" | "payment_failed"

const WAIT = "Wait for the next try, or retry it later."
const OTHER_METHOD = "Ask the customer for another payment method: send the nudge “Update payment method”."
const NEW_CARD = "Ask the customer for their new card: send the nudge “Update payment method”."

const FAILURES: Readonly<Record<FailureCode, Failure>> = {
  insufficient_funds: { why: "There was not enough money on the account.", todo: WAIT },
  limit_exceeded: {
    why: "The amount is above a limit of the card or account.",
    todo: "Retry it later, or ask the customer to raise the limit at their bank.",
  },
  do_not_honor: {
    why: "The bank declined it without a reason.",
    todo: "Wait for the next try. If it fails again, ask the customer to call their bank, or for another payment method.",
  },
  unknown_decline: { why: "The bank declined it and gave no reason that we can name.", todo: WAIT },
  issuer_unavailable: { why: "The customer's bank could not be reached.", todo: WAIT },
  processor_error: { why: "The payment rail could not make the payment.", todo: WAIT },
  card_throttled: { why: "The card was charged too often within a short time.", todo: WAIT },
  rail_rate_limited: { why: "The payment rail had too many requests.", todo: WAIT },
  expired_card: { why: "The card has expired.", todo: NEW_CARD },
  lost_card: { why: "The card was reported lost.", todo: NEW_CARD },
  stolen_card: { why: "The card was reported stolen.", todo: NEW_CARD },
  pick_up_card: { why: "The bank has blocked the card.", todo: NEW_CARD },
  restricted_card: { why: "The card may not be used for this payment.", todo: OTHER_METHOD },
  account_closed: { why: "The account of the card is closed.", todo: OTHER_METHOD },
  invalid_card: { why: "The bank does not know the card.", todo: OTHER_METHOD },
  not_permitted: { why: "The bank does not allow this kind of payment with the card.", todo: OTHER_METHOD },
  suspected_fraud: {
    why: "The bank suspects fraud.",
    todo: "Do not retry it. Ask the customer to call their bank, or for another payment method.",
  },
  authorization_revoked: { why: "The customer has withdrawn their permission at the bank.", todo: OTHER_METHOD },
  payment_method_inactive: { why: "The payment method cannot be charged any more.", todo: OTHER_METHOD },
  authentication_required: {
    why: "The bank asks the customer for a one-time code.",
    todo: "The customer has to pay themselves: send the nudge “Payment failed”, whose link leads to a page.",
  },
  authentication_failed: {
    why: "The customer's one-time code was wrong.",
    todo: "Ask the customer to try again: send the nudge “Payment failed”.",
  },
  amount_invalid: {
    why: "The payment rail does not take this amount.",
    todo: "Charge another amount, at least the minimum of your payment rail.",
  },
  customer_abandoned: {
    why: "The customer did not finish the payment.",
    todo: "Ask the customer to try again: send the nudge “Payment failed”.",
  },
  rail_misconfigured: {
    why: "Your account at the payment rail refused it.",
    todo: "Check your account and your credentials at the payment rail.",
  },
}

/** Why a charge failed, and what the merchant can do. */
export const failureOf = (code: string | null): Failure =>
  code !== null && Object.hasOwn(FAILURES, code)
    ? FAILURES[code as FailureCode]
    : { why: "The payment was declined.", todo: "Retry it later, or ask the customer for another payment method." }

/** The nudge that helps after a failure: a new payment method if this one cannot pay again, else a link to pay. */
export const nudgeFor = (code: string | null): HelpfulNudge =>
  [NEW_CARD, OTHER_METHOD].includes(failureOf(code).todo) ? "update_payment_method" : "payment_failed"
