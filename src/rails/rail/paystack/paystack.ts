/** The adapter to Paystack's API. */
import { Effect, Redacted } from "effect"
import { formatInstant } from "../../../base/time.ts"
import type { RailClient } from "../http.ts"
import { type Listing, MIN_TRANSFER_KOBO, type PagePayment, type Rail, type TokenCharge } from "../Rail.ts"
import { callRail, refusalReaders } from "../readAnswer.ts"
import { listIn, pageIn, pausedIn, refundIn, refusalIn, throttledIn, toPaystack, transactionIn } from "./answers.ts"
import { announcementIn, isSigned } from "./callbacks.ts"

/** A transaction has some 3 KiB, so a page is far below the size limit of an answer. */
const LIST_PAGE = 50

/** An amount below the transfer minimum is charged to save a payment method, which USSD does not support either. */
const SAVING = ["card", "bank"]
const ALL = [...SAVING, "ussd", "bank_transfer"]

const chargeBody = ({ reference, amountKobo, token, email, metadata }: TokenCharge) => ({
  email,
  amount: amountKobo,
  currency: "NGN",
  reference: toPaystack(reference),
  authorization_code: Redacted.value(token),
  metadata,
})

const pageBody = ({ reference, amountKobo, email, returnUrl, metadata }: PagePayment) => ({
  email,
  amount: amountKobo,
  currency: "NGN",
  reference: toPaystack(reference),
  callback_url: returnUrl,
  channels: amountKobo < MIN_TRANSFER_KOBO ? SAVING : ALL,
  // A buyer who cancels is sent there.
  metadata: { ...metadata, cancel_action: returnUrl },
})

const { declined, notSentBack, unanswered } = refusalReaders(refusalIn)

export const paystack = (client: RailClient): Rail => ({
  name: "paystack",

  charge: Effect.fn("paystack.charge")((charge, { secret_key: secret }) => {
    const { reference, amountKobo, token } = charge
    return callRail(
      client,
      { method: "POST", path: "/transaction/charge_authorization", secret, body: chargeBody(charge), token },
      (body) => pausedIn(body, amountKobo) ?? transactionIn(body),
      (status, body) => throttledIn(body, reference, amountKobo) ?? declined(status, body),
    )
  }),

  openPage: Effect.fn("paystack.openPage")((payment, { secret_key: secret }) =>
    callRail(
      client,
      { method: "POST", path: "/transaction/initialize", secret, body: pageBody(payment) },
      pageIn,
      declined,
    ),
  ),

  ask: Effect.fn("paystack.ask")((reference, { secret_key: secret }) => {
    const path = `/transaction/verify/${encodeURIComponent(toPaystack(reference))}`
    return callRail(client, { method: "GET", path, secret }, transactionIn, unanswered)
  }),

  list: Effect.fn("paystack.list")(({ since, until, page }: Listing, { secret_key: secret }) => {
    const [from, to] = [formatInstant(since), formatInstant(until)]
    const path = `/transaction?${new URLSearchParams({ from, to, perPage: String(LIST_PAGE), page: String(page) })}`
    return callRail(client, { method: "GET", path, secret }, listIn, declined)
  }),

  refund: Effect.fn("paystack.refund")(({ reference, amountKobo }, { secret_key: secret }) => {
    const body = { transaction: toPaystack(reference), amount: amountKobo }
    return callRail(client, { method: "POST", path: "/refund", secret, body }, refundIn, notSentBack)
  }),

  askRefund: Effect.fn("paystack.askRefund")((refundId, { secret_key: secret }) => {
    const path = `/refund/${encodeURIComponent(refundId)}`
    return callRail(client, { method: "GET", path, secret }, refundIn, unanswered)
  }),

  isSigned,
  announcementIn,
})
