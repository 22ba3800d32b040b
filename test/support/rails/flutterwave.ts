/**
 * A stand-in for Flutterwave v3: naira on the wire, kobo in the books; references unchanged; an unpaid page is not a
 * transaction, so a question about it finds none.
 */
import { createHmac } from "node:crypto"
import type { CallKind } from "./fault.ts"
import { StandIn, type StandInOptions } from "./standIn.ts"
import type { Happening, Outcome, Refund, Token, Transaction } from "./transaction.ts"
import {
  type Announcement,
  instant,
  type ParsedCall,
  type Reply,
  type Request,
  textOf,
  type Wire,
  withQuery,
} from "./wire.ts"

const good = (message: string, data: unknown): Reply => ({ status: 200, body: { status: "success", message, data } })
const bad = (status: number, message: string, data: unknown = null): Reply => ({
  status,
  body: { status: "error", message, data },
})

const NOT_FOUND = bad(400, "No transaction was found for this id")

/** Kobo of an amount in naira, a number or text with at most two decimals. null: not a valid amount. */
const koboOf = (naira: unknown): number | null => {
  const parts = /^(\d{1,12})(?:\.(\d{1,2}))?$/.exec(String(naira))
  if (parts === null) return null
  const kobo = Number(parts[1]) * 100 + Number((parts[2] ?? "").padEnd(2, "0"))
  return kobo > 0 ? kobo : null
}

const nairaOf = (kobo: number): number => kobo / 100

const STATUS = { open: "pending", pending: "pending", succeeded: "successful", failed: "failed" } as const

const cardOf = ({ token, reusable, active, card }: Token) => ({
  first_6digits: card.first6,
  last_4digits: card.last4,
  issuer: card.bank,
  country: "NIGERIA NG",
  type: card.type.toUpperCase(),
  expiry: `${card.expMonth}/${card.expYear.slice(2)}`,
  ...(reusable && active ? { token } : {}),
})

const transactionOf = (transaction: Transaction, now: number) => ({
  id: transaction.number,
  tx_ref: transaction.reference,
  flw_ref: `FLW-${transaction.number}`,
  device_fingerprint: "N/A",
  amount: nairaOf(transaction.amountKobo),
  currency: transaction.currency,
  charged_amount: nairaOf(transaction.amountKobo + transaction.feesKobo),
  app_fee: transaction.status === "succeeded" ? 11.5 : null,
  merchant_fee: 0,
  processor_response: transaction.words,
  auth_model: transaction.channel === "token" ? "noauth" : "VBVSECURECODE",
  ip: "127.0.0.1",
  narration: "CARD Transaction",
  status: STATUS[transaction.status],
  payment_type: transaction.paidBy,
  created_at: instant(now),
  account_id: 17321,
  customer: { id: 210745229, name: "Anonymous customer", phone_number: "N/A", email: transaction.email },
  ...(transaction.paidBy === "card" && transaction.token !== null ? { card: cardOf(transaction.token) } : {}),
  ...(transaction.retryBy === null ? {} : { retry_by: transaction.retryBy }),
})

const pageUrl = (transaction: Transaction, origin: string): string => `${origin}/page/${transaction.code}`

const objectionTo = (body: Request["body"], email: unknown): Reply | undefined => {
  if (textOf(body.tx_ref) === "") return bad(400, "tx_ref is required")
  if (koboOf(body.amount) === null) return bad(400, "amount should be a valid number with at most two decimals")
  if (body.currency !== "NGN") return bad(400, "This currency is not enabled on this merchant account")
  return textOf(email).includes("@") ? undefined : bad(400, "email is required")
}

const charge = ({ body, books, origin, now }: Request, outcome: Outcome | undefined): Reply => {
  const objection = objectionTo(body, body.email)
  if (objection !== undefined) return objection
  const token = books.tokens.get(textOf(body.token))
  if (token === undefined || !token.reusable || token.email !== body.email)
    return bad(400, "Wrong token or email passed", {
      is_error: true,
      code: "ERR",
      message: "Wrong token or email passed",
    })
  if (!token.active) return bad(400, "Token has expired")
  const reference = textOf(body.tx_ref)
  if (books.transactions.has(reference)) return bad(400, "Duplicate transaction reference")
  const amountKobo = koboOf(body.amount)!
  const transaction = books.open({
    reference,
    amountKobo,
    currency: "NGN",
    email: token.email,
    channel: "token",
    token,
    at: now,
    metadata: body.meta ?? null,
  })
  books.apply(transaction, outcome)
  const data = transactionOf(transaction, now)
  if (transaction.status === "failed" && transaction.spoken === "error") return bad(400, transaction.words, null)
  if (!transaction.steppedUp) return good("Charge successful", data)
  const redirect = pageUrl(transaction, origin)
  return good("Charge initiated", { ...data, meta: { authorization: { mode: "redirect", redirect } } })
}

/** A page that is still open is answered with its link again. */
const openPage = ({ body, books, origin, now }: Request): Reply => {
  const email = (body.customer as { readonly email?: unknown } | undefined)?.email
  const objection = objectionTo(body, email)
  if (objection !== undefined) return objection
  const reference = textOf(body.tx_ref)
  const existing = books.transactions.get(reference)
  if (existing !== undefined && !(existing.status === "open" && existing.channel === "page"))
    return bad(400, "Duplicate transaction reference")
  const transaction =
    existing ??
    books.open({
      reference,
      amountKobo: koboOf(body.amount)!,
      currency: "NGN",
      email: textOf(email),
      channel: "page",
      at: now,
      metadata: body.meta ?? null,
      returnUrl: textOf(body.redirect_url) || null,
    })
  return good("Hosted Link", { link: pageUrl(transaction, origin) })
}

const verify = ({ books, now }: Request, reference: string): Reply => {
  const transaction = books.transactions.get(reference)
  if (transaction === undefined || (transaction.status === "open" && !transaction.steppedUp)) return NOT_FOUND
  books.ask(transaction)
  return good("Transaction fetched successfully", transactionOf(transaction, now))
}

const LIST_PAGE = 10
const DAY_MS = 86_400_000

/** Whole days. An unused page is not a transaction. */
const list = ({ query, books }: Request): Reply => {
  const page = Number(query.get("page") ?? 1)
  const [from, to] = [query.get("from"), query.get("to")].map((text) => Date.parse(`${text}T00:00:00Z`))
  if (!(page > 0) || Number.isNaN(from) || Number.isNaN(to))
    return bad(400, "from and to must be dates such as 2026-01-31")
  const { transactions, total, pages } = books.list(from!, to! + DAY_MS - 1, page, LIST_PAGE)
  return {
    status: 200,
    body: {
      status: "success",
      message: "Transactions fetched",
      meta: { page_info: { total, current_page: page, total_pages: pages } },
      data: transactions
        .filter(({ status, steppedUp }) => status !== "open" || steppedUp)
        .map((one) => ({ ...transactionOf(one, one.at), meta: one.metadata })),
    },
  }
}

const REFUND_STATUS = { pending: "pending", returned: "completed", failed: "failed" } as const

const refundOf = (refund: Refund, transaction: Transaction, now: number) => ({
  id: refund.id,
  account_id: 17321,
  tx_id: transaction.number,
  flw_ref: `URF_${refund.id}`,
  wallet_id: 74639,
  amount_refunded: nairaOf(refund.amountKobo),
  status: REFUND_STATUS[refund.status],
  destination: "payment_source",
  meta: { source: "availablebalance" },
  created_at: instant(now),
})

const refund = (request: Request, number: string, outcome: Outcome | undefined): Reply => {
  const transaction = request.books.byNumber.get(number)
  if (transaction === undefined) return NOT_FOUND
  if (transaction.status !== "succeeded") return bad(400, "Only successful transactions can be refunded")
  const refundable = request.books.refundable(transaction)
  const { amount } = request.body
  const amountKobo = amount === undefined ? transaction.amountKobo : koboOf(amount)
  if (refundable === 0) return bad(400, "Transaction has already been refunded")
  if (amountKobo === null || amountKobo > refundable)
    return bad(400, "Refund amount is greater than the transaction amount")
  const made = request.books.refund(transaction, amountKobo, outcome)
  return good("Transaction refund initiated", refundOf(made, transaction, request.now))
}

const refundStatus = ({ books, now }: Request, id: string): Reply => {
  const found = books.refunds.get(id)
  if (found === undefined) return bad(400, "Refund not found")
  books.askRefund(found)
  return good("Refund details fetched", refundOf(found, books.get(found.reference), now))
}

const understand = (request: Request): ParsedCall | undefined => {
  const { method, path, query, body, books } = request
  const call = (kind: CallKind, reference: string, perform: ParsedCall["perform"]): ParsedCall => ({
    kind,
    reference,
    amountKobo: body.amount === undefined ? null : koboOf(body.amount),
    perform,
  })
  switch (`${method} ${path}`) {
    case "POST /v3/tokenized-charges":
      return call("charge", textOf(body.tx_ref), (outcome) => charge(request, outcome))
    case "POST /v3/payments":
      return call("open", textOf(body.tx_ref), () => openPage(request))
    case "GET /v3/transactions/verify_by_reference": {
      const reference = query.get("tx_ref") ?? ""
      return call("verify", reference, () => verify(request, reference))
    }
  }
  if (method === "GET" && path === "/v3/transactions") return call("list", "", () => list(request))
  const number = /^\/v3\/transactions\/([^/]+)\/refund$/.exec(path)?.[1]
  if (method === "POST" && number !== undefined)
    return call("refund", request.books.byNumber.get(number)?.reference ?? "", (outcome) =>
      refund(request, number, outcome),
    )
  const id = /^\/v3\/refunds\/([^/]+)$/.exec(path)?.[1]
  return method === "GET" && id !== undefined
    ? call("refund_status", books.refunds.get(id)?.reference ?? "", () => refundStatus(request, id))
    : undefined
}

/** Successes, failures and results of refunds are announced. A refund names its transaction by number only. */
const announce = (happening: Happening, now: number): Announcement | undefined => {
  const { transaction } = happening
  if (happening.kind === "transaction")
    return {
      event: "charge.completed",
      data: transactionOf(transaction, now),
      "event.type": transaction.paidBy === "card" ? "CARD_TRANSACTION" : "BANK_TRANSFER_TRANSACTION",
    }
  const { refund } = happening
  if (refund.status === "pending") return undefined
  return {
    event: "refund.completed",
    data: {
      id: refund.id,
      AmountRefunded: nairaOf(refund.amountKobo),
      status: REFUND_STATUS[refund.status],
      FlwRef: `FLW-${transaction.number}`,
      TransactionId: transaction.number,
    },
  }
}

const STATUS_ON_RETURN = { pay: "successful", decline: "failed", leave: "cancelled" } as const

const wire: Wire = {
  numbering: {
    transaction: 285_959_875n,
    refund: 75_923n,
    token: (ordinal) => `flw-t1nf-${ordinal.toString(16).padStart(32, "0")}-m03k`,
    minimumToSaveKobo: 0,
  },
  spelling: (reference) => reference,
  understand,
  unauthorized: bad(401, "Invalid authorization key"),
  notFound: bad(404, "Cannot find that endpoint"),
  tooMany: bad(429, "Too many requests"),
  unavailable: (status) => bad(status, "An error occurred while processing your request"),
  returnTo: (transaction, act) =>
    withQuery(transaction.returnUrl, {
      status: transaction.status === "pending" ? "pending" : STATUS_ON_RETURN[act],
      tx_ref: transaction.reference,
      ...(act === "leave" ? {} : { transaction_id: String(transaction.number) }),
    }),
  announce,
  sign: ({ webhookSecret }, body, signature) =>
    signature === "hash"
      ? { "verif-hash": webhookSecret }
      : { "flutterwave-signature": createHmac("sha256", webhookSecret).update(body).digest("base64") },
}

export const startFlutterwave = (options: StandInOptions = {}): Promise<StandIn> =>
  StandIn.start(wire, { secretKey: "FLWSECK-standin-X", webhookSecret: "flutterwave webhook secret", ...options })
