/** Reads Paystack's answers. Their amounts are in kobo. */
import { Schema } from "effect"
import { PREFIXES } from "../../../base/ids.ts"
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
import type { FailureCode, PaymentMethodType } from "../PaymentRail.ts"
import type { ListedPage, RailPage, RailRefund, RailTransaction, SavedMethod } from "../Rail.ts"
import { isNotFound, type Refusal } from "../readAnswer.ts"
import { codeIn, declineCode } from "../wording.ts"

/** Converts our ID, which has one underscore, to a reference: Paystack accepts no underscore. */
export const toPaystack = (reference: string): string => reference.replace("_", "-")
export const fromPaystack = (reference: string): string => reference.replace("-", "_")

/** Matches our references in Paystack's spelling. */
const OWN = new RegExp(`^(${PREFIXES.charge}|${PREFIXES.verification})-`)

/** Converts one of our references from Paystack's spelling. References of other systems stay as they are. */
export const ownFromPaystack = (reference: string): string => reference.replace(OWN, "$1_")

const Kobo = Schema.Union([Schema.Int, Schema.String.check(Schema.isPattern(/^\d{1,16}$/))]).check(
  Schema.makeFilter((value: number | string) => Number(value) >= 0 && Number.isSafeInteger(Number(value))),
)

const TransactionAnswer = Schema.Struct({
  status: Schema.Literal(true),
  data: Schema.Struct({
    id: RailId,
    status: Schema.Literals([
      "success",
      "failed",
      "abandoned",
      "ongoing",
      "pending",
      "processing",
      "queued",
      "reversed",
    ]),
    reference: Reference,
    amount: Part,
    requested_amount: Part,
    currency: Currency,
    gateway_response: Words,
    message: Words,
    retry_by: Part,
    authorization: Part,
    customer: Part,
  }),
})

/** A charge that the customer would have to confirm. */
const PausedAnswer = Schema.Struct({
  status: Schema.Literal(true),
  message: Words,
  data: Schema.Struct({ paused: Schema.Literal(true), reference: Reference, status: Part }),
})

const Authorization = Schema.Struct({
  authorization_code: Schema.String,
  // Without this field the authorization is reusable.
  reusable: Schema.optionalKey(Schema.Literal(true)),
  channel: Part,
  brand: Part,
  card_type: Part,
  last4: Part,
  exp_month: Part,
  exp_year: Part,
  bank: Part,
  signature: Part,
})

/** Some of Paystack's samples have the status in quotes. */
const RefusalAnswer = Schema.Struct({
  status: Schema.Literals([false, "false"]),
  message: Words,
  code: Words,
  type: Words,
  data: Part,
})

const PageAnswer = Schema.Struct({
  status: Schema.Literal(true),
  data: Schema.Struct({ authorization_url: Schema.String }),
})

const RefundAnswer = Schema.Struct({
  status: Schema.Literal(true),
  data: Schema.Struct({
    id: RailId,
    status: Schema.Literals(["pending", "processing", "needs-attention", "processed", "failed"]),
    reason: Words,
  }),
})

const ListAnswer = Schema.Struct({ status: Schema.Literal(true), data: Schema.Array(Schema.Unknown), meta: Part })

const isKobo = Schema.is(Kobo)
const readTransaction = readerOf(TransactionAnswer)
const readPaused = readerOf(PausedAnswer)
const readAuthorization = readerOf(Authorization)
const readCustomer = readerOf(Schema.Struct({ email: Schema.String }))
const readRefusal = readerOf(RefusalAnswer)
const readPage = readerOf(PageAnswer)
const readRefund = readerOf(RefundAnswer)
const readList = readerOf(ListAnswer)
const readListed = readerOf(Schema.Struct({ reference: Reference, metadata: Part, paid_at: Part, created_at: Part }))
const readMeta = readerOf(Schema.Struct({ pageCount: Part }))
const readThrottled = readerOf(Schema.Struct({ retry_by: Schema.String }))

const STATUSES = {
  success: "succeeded",
  failed: "failed",
  abandoned: "abandoned",
  ongoing: "ongoing",
  pending: "pending",
  processing: "pending",
  queued: "pending",
  // Paid, and sent back later.
  reversed: "failed",
} as const satisfies Record<string, RailTransaction["status"]>

/** Whether the status in a callback says that the payment failed or was sent back. */
export const isDenial = (status: unknown): boolean => status === "failed" || status === "reversed"

const TYPES: Readonly<Record<string, PaymentMethodType>> = {
  bank: "bank_account",
  direct_debit: "bank_account",
  ussd: "ussd",
}

const savedOf = (authorization: unknown, customer: unknown): SavedMethod | null => {
  const found = readAuthorization(authorization)
  const usable = tokenIn(found?.authorization_code, readCustomer(customer)?.email)
  if (found === undefined || usable === undefined) return null
  const type = TYPES[String(found.channel)] ?? "card"
  return {
    ...usable,
    type,
    brand: type === "card" ? (lineOf(found.brand ?? found.card_type, 30)?.toLowerCase() ?? null) : null,
    last4: lineOf(found.last4, 4),
    bank_name: lineOf(found.bank, 100),
    exp_month: type === "card" ? wholeNumber(found.exp_month, 1, 12) : null,
    exp_year: type === "card" ? wholeNumber(found.exp_year, 2000, 2100) : null,
    signature: lineOf(found.signature, 200),
  }
}

type TransactionData = (typeof TransactionAnswer.Type)["data"]

const failureOf = ({ status, gateway_response, message, retry_by }: TransactionData): FailureCode => {
  if (status === "reversed") return "processor_error"
  return typeof retry_by === "string" ? "card_throttled" : declineCode(gateway_response, message)
}

const koboIn = (value: unknown): RailTransaction["amountKobo"] => {
  if (value === undefined || value === null) return null
  return isKobo(value) ? Number(value) : "unreadable"
}

export const transactionIn = (body: unknown): RailTransaction | undefined => {
  const data = readTransaction(body)?.data
  if (data === undefined) return undefined
  const status = STATUSES[data.status]
  const [succeeded, failed] = [status === "succeeded", status === "failed"]
  const words = data.gateway_response ?? data.message ?? null
  const amount = koboIn(data.requested_amount) ?? koboIn(data.amount)
  const currency = data.currency?.toUpperCase() ?? null
  return {
    kind: "transaction",
    status,
    ...(data.status === "reversed" ? { reversed: true as const } : {}),
    reference: fromPaystack(data.reference),
    // A paid transaction must have an amount.
    amountKobo: succeeded ? (amount ?? "unreadable") : amount,
    currency,
    railId: data.id ?? null,
    code: failed ? failureOf(data) : null,
    message: data.status === "reversed" ? `Reversed at Paystack: ${words ?? "no reason given"}` : words,
    retryAt: failed ? instantIn(data.retry_by) : null,
    saved: succeeded || data.status === "reversed" ? savedOf(data.authorization, data.customer) : null,
  }
}

/** A charge that failed before Paystack made a transaction of it: the amount is the requested one. */
const failedUnmade = (
  reference: string,
  amountKobo: number,
  failure: Pick<RailTransaction, "code" | "message" | "retryAt">,
): RailTransaction => ({
  kind: "transaction",
  status: "failed",
  reference,
  amountKobo,
  currency: "NGN",
  railId: null,
  saved: null,
  ...failure,
})

export const pausedIn = (body: unknown, amountKobo: number): RailTransaction | undefined => {
  const paused = readPaused(body)
  if (paused === undefined || paused.data.status === "success") return undefined
  const failure = { code: "authentication_required", message: paused.message ?? null, retryAt: null } as const
  return failedUnmade(fromPaystack(paused.data.reference), amountKobo, failure)
}

/** Reads the refusal of a card that failed too often: it may be charged once a day. */
export const throttledIn = (body: unknown, reference: string, amountKobo: number): RailTransaction | undefined => {
  const refusal = readRefusal(body)
  if (refusal === undefined) return undefined
  const retryBy = readThrottled(refusal.data)?.retry_by
  if (retryBy === undefined && codeIn(refusal.message) !== "card_throttled") return undefined
  const message = refusal.message ?? null
  return failedUnmade(reference, amountKobo, { code: "card_throttled", message, retryAt: instantIn(retryBy) })
}

/** The message gives no other reason. */
const DECLINED = /\bdeclined\b/i
const DUPLICATE = /duplicate[ _](?:transaction[ _])?reference/i
const SENT_BACK_BEFORE = /transaction[_ ]reversed|fully reversed|refund\b.*already|already\b.*refund/i
/** The messages of unknown objects. Status 404 means the same (isNotFound). */
const UNKNOWN =
  /(?:transaction|reference|refund)\b.*not[ _]found|does not exist|(?:invalid|unknown|no such) (?:transaction|reference)/i

/** Reads an answer of status 4xx; undefined if it is not an error of Paystack. */
export const refusalIn = (status: number, body: unknown): Refusal | undefined => {
  const refusal = readRefusal(body)
  if (refusal === undefined) return undefined
  const message = refusal.message ?? null
  if (status === 401 || status === 403) return { kind: "refused", code: "rail_misconfigured", message }
  const text = `${refusal.code ?? ""} ${message ?? ""}`
  const isServerSide = /^(?:processor|api)_error$/.test(refusal.type ?? "")
  const isDecline = !isServerSide || DECLINED.test(message ?? "")
  const code = codeIn(message) ?? (isDecline ? "unknown_decline" : "processor_error")
  if (DUPLICATE.test(text) || SENT_BACK_BEFORE.test(text)) return { kind: "duplicate", code, message }
  const isUnknown = isNotFound(status, text) || (status === 400 && UNKNOWN.test(text))
  return { kind: isUnknown ? "unknown" : "refused", code, message }
}

export const pageIn = (body: unknown): RailPage | undefined => pageAt(readPage(body)?.data.authorization_url)

const REFUND_STATUSES = {
  pending: "pending",
  processing: "pending",
  // The merchant has to give the customer's bank account: Paystack keeps the money until then.
  "needs-attention": "pending",
  processed: "returned",
  failed: "failed",
} as const satisfies Record<string, RailRefund["status"]>

export const refundIn = (body: unknown): RailRefund | undefined => {
  const data = readRefund(body)?.data
  if (data === undefined) return undefined
  return {
    kind: "refund",
    status: REFUND_STATUSES[data.status],
    refundId: data.id ?? null,
    message: data.reason ?? null,
  }
}

/** Reads a list. Skips items without a reference that can be ours. */
export const listIn = (body: unknown): ListedPage | undefined => {
  const answer = readList(body)
  if (answer === undefined) return undefined
  const transactions = answer.data.flatMap((item) => {
    const found = readListed(item)
    if (found === undefined) return []
    const { reference, metadata = null, paid_at, created_at } = found
    return [{ reference: ownFromPaystack(reference), metadata, at: instantIn(paid_at) ?? instantIn(created_at) }]
  })
  return { kind: "listed", transactions, pages: pageCount(readMeta(answer.meta)?.pageCount) }
}
