/** The fields of Paystack's answers. */
import type { Refund, Token, Transaction } from "./transaction.ts"
import { instant, type Reply } from "./wire.ts"

export const good = (message: string, data: unknown): Reply => ({ status: 200, body: { status: true, message, data } })

export const bad = (
  status: number,
  code: string,
  message: string,
  nextStep: string,
  type = "validation_error",
): Reply => ({
  status,
  body: { status: false, message, meta: { nextStep }, type, code },
})

export const DUPLICATE = bad(
  400,
  "duplicate_reference",
  "Duplicate Transaction Reference",
  "Ensure that you pass a unique transaction reference.",
)
export const NO_SUCH_CODE = bad(
  400,
  "invalid_params",
  "Authorization code is invalid",
  "Pass an authorization code of yours.",
)
export const NOT_THEIRS = bad(
  400,
  "invalid_params",
  "Email does not match Authorization code. Authorization may be inactive or belong to a different email. Please confirm.",
  "Pass the email that the authorization was saved with.",
)

/** `abandoned` is a page that is not paid yet. `reversed` is a success that was returned in full. */
const statusOf = (transaction: Transaction): string => {
  switch (transaction.status) {
    case "open":
      return "abandoned"
    case "succeeded": {
      const returned = transaction.refunds.filter(({ status }) => status === "returned")
      const total = returned.reduce((sum, { amountKobo }) => sum + amountKobo, 0)
      return total > 0 && total >= transaction.amountKobo ? "reversed" : "success"
    }
    case "failed":
      return "failed"
    case "pending":
      return ["ongoing", "processing", "queued"].includes(transaction.words) ? transaction.words : "pending"
  }
}

const authorizationOf = ({ token, active, reusable, card, signature }: Token) => ({
  authorization_code: token,
  bin: card.first6,
  last4: card.last4,
  exp_month: card.expMonth,
  exp_year: card.expYear,
  channel: "card",
  // With the space that Paystack's text has there.
  card_type: `${card.type} `,
  bank: card.bank,
  country_code: "NG",
  brand: card.type,
  reusable: active && reusable,
  signature,
  account_name: null,
})

const TRANSFER = {
  authorization_code: "AUTH_transfer",
  bin: "008XXX",
  last4: "X553",
  exp_month: "12",
  exp_year: "2030",
  channel: "bank_transfer",
  card_type: "transfer",
  bank: "Titan Paystack",
  country_code: "NG",
  brand: "Managed Account",
  reusable: false,
  signature: null,
  account_name: null,
}

/** The transaction in a charge's answer. Verifying adds `requested_amount`. */
export const transactionOf = (transaction: Transaction, now: number) => ({
  id: transaction.number,
  domain: "live",
  status: statusOf(transaction),
  reference: transaction.reference,
  amount: transaction.amountKobo + transaction.feesKobo,
  message: null,
  gateway_response: transaction.words,
  paid_at: transaction.status === "succeeded" ? instant(now) : null,
  created_at: instant(now),
  channel: transaction.paidBy,
  currency: transaction.currency,
  ip_address: null,
  metadata: transaction.metadata ?? "",
  fees: transaction.status === "succeeded" ? 10_000 : null,
  customer: {
    id: 181873746,
    first_name: null,
    last_name: null,
    email: transaction.email,
    customer_code: "CUS_standin",
  },
  authorization:
    transaction.paidBy === "bank_transfer"
      ? TRANSFER
      : transaction.token === null
        ? {}
        : authorizationOf(transaction.token),
  plan: null,
  ...(transaction.retryBy === null ? {} : { retry_by: transaction.retryBy }),
})

export const verifiedOf = (transaction: Transaction, now: number) => ({
  ...transactionOf(transaction, now),
  requested_amount: transaction.amountKobo,
})

export const pageOf = (transaction: Transaction, origin: string) => ({
  authorization_url: `${origin}/page/${transaction.code}`,
  access_code: transaction.code,
  reference: transaction.reference,
})

export const REFUND_STATUS = { pending: "pending", returned: "processed", failed: "failed" } as const

export const refundOf = (refund: Refund, transaction: Transaction) => ({
  id: refund.id,
  status: REFUND_STATUS[refund.status],
  amount: refund.amountKobo,
  currency: "NGN",
  domain: "live",
  channel: transaction.paidBy,
  deducted_amount: refund.status === "returned" ? refund.amountKobo : 0,
  fully_deducted: refund.status === "returned",
  merchant_note: `Refund for transaction ${refund.reference}`,
})
