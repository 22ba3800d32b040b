/**
 * What can go wrong in one call, in two halves that combine freely: what happens at the rail (`outcome`: the books), and what
 * the caller hears (`answer`). Without a half, that half is as if nothing were wrong.
 */
import type { Decline, Outcome, Success } from "./transaction.ts"

/** Answers that are none of the rail's own books. */
export type BrokenAnswer =
  /** Never: the connection stays open until the caller gives up. */
  | "hang"
  /** The connection breaks at once, without a byte of an answer. */
  | "cut"
  /** A page in HTML with this status; 200 too. */
  | { readonly html: number }
  /** This status, in the rail's shape of an error. */
  | { readonly status: 500 | 502 | 503 | 504 }
  /** HTTP 429; with `Retry-After` in seconds, or without (null). */
  | { readonly tooMany: number | null }
  /** HTTP 401, as with a wrong key. */
  | "unauthorized"

/** Answers made of the true one. */
export type DistortedAnswer =
  /** Half of the JSON, sent as if it were all. */
  | "truncated_json"
  /** The head and half of the body, then the connection breaks. */
  | "cut_body"
  /** JSON of the same fields, none of which has the type that it should. */
  | "wrong_types"
  /** The true answer under somebody else's reference. */
  | "wrong_reference"

export type Fault =
  /** The call does not reach the books: nothing is charged, written down or counted as an ask. */
  | { readonly outcome: "nothing"; readonly answer: BrokenAnswer; readonly delayMs?: number }
  | { readonly outcome?: Outcome; readonly answer?: BrokenAnswer | DistortedAnswer; readonly delayMs?: number }

type Silence = "hang" | "cut"
type When = "before" | "after"

const lost = (answer: BrokenAnswer, when: When, outcome?: Outcome): Fault =>
  when === "before" ? { outcome: "nothing", answer } : { ...(outcome && { outcome }), answer }

const SUCCESS: Success = { kind: "success" }

/**
 * The faults by name. "Before" is before the books: no trace and no money. "After" is after them: the charge (page, refund)
 * is made as if nothing were wrong, or as the outcome says.
 */
export const faults = {
  /** The books have all of it; the caller hears nothing. */
  silenceAfter: (how: Silence = "cut", outcome?: Outcome): Fault => lost(how, "after", outcome),
  /** The books have nothing; the caller hears nothing. */
  silenceBefore: (how: Silence = "cut"): Fault => lost(how, "before"),
  /** HTTP 503; the charge is pending in the books, and takes the money at the n-th ask (0: at once). */
  unavailableAfter: (asks = 0): Fault => ({
    outcome: asks === 0 ? SUCCESS : { kind: "later", saying: "pending", asks, becomes: SUCCESS },
    answer: { status: 503 },
  }),
  /** HTTP 503; the books have nothing. */
  unavailableBefore: (): Fault => lost({ status: 503 }, "before"),
  /** HTTP 500 with a page in HTML. */
  html500: (when: When = "before"): Fault => lost({ html: 500 }, when),
  /** HTTP 200 with a page in HTML, as a portal between us and the rail would. */
  html200: (when: When = "before"): Fault => lost({ html: 200 }, when),
  /** The books have all of it; half of the JSON arrives. */
  truncatedJson: (): Fault => ({ answer: "truncated_json" }),
  /** The books have all of it; the connection breaks in the middle of the answer. */
  cutBody: (): Fault => ({ answer: "cut_body" }),
  /** The books have all of it; the answer is JSON that means nothing. */
  wrongTypes: (): Fault => ({ answer: "wrong_types" }),
  /** The books have all of it; the answer is about a reference that was not asked about. */
  wrongReference: (): Fault => ({ answer: "wrong_reference" }),
  /** HTTP 429; the books have nothing. */
  tooMany: (retryAfterSeconds: number | null = null): Fault => lost({ tooMany: retryAfterSeconds }, "before"),
  /** HTTP 401 in spite of the right key; the books have nothing. */
  unauthorized: (): Fault => lost("unauthorized", "before"),
  /** The books have a success of this amount, and only so much money; the answer says so. */
  wrongAmount: (amountKobo: number): Fault => ({ outcome: { kind: "success", amountKobo } }),
  /** The books have a success in another currency (left out of `totalTaken()`); the answer says so. */
  wrongCurrency: (currency = "USD"): Fault => ({ outcome: { kind: "success", currency } }),
  /** The books have the money twice (`taken` has two entries) in one success, whose amount is that of both. */
  twice: (): Fault => ({ outcome: { kind: "success", times: 2 } }),
  /** The books have the charge's amount; Paystack's `amount` has the fees on top, its `requested_amount` has not. */
  feesOnTop: (feesKobo: number): Fault => ({ outcome: { kind: "success", feesKobo } }),
  /** Failed in the books without money, until the n-th ask, which hears that it succeeded: the money is taken then. */
  lateSuccess: (asks = 1, words = "Declined"): Fault => ({
    outcome: { kind: "later", saying: "failed", words, asks, becomes: SUCCESS },
  }),
  /** Pending in the books, without money; the n-th ask hears that it failed. */
  lateFailure: (asks = 1, words = "Declined"): Fault => ({
    outcome: { kind: "later", saying: "pending", asks, becomes: { kind: "decline", words } },
  }),
  /** Pending in the books, without money; the n-th ask hears that it succeeded, and the money is taken then. */
  pendingUntil: (asks: number, words = "pending"): Fault => ({
    outcome: { kind: "later", saying: "pending", words, asks, becomes: SUCCESS },
  }),
  /** Open in the books, without money: the cardholder can still approve it on the page (`payOnPage`). */
  stepUp: (): Fault => ({ outcome: { kind: "step_up" } }),
  /** Failed in the books, without money. */
  decline: (words: string, more: Omit<Decline, "kind" | "words"> = {}): Fault => ({
    outcome: { kind: "decline", words, ...more },
  }),
  /** All is well, but slow: the books have it at once, the answer comes later. */
  delay: (delayMs: number): Fault => ({ delayMs }),
  /** Of a refund: failed in the books at once, no money goes back; it can be asked for again. */
  refundFails: (): Fault => ({ outcome: { kind: "decline", words: "failed" } }),
  /** Of a refund: pending, no money goes back until the n-th ask about it. */
  refundPendingUntil: (asks: number): Fault => ({
    outcome: { kind: "later", saying: "pending", asks, becomes: SUCCESS },
  }),
  /** Of a refund: pending, and failed at the n-th ask about it; no money ever goes back. */
  refundFailsLater: (asks = 1): Fault => ({
    outcome: { kind: "later", saying: "pending", asks, becomes: { kind: "decline", words: "failed" } },
  }),
  /** Of a refund: made in the books, but the answer is lost. */
  refundCut: (how: Silence = "cut"): Fault => lost(how, "after"),
} as const

/** What a call is: in words that both rails share. `page`: the buyer pressing Pay on the rail's page. */
export type CallKind = "charge" | "open" | "verify" | "refund" | "refund_status" | "page" | "list"

/** A call as it came in, with the right key. */
export interface Call {
  readonly kind: CallKind
  /** As it is on the wire: a transaction's; of a refund's status that of its transaction. Empty where it names none. */
  readonly reference: string
  /** The merchant's secret key. */
  readonly key: string
  readonly amountKobo: number | null
  /** From 1, of this kind about this reference, until the log forgets it. */
  readonly attempt: number
  /** Milliseconds, by the stand-in's clock. */
  readonly at: number
}

/** `next`: whatever comes next; another text: a reference, on the wire or ours. */
export type Match = "next" | string | ((call: Call) => boolean)

type OfAny = "next" | ((call: Call) => boolean)

const isOfAny = (match: Match): match is OfAny => match === "next" || typeof match === "function"

/** Faults to come, in queues: those planned for a reference first, then in the order in which they were planned. */
export class Plan {
  readonly #spelling: (reference: string) => string
  readonly #byReference = new Map<string, Array<Fault>>()
  #others: Array<{ readonly kind: CallKind; readonly match: OfAny; fault: Fault }> = []
  /** Asked when no fault is planned; a seeded simulation decides here. */
  decide: ((call: Call) => Fault | undefined) | undefined
  constructor(spelling: (reference: string) => string) {
    this.#spelling = spelling
  }

  /** Each fault is for one call. */
  add = (kind: CallKind, match: Match, ...planned: ReadonlyArray<Fault>): void => {
    if (isOfAny(match)) {
      for (const fault of planned) this.#others.push({ kind, match, fault })
      return
    }
    const key = `${kind} ${this.#spelling(match)}`
    this.#byReference.set(key, [...(this.#byReference.get(key) ?? []), ...planned])
  }

  take = (call: Call): Fault | undefined => {
    const key = `${call.kind} ${call.reference}`
    const queue = this.#byReference.get(key)
    if (queue !== undefined) {
      const fault = queue.shift()
      if (queue.length === 0) this.#byReference.delete(key)
      return fault
    }
    const index = this.#others.findIndex(({ kind, match }) => kind === call.kind && (match === "next" || match(call)))
    return index === -1 ? this.decide?.(call) : this.#others.splice(index, 1)[0]?.fault
  }

  /** Forgets what is planned, `decide` too. */
  clear = (): void => {
    this.#byReference.clear()
    this.#others = []
    this.decide = undefined
  }
}
