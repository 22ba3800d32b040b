/** Why a payment did not go through, in words for the buyer, who can do something about it. */

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

/** The reason of a decline, in words for the buyer. */
const reasonInWords = (code: string | null): string =>
  WORDS[(code ?? "") as FailureCode] ?? "Your bank declined the payment."

/** What a submission came to, of which at least a part was declined. */
export interface Declined {
  readonly code: string
  readonly paidKobo: number
  readonly pendingKobo: number
  readonly failedKobo: number
  /** What was taken only to save a payment method that cannot be used again, and is sent back (decision P8). */
  readonly returnedKobo?: number
  /** Of what was declined: what was paid after all, and is owed back (decision P10). */
  readonly lateKobo?: number
}

type Declinable = Pick<ChargeRow, "amount_kobo" | "status" | "purpose" | "contradictions">

/** What payments that were declined came to after all. */
export const lateOf = (charges: ReadonlyArray<Declinable>): Required<Pick<Declined, "returnedKobo" | "lateKobo">> => {
  const sum = (isCheck: boolean) =>
    charges
      .filter((charge) => cameAfterAll(charge) && (charge.purpose === "verification") === isCheck)
      .reduce((kobo, { amount_kobo }) => kobo + amount_kobo, 0)
  return { returnedKobo: sum(true), lateKobo: sum(false) }
}

/** What is said of a payment method that no later payment can be made with. */
const OF_NO_USE: ReadonlySet<string> = new Set<FailureCode>([
  "expired_card",
  "lost_card",
  "stolen_card",
  "pick_up_card",
  "account_closed",
  "invalid_card",
  "authorization_revoked",
  "payment_method_inactive",
])

/** Whether a payment method that was declined so cannot pay later either. */
export const isOfNoUse = (code: string | null): boolean => OF_NO_USE.has(code ?? "")

const ASKS_FOR_CODE: ReadonlySet<string> = new Set(["authentication_required", "authentication_failed"])

/** Whether the same method is worth another try, with its one-time code. */
export const asksForCode = (code: string | null): boolean => ASKS_FOR_CODE.has(code ?? "")

/** What a decline means, and what to do. */
export const declineInWords = (declined: Declined): string => {
  const { code, paidKobo, pendingKobo, failedKobo, returnedKobo = 0, lateKobo = 0 } = declined
  const parts = [
    ...(paidKobo > 0 ? [`${formatKobo(paidKobo)} was paid.`] : []),
    ...(pendingKobo > 0 ? [`${formatKobo(pendingKobo)} is not confirmed yet.`] : []),
    ...(lateKobo > 0 ? [`${formatKobo(lateKobo)} was paid after that all the same, and is owed back to you.`] : []),
  ]
  const next = asksForCode(code)
    ? ""
    : isRetryable(code)
      ? ": try another card, or the same one again"
      : ": try another card"
  const taken =
    returnedKobo > 0 ? `${formatKobo(returnedKobo)} was taken to check it, and is sent back to you` : undefined
  const unpaidKobo = failedKobo - lateKobo
  const rest = taken ?? (parts.length === 0 ? "Nothing was charged" : `${formatKobo(unpaidKobo)} was not charged`)
  // Nobody who has paid, if too late, is asked to pay again.
  const last = taken === undefined && lateKobo > 0 && unpaidKobo === 0 ? [] : [`${rest}${next}.`]
  return [reasonInWords(code), ...parts, ...last].join(" ")
}
