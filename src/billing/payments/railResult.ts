/** Interprets results of calls to outside rails for their charges (decisions P6, P9, P10). Pure. */
import type { ChargeAnswer } from "../../../machines/charge.ts"
import { CURRENCY } from "../../base/money.ts"
import type { RailResult, RailTransaction, SavedMethod } from "../../rails/rail/Rail.ts"
import type { CallKind } from "../../rails/rail_call/queue.ts"
import { ATTENTION_KINDS } from "../charge/api.ts"
import type { Attention, ChargeRow } from "../charge/charge.ts"

type Unstamped<T> = T extends unknown ? Omit<T, "at"> : never

/** An answer that has no time yet. */
export type AnswerWithoutTime = Unstamped<ChargeAnswer>

const EXCEPTION_KINDS = ["amount_differs", "currency_differs", "reference_differs", "amount_exceeds"] as const

/** A rail's statement about a charge that cannot be right. */
export interface RailException {
  readonly kind: (typeof EXCEPTION_KINDS)[number]
  readonly heard_reference: string
  readonly heard_kobo: number | null
  readonly heard_currency: string | null
}

/** The details that come with an answer. */
export interface Particulars {
  /** The address of the rail's page. */
  readonly pageUrl?: string
  /** The rail's own number of the transaction. */
  readonly railId?: string | null
  /** The amount that the rail took (kobo). */
  readonly takenKobo?: number
  /** The payment method that can be charged again; null: none. */
  readonly saved?: SavedMethod | null
  /** The rail takes no further attempt before this instant (ms since the epoch). */
  readonly retryAt?: number | null
  readonly exception?: RailException
  /** The received payment, if it differs from the requested one. */
  readonly attention?: Attention
}

export interface Interpretation extends Particulars {
  readonly answer: AnswerWithoutTime
}

const unsettled = (
  more: { readonly endedAt?: number; readonly refusedFor?: string; readonly ongoing?: true; readonly lost?: true } = {},
): AnswerWithoutTime => ({
  type: "rail.unsettled",
  knownAt: null,
  ...more,
})

const koboOf = ({ amountKobo }: RailTransaction): number | null => (amountKobo === "unreadable" ? null : amountKobo)

/** The difference between a transaction and its charge, because of which it does not count; undefined: none. */
const differenceOf = (charge: ChargeRow, transaction: RailTransaction): RailException["kind"] | undefined => {
  if (transaction.reference !== charge.id) return "reference_differs"
  // A field that the rail leaves out counts as requested; adapters never leave out the paid amount.
  const { status, currency, amountKobo } = transaction
  if (currency !== null && currency !== CURRENCY) return "currency_differs"
  if (amountKobo === "unreadable") return "amount_differs"
  const amount = amountKobo ?? charge.amount_kobo
  const isRight = status === "succeeded" ? amount >= charge.amount_kobo : amount === charge.amount_kobo
  return isRight ? undefined : "amount_differs"
}

/** The attention shown to merchant and buyer for a payment that does not count; undefined: nothing was received. */
const attentionOf = (
  charge: ChargeRow,
  transaction: RailTransaction,
  difference: RailException["kind"],
): Attention | undefined => {
  const kind = ATTENTION_KINDS.find((one) => one === difference)
  return kind === undefined || transaction.status !== "succeeded"
    ? undefined
    : {
        kind,
        expected_amount: charge.amount_kobo,
        received_amount: koboOf(transaction),
        currency: transaction.currency ?? CURRENCY,
      }
}

const ofTransaction = (
  charge: ChargeRow,
  transaction: RailTransaction,
  endedAt: number | undefined,
): Interpretation => {
  const ended = endedAt === undefined ? {} : { endedAt }
  const waiting = unsettled(ended)
  if (transaction.status === "pending") return { answer: waiting }
  if (transaction.status === "ongoing") return { answer: unsettled({ ...ended, ongoing: true }) }
  const exceptionOf = (kind: RailException["kind"]): RailException => ({
    kind,
    heard_reference: transaction.reference,
    heard_kobo: koboOf(transaction),
    heard_currency: transaction.currency,
  })
  const difference = differenceOf(charge, transaction)
  if (difference !== undefined) {
    const attention = attentionOf(charge, transaction, difference)
    return { answer: waiting, exception: exceptionOf(difference), ...(attention === undefined ? {} : { attention }) }
  }
  switch (transaction.status) {
    case "abandoned":
      return { answer: { type: "rail.abandoned" } }
    case "failed":
      return {
        answer: { type: "rail.failed", code: transaction.code ?? "unknown_decline", message: transaction.message },
        retryAt: transaction.retryAt,
      }
    case "succeeded": {
      const { railId, saved } = transaction
      const takenKobo = koboOf(transaction) ?? charge.amount_kobo
      const exceeds = takenKobo > charge.amount_kobo ? { exception: exceptionOf("amount_exceeds") } : {}
      return { answer: { type: "rail.succeeded" }, railId, takenKobo, saved, ...exceeds }
    }
  }
}

const failed = (code: string, message: string | null): Interpretation => ({
  answer: { type: "rail.failed", code, message },
})

const NO_PAGE = "The payment page could not be opened."

/** Interprets a call that opens a page. Without a page nothing can have been paid: the buyer tries again. */
const ofPage = (result: RailResult): Interpretation => {
  if (result.kind === "page") return { answer: { type: "rail.page" }, pageUrl: result.url }
  if (result.kind === "refused") return failed(result.code, result.message)
  return failed(result.kind === "rate_limited" ? "rail_rate_limited" : "processor_error", NO_PAGE)
}

/** Interprets the result of a call; undefined: the call was never made and must still be made. `endedAt`: when the call ended. */
export const interpret = (
  charge: ChargeRow,
  kind: CallKind,
  result: RailResult,
  endedAt: number,
): Interpretation | undefined => {
  if (kind === "open_page") return ofPage(result)
  const isAttempt = kind === "charge"
  switch (result.kind) {
    case "transaction":
      return ofTransaction(charge, result, isAttempt ? endedAt : undefined)
    case "unknown_reference":
      return { answer: { type: "rail.not_found" } }
    case "refused":
      return isAttempt ? failed(result.code, result.message) : { answer: unsettled() }
    case "rate_limited":
      return { answer: unsettled(isAttempt ? { endedAt, refusedFor: "rail_rate_limited" } : {}) }
    case "not_sent":
      return isAttempt ? undefined : { answer: unsettled() }
    case "lost":
      return { answer: unsettled({ endedAt, lost: true }) }
    default:
      return { answer: unsettled(isAttempt ? { endedAt } : {}) }
  }
}

/** Whether a status check was answered: with the transaction under the reference, or that the rail has none. */
export const isAnswered = (charge: ChargeRow, result: RailResult): boolean =>
  result.kind === "unknown_reference" || (result.kind === "transaction" && result.reference === charge.id)
