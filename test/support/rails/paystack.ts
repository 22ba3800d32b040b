/**
 * A stand-in for Paystack: kobo on the wire, references of letters, digits, `-`, `.` and `=`, and transaction numbers
 * beyond 2^53, whose neighbours are equal when read as doubles.
 */
import { createHmac } from "node:crypto"
import type { CallKind } from "./fault.ts"
import {
  bad,
  DUPLICATE,
  good,
  NO_SUCH_CODE,
  NOT_THEIRS,
  pageOf,
  REFUND_STATUS,
  refundOf,
  transactionOf,
  verifiedOf,
} from "./paystackShapes.ts"
import { StandIn, type StandInOptions } from "./standIn.ts"
import type { Happening, Outcome, Transaction } from "./transaction.ts"
import { type Announcement, type ParsedCall, type Reply, type Request, textOf, type Wire, withQuery } from "./wire.ts"

/** The refusals common to charging and opening a page. undefined: no refusal. */
const objectionTo = ({ body, books }: Request): Reply | undefined => {
  const reference = textOf(body.reference)
  if (!/^[A-Za-z0-9.=-]+$/.test(reference))
    return bad(400, "invalid_params", "Invalid Transaction Reference", "Use letters, digits, -, . and = only.")
  if (!/^[^@\s]+@[^@\s]+\.[^@\s]+$/.test(textOf(body.email)))
    return bad(400, "invalid_email_address", "Invalid Email Address Passed", "Pass a valid email address.")
  if (!/^[1-9]\d*$/.test(String(body.amount)))
    return bad(400, "invalid_amount", "Invalid Amount Sent", "Pass a whole number of kobo.")
  if (body.currency !== undefined && body.currency !== "NGN")
    return bad(403, "unsupported_currency", "Currency not supported by merchant", "Pass a currency that is enabled.")
  return books.transactions.has(reference) ? DUPLICATE : undefined
}

const charge = (request: Request, outcome: Outcome | undefined): Reply => {
  const { body, books, now } = request
  const token = books.tokens.get(textOf(body.authorization_code))
  const objection =
    objectionTo(request) ??
    (token === undefined ? NO_SUCH_CODE : undefined) ??
    (token?.active && token.reusable && token.email === body.email ? undefined : NOT_THEIRS)
  if (objection !== undefined) return objection
  const transaction = books.open({
    reference: textOf(body.reference),
    amountKobo: Number(body.amount),
    currency: "NGN",
    email: textOf(body.email),
    channel: "token",
    token: token!,
    at: now,
    metadata: body.metadata ?? null,
  })
  books.apply(transaction, outcome)
  if (transaction.steppedUp)
    return good("Please, redirect your customer to the authorization url provided", {
      ...pageOf(transaction, request.origin),
      paused: true,
    })
  const data = transactionOf(transaction, now)
  return transaction.status === "failed" && transaction.spoken === "error"
    ? {
        status: 400,
        body: { status: false, message: transaction.words, type: "processor_error", code: "charge_failed", data },
      }
    : good("Charge attempted", data)
}

/** Metadata comes as an object or as JSON in a string. */
const cancelUrlOf = (metadata: unknown): string | null => {
  try {
    const read: unknown = typeof metadata === "string" ? JSON.parse(metadata) : metadata
    return textOf((read as { readonly cancel_action?: unknown } | null | undefined)?.cancel_action) || null
  } catch {
    return null
  }
}

const initialize = (request: Request): Reply => {
  const { body, books, origin, now } = request
  const objection = objectionTo(request)
  if (objection !== undefined) return objection
  const transaction = books.open({
    reference: textOf(body.reference),
    amountKobo: Number(body.amount),
    currency: "NGN",
    email: textOf(body.email),
    channel: "page",
    at: now,
    metadata: body.metadata ?? null,
    returnUrl: textOf(body.callback_url) || null,
    cancelUrl: cancelUrlOf(body.metadata),
  })
  return good("Authorization URL created", pageOf(transaction, origin))
}

const verify = ({ books, now }: Request, reference: string, unknownStatus: number): Reply => {
  const transaction = books.transactions.get(reference)
  if (transaction === undefined)
    return bad(
      unknownStatus,
      "transaction_not_found",
      "Transaction reference not found.",
      "Ensure that you're passing the reference of a transaction that exists on this integration",
    )
  books.ask(transaction)
  return good("Verification successful", verifiedOf(transaction, now))
}

const MAX_PER_PAGE = 100

const list = ({ query, books }: Request): Reply => {
  const [perPage, page] = [Math.min(Number(query.get("perPage") ?? 50), MAX_PER_PAGE), Number(query.get("page") ?? 1)]
  const [from, to] = [query.get("from"), query.get("to")].map((text) => Date.parse(text ?? ""))
  if (!(perPage > 0 && page > 0) || Number.isNaN(from) || Number.isNaN(to))
    return bad(400, "invalid_params", "Invalid page or date", "Pass dates in ISO 8601 and whole numbers from 1.")
  const { transactions, total, pages } = books.list(from!, to!, page, perPage)
  return {
    status: 200,
    body: {
      status: true,
      message: "Transactions retrieved",
      data: transactions.map((one) => verifiedOf(one, one.at)),
      meta: { total, skipped: (page - 1) * perPage, perPage, page, pageCount: pages },
    },
  }
}

/** A refund is by reference or by number, the number as text or as a number of JSON. */
const refunded = ({ body, books }: Request): Transaction | undefined => {
  const wanted = String(body.transaction)
  return books.transactions.get(wanted) ?? books.byNumber.get(wanted)
}

/** It returns `pending` first and the result at the next question, by default. */
const AS_EVER: Outcome = { kind: "later", saying: "pending", asks: 1, becomes: { kind: "success" } }

const refund = (request: Request, outcome: Outcome = AS_EVER): Reply => {
  const transaction = refunded(request)
  if (transaction === undefined)
    return bad(404, "transaction_not_found", "Transaction not found", "Pass the reference or number of a transaction.")
  if (transaction.status !== "succeeded")
    return bad(400, "invalid_transaction", "Transaction has not been paid", "Refund what succeeded.")
  const refundable = request.books.refundable(transaction)
  const amountKobo = request.body.amount === undefined ? transaction.amountKobo : Number(request.body.amount)
  if (refundable === 0)
    return bad(400, "transaction_reversed", "Transaction has been fully reversed", "It needs no further refund.")
  if (!(Number.isSafeInteger(amountKobo) && amountKobo > 0 && amountKobo <= refundable))
    return bad(400, "invalid_amount", "Refund amount cannot be more than transaction amount", "Pass a smaller amount.")
  const made = request.books.refund(transaction, amountKobo, outcome)
  return good("Refund has been queued for processing", {
    transaction: { id: transaction.number, reference: transaction.reference, amount: transaction.amountKobo },
    ...refundOf(made, transaction),
  })
}

const refundStatus = ({ books }: Request, id: string): Reply => {
  const found = books.refunds.get(id)
  if (found === undefined) return bad(404, "not_found", "Refund not found", "Pass the number of a refund.")
  books.askRefund(found)
  const transaction = books.get(found.reference)
  return good("Refund retrieved", { transaction: transaction.number, ...refundOf(found, transaction) })
}

const understand = (request: Request, unknownStatus: number): ParsedCall | undefined => {
  const { method, path, body, books } = request
  const call = (kind: CallKind, reference: string, perform: ParsedCall["perform"], amount?: unknown): ParsedCall => ({
    kind,
    reference,
    amountKobo: amount === undefined ? null : Number(amount),
    perform,
  })
  const [first, second, third] = path.split("/").slice(1).map(decodeURIComponent)
  switch (`${method} ${first}/${second ?? ""}`) {
    case "POST transaction/charge_authorization":
      return call("charge", textOf(body.reference), (outcome) => charge(request, outcome), body.amount)
    case "POST transaction/initialize":
      return call("open", textOf(body.reference), () => initialize(request), body.amount)
    case "GET transaction/verify":
      return call("verify", third ?? "", () => verify(request, third ?? "", unknownStatus))
    case "GET transaction/":
      return call("list", "", () => list(request))
    case "POST refund/":
      return call("refund", refunded(request)?.reference ?? "", (outcome) => refund(request, outcome), body.amount)
  }
  return method === "GET" && first === "refund" && second !== undefined
    ? call("refund_status", books.refunds.get(second)?.reference ?? "", () => refundStatus(request, second))
    : undefined
}

/** Successes and refunds are announced, failures are not. */
const announce = (happening: Happening, now: number): Announcement | undefined => {
  const { transaction } = happening
  if (happening.kind === "transaction")
    return transaction.status === "succeeded"
      ? { event: "charge.success", data: verifiedOf(transaction, now) }
      : undefined
  const { refund } = happening
  return {
    event: `refund.${REFUND_STATUS[refund.status]}`,
    data: {
      status: REFUND_STATUS[refund.status],
      transaction_reference: transaction.reference,
      refund_reference: String(refund.id),
      amount: String(refund.amountKobo),
      currency: "NGN",
      customer: { email: transaction.email },
      domain: "live",
    },
  }
}

const wire = (unknownStatus: number): Wire => ({
  numbering: {
    transaction: 2n ** 53n + 1n,
    refund: 2n ** 53n + 1_000_000_001n,
    token: (ordinal) => `AUTH_${ordinal.toString(36).padStart(10, "0")}`,
    // An amount under ₦50 saves nothing.
    minimumToSaveKobo: 5_000,
  },
  spelling: (reference) => reference.replaceAll("_", "-"),
  understand: (request) => understand(request, unknownStatus),
  unauthorized: bad(401, "invalid_Key", "Invalid key", "Provide the correct authorization key for the request"),
  notFound: bad(404, "unknown_route", "That endpoint does not exist", "See the documentation.", "api_error"),
  tooMany: bad(429, "rate_limited", "You have exceeded the rate limit", "Slow down.", "api_error"),
  unavailable: (status) => bad(status, "unknown", "An unexpected error occurred", "Verify the reference.", "api_error"),
  returnTo: (transaction, act) =>
    act === "leave" && transaction.cancelUrl !== null
      ? transaction.cancelUrl
      : withQuery(transaction.returnUrl, { trxref: transaction.reference, reference: transaction.reference }),
  announce,
  sign: ({ secretKey }, body) => ({
    "x-paystack-signature": createHmac("sha512", secretKey).update(body).digest("hex"),
  }),
})

export interface PaystackOptions extends StandInOptions {
  /** The HTTP status of verifying an unknown reference. Default 404. */
  readonly unknownStatus?: 400 | 404
}

export const startPaystack = ({ unknownStatus = 404, ...options }: PaystackOptions = {}): Promise<StandIn> =>
  StandIn.start(wire(unknownStatus), { secretKey: "sk_live_standin", ...options })
