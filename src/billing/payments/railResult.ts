/** What a rail of the outside world says, and what it means to a charge (decisions P6, P9, P10). Pure. */
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

/** What a rail said of a charge that cannot be right. */
export interface RailException {
  readonly kind: (typeof EXCEPTION_KINDS)[number]
  readonly heard_reference: string
  readonly heard_kobo: number | null
  readonly heard_currency: string | null
}

/** What is known beside the answer itself. */
export interface Particulars {
  /** The address of the rail's page. */
  readonly pageUrl?: string
  /** The rail's own number of the transaction. */
  readonly railId?: string | null
  /** What the rail took (kobo). */
  readonly takenKobo?: number
  /** What can be charged again; null: nothing. */
  readonly saved?: SavedMethod | null
  /** The rail takes no further attempt before (ms since the epoch). */
  readonly retryAt?: number | null
  readonly exception?: RailException
  /** What the rail received, which is not what was asked for. */
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

/** What differs between a transaction and the charge that was asked about, so that it does not count; undefined: nothing. */
const differenceOf = (charge: ChargeRow, heard: RailTransaction): RailException["kind"] | undefined => {
  if (heard.reference !== charge.id) return "reference_differs"
  // What a rail leaves out is as it was asked for; how much was paid, no adapter lets it leave out.
  const { status, currency, amountKobo } = heard
  if (currency !== null && currency !== CURRENCY) return "currency_differs"
  if (amountKobo === "unreadable") return "amount_differs"
  const amount = amountKobo ?? charge.amount_kobo
  const isRight = status === "succeeded" ? amount >= charge.amount_kobo : amount === charge.amount_kobo
  return isRight ? undefined : "amount_differs"
}

/** What a payment that does not count is shown as to the merchant and the buyer; undefined: nothing was received. */
const attentionOf = (
  charge: ChargeRow,
  heard: RailTransaction,
  difference: RailException["kind"],
): Attention | undefined => {
  const kind = ATTENTION_KINDS.find((one) => one === difference)
  return kind === undefined || heard.status !== "succeeded"
    ? undefined
    : {
        kind,
        expected_amount: charge.amount_kobo,
        received_amount: koboOf(heard),
        currency: heard.currency ?? CURRENCY,
      }
}

const ofTransaction = (charge: ChargeRow, heard: RailTransaction, endedAt: number | undefined): Interpretation => {
  const ended = endedAt === undefined ? {} : { endedAt }
  const waiting = unsettled(ended)
  if (heard.status === "pending") return { answer: waiting }
  if (heard.status === "ongoing") return { answer: unsettled({ ...ended, ongoing: true }) }
  const exceptionOf = (kind: RailException["kind"]): RailException => ({
    kind,
    heard_reference: heard.reference,
    heard_kobo: koboOf(heard),
    heard_currency: heard.currency,
  })
  const difference = differenceOf(charge, heard)
  if (difference !== undefined) {
    const attention = attentionOf(charge, heard, difference)
    return { answer: waiting, exception: exceptionOf(difference), ...(attention === undefined ? {} : { attention }) }
  }
  switch (heard.status) {
    case "abandoned":
      return { answer: { type: "rail.abandoned" } }
    case "failed":
      return {
        answer: { type: "rail.failed", code: heard.code ?? "unknown_decline", message: heard.message },
        retryAt: heard.retryAt,
      }
    case "succeeded": {
      const { railId, saved } = heard
      const takenKobo = koboOf(heard) ?? charge.amount_kobo
      const exceeds = takenKobo > charge.amount_kobo ? { exception: exceptionOf("amount_exceeds") } : {}
      return { answer: { type: "rail.succeeded" }, railId, takenKobo, saved, ...exceeds }
    }
  }
}

const failed = (code: string, message: string | null): Interpretation => ({
  answer: { type: "rail.failed", code, message },
})

const NO_PAGE = "The payment page could not be opened."

/** Where no page was opened nobody can have paid: the buyer tries again. */
const ofNoPage = (heard: RailResult): Interpretation => {
  if (heard.kind === "page") return { answer: { type: "rail.page" }, pageUrl: heard.url }
  if (heard.kind === "refused") return failed(heard.code, heard.message)
  return failed(heard.kind === "rate_limited" ? "rail_rate_limited" : "processor_error", NO_PAGE)
}

/** What was heard means; undefined: the call was never made, and is still to be. `endedAt`: when it ended. */
export const interpret = (
  charge: ChargeRow,
  kind: CallKind,
  heard: RailResult,
  endedAt: number,
): Interpretation | undefined => {
  if (kind === "open_page") return ofNoPage(heard)
  const isAttempt = kind === "charge"
  switch (heard.kind) {
    case "transaction":
      return ofTransaction(charge, heard, isAttempt ? endedAt : undefined)
    case "unknown_reference":
      return { answer: { type: "rail.not_found" } }
    case "refused":
      return isAttempt ? failed(heard.code, heard.message) : { answer: unsettled() }
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

/** Whether a question was answered: with what the rail has under the reference, or that it has nothing. */
export const isAnswered = (charge: ChargeRow, heard: RailResult): boolean =>
  heard.kind === "unknown_reference" || (heard.kind === "transaction" && heard.reference === charge.id)
