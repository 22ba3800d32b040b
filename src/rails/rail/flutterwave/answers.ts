/** Reads Flutterwave's answers. Their amounts are in naira. */
import { Schema } from "effect"
import {
  Currency,
  instantIn,
  lineOf,
  Part,
  pageAt,
  pageCount,
  RailId,
  Reference,
  readerOf,
  tokenIn,
  Words,
  wholeNumber,
} from "../fields.ts"
import type { ListedPage, RailPage, RailRefund, RailTransaction, SavedMethod, TokenCharge } from "../Rail.ts"
import { isNotFound, type Refusal } from "../readAnswer.ts"
import { codeIn, declineCode } from "../wording.ts"
import { toKobo } from "./naira.ts"

const TransactionAnswer = Schema.Struct({
  status: Schema.Literal("success"),
  message: Words,
  data: Schema.Struct({
    id: RailId,
    tx_ref: Reference,
    amount: Part,
    currency: Currency,
    status: Schema.Literals(["successful", "failed", "pending"]),
    processor_response: Words,
    card: Part,
    customer: Part,
  }),
})

const Card = Schema.Struct({
  token: Schema.String,
  type: Part,
  last_4digits: Part,
  issuer: Part,
  expiry: Part,
})

const RefusalAnswer = Schema.Struct({ status: Schema.Literal("error"), message: Words })

const PageAnswer = Schema.Struct({
  status: Schema.Literal("success"),
  data: Schema.Struct({ link: Schema.String }),
})

const RefundAnswer = Schema.Struct({
  status: Schema.Literal("success"),
  data: Schema.Struct({ id: RailId, status: Schema.String }),
})

/** The confirmation by the customer that a charge waits for. */
const Meta = Schema.Struct({
  authorization: Schema.Struct({ mode: Schema.Literals(["redirect", "otp", "pin", "avs_noauth"]) }),
})

/** A started charge. */
const PendingAnswer = Schema.Struct({
  status: Schema.Literal("success"),
  data: Schema.Struct({ status: Schema.Literal("pending"), tx_ref: Schema.optionalKey(Reference), meta: Part }),
  meta: Part,
})

const ListAnswer = Schema.Struct({ status: Schema.Literal("success"), data: Schema.Array(Schema.Unknown), meta: Part })

const readTransaction = readerOf(TransactionAnswer)
const readPending = readerOf(PendingAnswer)
const readCard = readerOf(Card)
const readCustomer = readerOf(Schema.Struct({ email: Schema.String }))
const readRefusal = readerOf(RefusalAnswer)
const readPage = readerOf(PageAnswer)
const readRefund = readerOf(RefundAnswer)
const readMeta = readerOf(Meta)
const readList = readerOf(ListAnswer)
const readListed = readerOf(Schema.Struct({ tx_ref: Reference, meta: Part, created_at: Part }))
const readPages = readerOf(Schema.Struct({ page_info: Schema.Struct({ total_pages: Part }) }))

/** An `issuer` names the card's product as often as its bank. */
const PRODUCT = /\b(?:credit|debit|prepaid|classic|gold|platinum|standard|mastercard|visa|verve)\b/i

const STATUSES = { successful: "succeeded", failed: "failed", pending: "pending" } as const

const savedOf = (card: unknown, customer: unknown): SavedMethod | null => {
  const found = readCard(card)
  const usable = tokenIn(found?.token, readCustomer(customer)?.email)
  if (found === undefined || usable === undefined) return null
  const [, month, year] = /^\s*(\d{1,2})\s*\/\s*(?:20)?(\d{2})\s*$/.exec(String(found.expiry)) ?? []
  return {
    ...usable,
    type: "card",
    brand: lineOf(found.type, 30)?.toLowerCase() ?? null,
    last4: lineOf(found.last_4digits, 4),
    bank_name: PRODUCT.test(String(found.issuer)) ? null : lineOf(found.issuer, 100),
    exp_month: wholeNumber(month, 1, 12),
    exp_year: year === undefined ? null : 2000 + Number(year),
    // Flutterwave gives no sign that two tokens are of one card.
    signature: null,
  }
}

/** Returns the reason of a failure: the transaction's, or else the answer's own message, such as "Insufficient Funds". */
const wordsOf = ({ message, data }: typeof TransactionAnswer.Type): string | null =>
  data.processor_response ?? (codeIn(message) === undefined ? null : (message ?? null))

export const transactionIn = (body: unknown): RailTransaction | undefined => {
  const answer = readTransaction(body)
  if (answer === undefined) return undefined
  const { data } = answer
  const status = STATUSES[data.status]
  const words = status === "failed" ? wordsOf(answer) : (data.processor_response ?? null)
  const amount = data.amount === undefined || data.amount === null ? null : (toKobo(data.amount) ?? "unreadable")
  const currency = data.currency?.toUpperCase() ?? null
  return {
    kind: "transaction",
    status,
    reference: data.tx_ref,
    // A paid transaction must have an amount.
    amountKobo: status === "succeeded" ? (amount ?? "unreadable") : amount,
    currency,
    railId: data.id ?? null,
    code: status === "failed" ? declineCode(words) : null,
    message: words,
    retryAt: null,
    saved: status === "succeeded" ? savedOf(data.card, data.customer) : null,
  }
}

/**
 * Reads the answer to a charge of a token. A charge that waits for the customer, who is not present, has failed. Such an answer may
 * have no other fields.
 */
export const chargeIn = (body: unknown, charge: TokenCharge): RailTransaction | undefined => {
  const transaction = transactionIn(body)
  if (transaction !== undefined && transaction.status !== "pending") return transaction
  const pending = readPending(body)
  const confirmation = readMeta(pending?.data.meta) ?? readMeta(pending?.meta)
  if (pending === undefined || confirmation === undefined) return transaction
  const { reference, amountKobo } = charge
  const defaults = { amountKobo, currency: "NGN", railId: null, message: null, retryAt: null, saved: null }
  return {
    kind: "transaction",
    reference: pending.data.tx_ref ?? reference,
    ...(transaction ?? defaults),
    status: "failed",
    code: "authentication_required",
  }
}

/** Matches duplicate charges and duplicate refunds. */
const DUPLICATE =
  /duplicate|refund\b.*already|already\b.*refund|fully refunded|(?:tx_?ref|reference)\b.*\b(?:already|exists|used)|already.*\b(?:tx_?ref|reference)\b/i
/** The messages of unknown objects. Status 404 means the same (isNotFound). */
const UNKNOWN = /no (?:transaction|refund)\b.*found|(?:transaction|refund)\b.*(?:not found|not exist)/i

/** Reads an error; undefined if it is not an error of Flutterwave. */
export const refusalIn = (status: number, body: unknown): Refusal | undefined => {
  const refusal = readRefusal(body)
  if (refusal === undefined) return undefined
  const message = refusal.message ?? null
  if (status === 401 || status === 403) return { kind: "refused", code: "rail_misconfigured", message }
  const code = declineCode(message)
  if (DUPLICATE.test(message ?? "")) return { kind: "duplicate", code, message }
  const isUnknown = isNotFound(status, message ?? "") || UNKNOWN.test(message ?? "")
  return { kind: isUnknown ? "unknown" : "refused", code, message }
}

export const pageIn = (body: unknown): RailPage | undefined => pageAt(readPage(body)?.data.link)

/** Reads statuses such as `completed` and `pending`, also `completed-mpgs` and `pending-momo`. */
const refundStatus = (status: string): RailRefund["status"] | undefined => {
  if (/^completed\b/.test(status)) return "returned"
  if (/^(?:pending|new|processing)\b/.test(status)) return "pending"
  return status === "failed" ? "failed" : undefined
}

export const refundIn = (body: unknown): RailRefund | undefined => {
  const data = readRefund(body)?.data
  const status = data === undefined ? undefined : refundStatus(data.status)
  return status === undefined ? undefined : { kind: "refund", status, refundId: data?.id ?? null, message: null }
}

/** Reads a list. Skips items without a reference that can be ours. */
export const listIn = (body: unknown): ListedPage | undefined => {
  const answer = readList(body)
  if (answer === undefined) return undefined
  const transactions = answer.data.flatMap((item) => {
    const found = readListed(item)
    if (found === undefined) return []
    return [{ reference: found.tx_ref, metadata: found.meta ?? null, at: instantIn(found.created_at) }]
  })
  return { kind: "listed", transactions, pages: pageCount(readPages(answer.meta)?.page_info.total_pages) }
}
