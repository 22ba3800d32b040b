/** Maps rails' descriptions of a failure, in words or by ISO 8583 codes, to failure codes (docs/decisions.md, failure codes). */
import type { FailureCode } from "./PaymentRail.ts"

/** Matches codes of ISO 8583, alone ("51"), in brackets ("(05)"), before words ("05: Do not honour") or after "code". */
const iso = (codes: string): RegExp => new RegExp(`(?:^|\\(|\\bcode\\W{0,3})(?:${codes})(?=\\)|$|\\s*[-:.,])`, "i")

/** The first matching row counts: special rows are before general ones, words before codes. */
const ROWS: ReadonlyArray<readonly [RegExp, FailureCode]> = [
  [/cannot be fulfilled/i, "card_throttled"],
  [/too many requests|rate[ _-]?limit/i, "rail_rate_limited"],

  // The merchant's account at the rail, not the buyer.
  [
    /currency.*\b(?:not|unsupported|invalid)\b|\b(?:invalid|unsupported) currency|can only charge .* in naira/i,
    "rail_misconfigured",
  ],
  [/\binvalid (?:secret |api |authori[sz]ation )?key\b|secret key|authori[sz]ation required/i, "rail_misconfigured"],
  [/(?:invalid|inactive|disabled|unknown) (?:merchant|business)/i, "rail_misconfigured"],
  [/(?:merchant|business|integration) (?:is |has been )?(?:not active|inactive|disabled)/i, "rail_misconfigured"],
  [/not (?:enabled|approved|activated) for|\bip\b.*not (?:allowed|whitelisted)/i, "rail_misconfigured"],

  // The saved token.
  [
    /stop(?:ped)? (?:all )?(?:recurring|payment)|revo(?:ked|cation)|recurring .*(?:stopped|cancell?ed)/i,
    "authorization_revoked",
  ],
  [
    /(?:token|otp)[ _]not[ _]generated|registered[ _]on[ _]token|\botp\b.*(?:error|expired|fail)/i,
    "authentication_failed",
  ],
  [
    /authori[sz]ation(?: code)?.*(?:deactivated|does not exist|inactive|not active|invalid|not found)/i,
    "payment_method_inactive",
  ],
  [
    /not reusable|match authori[sz]ation|invalid authori[sz]ation|e-?mail.*(?:mismatch|not match)/i,
    "payment_method_inactive",
  ],
  [/\btoken\b.*(?:expired|invalid|not found|not exist|inactive|deactivated)/i, "payment_method_inactive"],
  [/(?:expired|invalid|wrong|unknown|inactive) (?:card |embed ?)?token/i, "payment_method_inactive"],

  // The buyer's authentication.
  [
    /(?:authentication|otp|pin|3-?ds?(?:ecure)?) (?:is )?(?:required|needed)|requires? .*(?:authentication|otp|pin)\b/i,
    "authentication_required",
  ],
  [/additional (?:customer )?authentication/i, "authentication_required"],
  [
    /\bpin\b|\botp\b|one[- ]time p|authentication[ _](?:failed|error|unsuccessful)|3-?d ?secure/i,
    "authentication_failed",
  ],
  [/\bcvv2?\b|card verification code|incorrect date of birth|could not verify/i, "authentication_failed"],

  // The card or account.
  [/\blost\b/i, "lost_card"],
  [/\bstolen\b/i, "stolen_card"],
  // "Expired card, pick up" and "Restricted card, pick-up" are ISO 8583's 33 and 36.
  [/expired card|card (?:has |is )?expired|card expiry/i, "expired_card"],
  [/restricted/i, "restricted_card"],
  [/pick[ -]?up|hot card|capture card/i, "pick_up_card"],
  [/fraud|blacklist|security violation/i, "suspected_fraud"],
  [/account (?:is |has been )?closed|closed account/i, "account_closed"],
  [
    /invalid (?:card|account|pan)\b|no such (?:issuer|account|card)|unable to locate|no primary account/i,
    "invalid_card",
  ],
  [/not (?:permitted|allowed|authori[sz]ed) (?:to|for|on|by)|transaction not (?:permitted|allowed)/i, "not_permitted"],

  // The amount.
  [/insufficient[ _-]?(?:funds?|balance|credit)|(?:not|no) sufficient funds?/i, "insufficient_funds"],
  [
    /exceeds? .*(?:limit|frequency)|(?:limit|frequency) .*exceed|(?:withdrawal|daily|card|spending|transaction) limit/i,
    "limit_exceeded",
  ],
  [
    /invalid amount|amount .*(?:minimum|maximum|must be|invalid|refused|rejected|too (?:small|large|low|high)|allowed|greater|less)/i,
    "amount_invalid",
  ],

  [/do[ _-]?not[ _-]?hono(?:u)?r/i, "do_not_honor"],
  [
    /issuer or switch|(?:issuer|bank|switch) .*(?:inoperative|unavailable|not available|down\b|time(?:d )?[- ]?out)/i,
    "issuer_unavailable",
  ],
  [/response received too late|gateway time-?out|remote (?:server|host|entity)|no response/i, "issuer_unavailable"],
  [/abandon|aborted|cancell?ed by|(?:user|customer) cancell?ed|session (?:expired|time)/i, "customer_abandoned"],

  [iso("51"), "insufficient_funds"],
  [iso("61|65"), "limit_exceeded"],
  [iso("05"), "do_not_honor"],
  [iso("01|02"), "unknown_decline"],
  [iso("91"), "issuer_unavailable"],
  [iso("06|96"), "processor_error"],
  [iso("33|54"), "expired_card"],
  [iso("41"), "lost_card"],
  [iso("43"), "stolen_card"],
  [iso("04|07"), "pick_up_card"],
  [iso("36|62"), "restricted_card"],
  [iso("46"), "account_closed"],
  [iso("14|15"), "invalid_card"],
  [iso("57|58"), "not_permitted"],
  [iso("34|59|63"), "suspected_fraud"],
  [iso("R0|R1|R3"), "authorization_revoked"],
  [iso("1A"), "authentication_required"],
  [iso("55|75"), "authentication_failed"],
  [iso("13"), "amount_invalid"],
  [iso("03"), "rail_misconfigured"],

  [
    /system (?:error|malfunction)|unknown error|(?:server|internal|unexpected|acquirer)\w*[ _](?:\w+[ _])?error/i,
    "processor_error",
  ],
  [/error (?:has )?occur|(?:please )?try again|time(?:d )?[- ]?out/i, "processor_error"],
]

/** Returns the code of the first text that gives a reason; undefined if none does. */
export const codeIn = (...texts: ReadonlyArray<string | null | undefined>): FailureCode | undefined => {
  for (const text of texts) {
    const row = ROWS.find(([words]) => text !== null && text !== undefined && words.test(text.trim()))
    if (row !== undefined) return row[1]
  }
  return undefined
}

/** Returns the failure code of a decline from a rail's texts. */
export const declineCode = (...texts: ReadonlyArray<string | null | undefined>): FailureCode =>
  codeIn(...texts) ?? "unknown_decline"
