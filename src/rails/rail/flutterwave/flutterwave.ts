/** The adapter to version 3 of Flutterwave's API. */
import { Effect, Redacted } from "effect"
import { DAY_MS, formatDayOf } from "../../../base/time.ts"
import type { RailClient } from "../http.ts"
import {
  type Listing,
  MIN_TRANSFER_KOBO,
  type PagePayment,
  type Rail,
  type RefundCall,
  type TokenCharge,
} from "../Rail.ts"
import { callRail, refusalReaders } from "../readAnswer.ts"
import { chargeIn, listIn, pageIn, refundIn, refusalIn, transactionIn } from "./answers.ts"
import { announcementIn, isSigned } from "./callbacks.ts"
import { toNaira } from "./naira.ts"

/** As long as we wait for a payment on a page (decision P6). */
const SESSION_MINUTES = 30
/** Few: a reported failure settles the charge, and a payment that succeeds after it must be refunded. */
const MAX_RETRIES = 1
/** An amount below the transfer minimum is charged to save a payment method, which only cards support. */
const SAVING = "card"
const ALL = "card,account,ussd,banktransfer"

const chargeBody = ({ reference, amountKobo, token, email, metadata }: TokenCharge) => ({
  token: Redacted.value(token),
  email,
  currency: "NGN",
  country: "NG",
  amount: toNaira(amountKobo),
  tx_ref: reference,
  meta: metadata,
})

const pageBody = ({ reference, amountKobo, email, name, phone, returnUrl, description, metadata }: PagePayment) => ({
  tx_ref: reference,
  amount: toNaira(amountKobo),
  currency: "NGN",
  redirect_url: returnUrl,
  payment_options: amountKobo < MIN_TRANSFER_KOBO ? SAVING : ALL,
  customer: { email, name, ...(phone === null ? {} : { phonenumber: phone }) },
  customizations: { title: description, description },
  configurations: { session_duration: SESSION_MINUTES, max_retry_attempt: MAX_RETRIES },
  meta: metadata,
})

const { declined, notSentBack, unanswered } = refusalReaders(refusalIn)

const noRailId = {
  kind: "refused",
  code: "processor_error",
  message: "Flutterwave's number of the transaction is not known.",
} as const

export const flutterwave = (client: RailClient): Rail => ({
  name: "flutterwave",

  charge: Effect.fn("flutterwave.charge")((charge, { secret_key: secret }) => {
    const { token } = charge
    return callRail(
      client,
      { method: "POST", path: "/v3/tokenized-charges", secret, body: chargeBody(charge), token },
      (body) => chargeIn(body, charge),
      declined,
    )
  }),

  openPage: Effect.fn("flutterwave.openPage")((payment, { secret_key: secret }) =>
    callRail(client, { method: "POST", path: "/v3/payments", secret, body: pageBody(payment) }, pageIn, declined),
  ),

  ask: Effect.fn("flutterwave.ask")((reference, { secret_key: secret }) => {
    const path = `/v3/transactions/verify_by_reference?tx_ref=${encodeURIComponent(reference)}`
    return callRail(
      client,
      { method: "GET", path, secret },
      // Flutterwave may send an error with status 200.
      (body) => transactionIn(body) ?? unanswered(200, body),
      unanswered,
    )
  }),

  list: Effect.fn("flutterwave.list")(({ since, until, page }: Listing, { secret_key: secret }) => {
    // Flutterwave counts days in Lagos time, an hour ahead of UTC: one more day on each side leaves none out.
    const [from, to] = [formatDayOf(since - DAY_MS), formatDayOf(until + DAY_MS)]
    const path = `/v3/transactions?${new URLSearchParams({ from, to, page: String(page) })}`
    return callRail(client, { method: "GET", path, secret }, listIn, declined)
  }),

  refund: Effect.fn("flutterwave.refund")(({ railId, amountKobo }: RefundCall, { secret_key: secret }) => {
    if (railId === null) return Effect.succeed(noRailId)
    const path = `/v3/transactions/${encodeURIComponent(railId)}/refund`
    const body = { amount: toNaira(amountKobo) }
    return callRail(client, { method: "POST", path, secret, body }, refundIn, notSentBack)
  }),

  askRefund: Effect.fn("flutterwave.askRefund")((refundId, { secret_key: secret }) => {
    const path = `/v3/refunds/${encodeURIComponent(refundId)}`
    return callRail(client, { method: "GET", path, secret }, refundIn, unanswered)
  }),

  isSigned,
  announcementIn,
})
