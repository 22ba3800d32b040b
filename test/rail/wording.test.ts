/** Tests rails' texts of failures, row by row, as failure codes (docs/decisions.md, failure codes). */
import { describe, expect, it } from "vitest"
import { FAILURE_CODES, type FailureCode } from "../../src/rails/rail/PaymentRail.ts"
import { codeIn, declineCode } from "../../src/rails/rail/wording.ts"

const SAID: ReadonlyArray<readonly [FailureCode, ReadonlyArray<string>]> = [
  [
    "insufficient_funds",
    ["Insufficient Funds", "INSUFFICIENT_FUNDS", "Not sufficient funds", "No sufficient funds", "51", "(51)"],
  ],
  [
    "limit_exceeded",
    [
      "Exceeds withdrawal limit",
      "Exceeds Withdrawal Frequency",
      "Exceeds withdrawal amount limit",
      "Your payment exceeds the daily limit",
      "Daily transaction limit exceeded",
      "Amount greater than daily transaction limit",
      "Transaction limit exceeded",
      "61",
      "65: try less",
    ],
  ],
  ["do_not_honor", ["Do Not Honour", "Do not honor", "DO_NOT_HONOUR", "05", "(05)", "Error code: 05", "Declined (05)"]],
  [
    "issuer_unavailable",
    [
      "Issuer or Switch Inoperative",
      "Issuer unavailable",
      "Bank is down",
      "Response received too late",
      "Gateway timeout",
      "Either remote server cannot be reached or the network connection was reset/broken",
      "91",
    ],
  ],
  [
    "processor_error",
    [
      "An unknown error has occurred, please contact system administrator",
      "System error",
      "System Malfunction",
      "A server error has occurred. Please try again.",
      "ACQUIRER_SYSTEM_ERROR",
      "Error, please try again",
      "06",
      "96",
    ],
  ],
  [
    "card_throttled",
    [
      "Charge cannot be fulfilled until 300 minutes",
      "Charge attempt cannot be fulfilled until 12 minutes. Insufficient funds",
    ],
  ],
  ["rail_rate_limited", ["Too many requests", "rate_limited", "Rate limit exceeded"]],
  [
    "expired_card",
    ["Expired Card, Pick Up", "Expired Card", "Card has expired", "Card expired", "33", "54 - Expired card"],
  ],
  ["lost_card", ["Lost Card, Pick-Up", "lost", "41"]],
  ["stolen_card", ["Stolen Card, Pick-Up", "43"]],
  ["pick_up_card", ["Pick Up Card", "Pick-up Card, Special Conditions", "Hot card", "04", "07"]],
  ["restricted_card", ["Restricted card, Pick-Up", "Restricted Card", "36", "62"]],
  ["account_closed", ["Account Closed", "The account has been closed", "46"]],
  [
    "invalid_card",
    ["Invalid account number", "Invalid card number", "No such issuer", "Unable to locate record", "14", "15"],
  ],
  [
    "not_permitted",
    [
      "Transaction not permitted to Cardholder",
      "Transaction Not Permitted on Terminal",
      "Not allowed for this card",
      "57",
      "58",
    ],
  ],
  [
    "suspected_fraud",
    [
      "Denied by Fraud System",
      "Suspected fraud",
      "Transaction has been flagged as fraudulent",
      "Customer is blacklisted",
      "Security violation",
      "34",
      "59",
      "63",
    ],
  ],
  [
    "authorization_revoked",
    [
      "Customer has stopped recurring",
      "Stop recurring payments",
      "Stop payment order",
      "Revocation of authorization order",
      "R0",
      "R1",
      "(r3)",
    ],
  ],
  [
    "payment_method_inactive",
    [
      "Authorization is deactivated",
      "E-mail mismatch",
      "Authorization code does not exist or has been deactivated",
      "Email does not match Authorization code. Authorization may be inactive or belong to a different email. Please confirm.",
      "This authorization is not reusable",
      "Invalid authorization code",
      "Token expired",
      "Expired token",
      "Wrong token or email passed",
    ],
  ],
  [
    "authentication_required",
    [
      "Authentication required",
      "OTP is required",
      "This charge requires authentication",
      "Additional customer authentication needed",
      "1A",
    ],
  ],
  [
    "authentication_failed",
    [
      "Incorrect PIN",
      "PIN tries exceeded",
      "OTP error",
      "An OTP related error has occurred, please contact support",
      "OTP expired",
      "Token Not Generated. Customer Not Registered on Token Platform",
      "AUTHENTICATION_FAILED",
      "Invalid Card Verification Code!",
      "55",
      "75",
    ],
  ],
  [
    "amount_invalid",
    [
      "Invalid Amount",
      "Amount must be a positive integer",
      "Amount does not meet minimum amount allowed",
      "Amount refused",
      "13",
    ],
  ],
  ["customer_abandoned", ["Abandoned", "ABORTED", "Transaction cancelled by customer", "Session expired"]],
  [
    "rail_misconfigured",
    [
      "Invalid key",
      "Currency not enabled",
      "Currency is not supported by merchant",
      "Unsupported currency",
      "Your business is inactive",
      "You can only charge Nigerian Accounts in Naira",
      "Inactive merchant",
      "Invalid merchant",
      "merchant secret key required",
      "Authorization required",
      "03",
    ],
  ],
  ["unknown_decline", ["01", "02", "Code: 01"]],
]

describe("a rail's text", () => {
  it.each(SAID.flatMap(([code, texts]) => texts.map((text) => [text, code] as const)))("%j is %s", (text, code) => {
    expect(codeIn(text)).toBe(code)
    expect(codeIn(text.toUpperCase())).toBe(code)
    expect(codeIn(`  ${text.toLowerCase()}\n`)).toBe(code)
  })

  it("reaches every failure code", () => {
    expect(SAID.map(([code]) => code).sort()).toEqual([...FAILURE_CODES].sort())
  })

  it.each([
    "Declined",
    "Unsuccessful",
    "Approved",
    "00",
    "99",
    "Card 5105",
    "Call 0511",
    "Account inactive",
    "Currency NGN: unsuccessful",
    "",
    "51st try",
  ])("%j has the general code", (text) => {
    expect(codeIn(text)).toBeUndefined()
    expect(declineCode(text)).toBe("unknown_decline")
  })

  it("counts in the first field that states a reason", () => {
    expect(declineCode(null, undefined, "Declined", "Expired card", "Incorrect PIN")).toBe("expired_card")
    expect(declineCode()).toBe("unknown_decline")
  })
})
