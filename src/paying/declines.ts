/** Why a payment did not go through, in words for the buyer, who can do something about it. */
import type { FailureCode } from "../rail/PaymentRail.ts"

const WORDS: Readonly<Partial<Record<FailureCode, string>>> = {
  insufficient_funds: "Your bank says that there is not enough money on the account.",
  limit_exceeded: "The payment is above a limit of your card or account.",
  issuer_unavailable: "Your bank cannot be reached just now. Try again in a few minutes.",
  expired_card: "The card has expired.",
  lost_card: "Your bank does not allow payments with this card.",
  stolen_card: "Your bank does not allow payments with this card.",
  pick_up_card: "Your bank does not allow payments with this card.",
  restricted_card: "Your bank does not allow this payment with this card.",
  account_closed: "The account of this card is closed.",
  invalid_card: "Your bank does not know this card.",
  not_permitted: "Your bank does not allow this kind of payment with this card.",
  authentication_required: "Your bank asks for a one-time code.",
  authentication_failed: "The one-time code was not right.",
  customer_abandoned: "The payment was not finished in time.",
  processor_error: "The payment company could not make the payment.",
}

/** Whatever failed, nothing was charged. */
export const declineInWords = (code: string | null): string => {
  const known = WORDS[(code ?? "") as FailureCode] ?? "Your bank declined the payment."
  return code === "authentication_failed" || code === "authentication_required"
    ? `${known} Nothing was charged.`
    : `${known} Nothing was charged: try another card, or the same one again.`
}
