/** Explains to the buyer why a payment failed, and what to do. */

import { formatKobo } from "../../base/money.ts"
import type { ChargeRow } from "../../billing/charge/charge.ts"
import { cameAfterAll } from "../../pages/words.ts"
import { type FailureCode, isRetryable } from "../../rails/rail/PaymentRail.ts"

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
  payment_method_inactive: "The payment method cannot be used for later payments.",
  rail_rate_limited: "The payment company is busy just now. Try again in a few minutes.",
  rail_misconfigured: "The payment company does not take payments for this merchant just now.",
  processor_error: "The payment company could not make the payment.",
}

/** Returns the reason of a decline, in words for the buyer. */
const reasonInWords = (code: string | null): string =>
  WORDS[(code ?? "") as FailureCode] ?? "Your bank declined the payment."

/** The result of a submission of which at least a part was declined. */
export interface Declined {
  readonly code: string
  readonly paidKobo: number
  readonly pendingKobo: number
  readonly failedKobo: number
  /** Taken only to save a payment method that turned out not to be reusable, and refunded (decision P8). */
  readonly returnedKobo?: number
  /** The declined amount that was paid later, and is owed back (decision P10). */
  readonly lateKobo?: number
}

type Declinable = Pick<ChargeRow, "amount_kobo" | "status" | "purpose" | "contradictions">

/** Sums the declined payments that succeeded later. */
export const lateOf = (charges: ReadonlyArray<Declinable>): Required<Pick<Declined, "returnedKobo" | "lateKobo">> => {
  const sum = (isCheck: boolean) =>
    charges
      .filter((charge) => cameAfterAll(charge) && (charge.purpose === "verification") === isCheck)
      .reduce((kobo, { amount_kobo }) => kobo + amount_kobo, 0)
  return { returnedKobo: sum(true), lateKobo: sum(false) }
}

/** Failure codes of payment methods that can never pay again. */
const UNUSABLE: ReadonlySet<string> = new Set<FailureCode>([
  "expired_card",
  "lost_card",
  "stolen_card",
  "pick_up_card",
  "account_closed",
  "invalid_card",
  "authorization_revoked",
  "payment_method_inactive",
])

/** Whether a payment method with this failure code cannot pay later either. */
export const isUnusable = (code: string | null): boolean => UNUSABLE.has(code ?? "")

const ASKS_FOR_CODE: ReadonlySet<string> = new Set(["authentication_required", "authentication_failed"])

/** Whether to try the same method again, with its one-time code. */
export const asksForCode = (code: string | null): boolean => ASKS_FOR_CODE.has(code ?? "")

/** Explains a decline, and what to do next. */
export const declineInWords = (declined: Declined): string => {
  const { code, paidKobo, pendingKobo, failedKobo, returnedKobo = 0, lateKobo = 0 } = declined
  const parts = [
    ...(paidKobo > 0 ? [`${formatKobo(paidKobo)} was paid.`] : []),
    ...(pendingKobo > 0 ? [`${formatKobo(pendingKobo)} is not confirmed yet.`] : []),
    ...(lateKobo > 0 ? [`${formatKobo(lateKobo)} was paid after that, and is owed back to you.`] : []),
  ]
  const advice = asksForCode(code)
    ? ""
    : isRetryable(code)
      ? ": try another card, or the same one again"
      : ": try another card"
  const refunded =
    returnedKobo > 0 ? `${formatKobo(returnedKobo)} was taken to check it, and is sent back to you` : undefined
  const unpaidKobo = failedKobo - lateKobo
  const outcome = refunded ?? (parts.length === 0 ? "Nothing was charged" : `${formatKobo(unpaidKobo)} was not charged`)
  // A buyer who has paid too late is not asked to pay again.
  const closing = refunded === undefined && lateKobo > 0 && unpaidKobo === 0 ? [] : [`${outcome}${advice}.`]
  return [reasonInWords(code), ...parts, ...closing].join(" ")
}
