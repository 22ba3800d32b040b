/**
 * The possible faults of one call, in two independent parts: the event at the rail (`outcome`: the books), and the
 * caller's answer (`answer`). A missing part is normal.
 */
import type { Decline, Outcome, Success } from "./transaction.ts"

/** Answers without the rail's books. */
export type BrokenAnswer =
  /** Never: the connection stays open until the caller gives up. */
  | "hang"
  /** The connection breaks immediately, without a byte of an answer. */
  | "cut"
  /** A page in HTML with this status, including 200. */
  | { readonly html: number }
  /** This status, in the rail's format of an error. */
  | { readonly status: 500 | 502 | 503 | 504 }
  /** HTTP 429, with `Retry-After` in seconds, or without (null). */
  | { readonly tooMany: number | null }
  /** HTTP 401, as with a wrong key. */
  | "unauthorized"

/** Answers derived from the true one. */
export type DistortedAnswer =
  /** Half of the JSON, sent as a complete answer. */
  | "truncated_json"
  /** The head and half of the body, then the connection breaks. */
  | "cut_body"
  /** JSON of the same fields, all with wrong types. */
  | "wrong_types"
  /** The true answer under another transaction's reference. */
  | "wrong_reference"

export type Fault =
  /** The call does not reach the books: nothing is charged, stored or counted as a question. */
  | { readonly outcome: "nothing"; readonly answer: BrokenAnswer; readonly delayMs?: number }
  | { readonly outcome?: Outcome; readonly answer?: BrokenAnswer | DistortedAnswer; readonly delayMs?: number }

type Silence = "hang" | "cut"
type When = "before" | "after"

const lost = (answer: BrokenAnswer, when: When, outcome?: Outcome): Fault =>
  when === "before" ? { outcome: "nothing", answer } : { ...(outcome && { outcome }), answer }

const SUCCESS: Success = { kind: "success" }

/**
 * The faults by name. "Before" means before the books: no trace and no money. "After" means after them: the charge
 * (page, refund) is made normally, or by the outcome.
 */
export const faults = {
  /** The books have all of it. The caller gets no answer. */
  silenceAfter: (how: Silence = "cut", outcome?: Outcome): Fault => lost(how, "after", outcome),
  /** The books have nothing. The caller gets no answer. */
  silenceBefore: (how: Silence = "cut"): Fault => lost(how, "before"),
  /** HTTP 503. The charge is pending in the books, and takes the money at the n-th question (0: immediately). */
  unavailableAfter: (asks = 0): Fault => ({
    outcome: asks === 0 ? SUCCESS : { kind: "later", saying: "pending", asks, becomes: SUCCESS },
    answer: { status: 503 },
  }),
  /** HTTP 503. The books have nothing. */
  unavailableBefore: (): Fault => lost({ status: 503 }, "before"),
  /** HTTP 500 with a page in HTML. */
  html500: (when: When = "before"): Fault => lost({ html: 500 }, when),
  /** HTTP 200 with a page in HTML, as a portal between us and the rail would send. */
  html200: (when: When = "before"): Fault => lost({ html: 200 }, when),
  /** The books have all of it. Half of the JSON arrives. */
  truncatedJson: (): Fault => ({ answer: "truncated_json" }),
  /** The books have all of it. The connection breaks in the middle of the answer. */
  cutBody: (): Fault => ({ answer: "cut_body" }),
  /** The books have all of it. The answer is meaningless JSON. */
  wrongTypes: (): Fault => ({ answer: "wrong_types" }),
  /** The books have all of it. The answer is about another reference. */
  wrongReference: (): Fault => ({ answer: "wrong_reference" }),
  /** HTTP 429. The books have nothing. */
  tooMany: (retryAfterSeconds: number | null = null): Fault => lost({ tooMany: retryAfterSeconds }, "before"),
  /** HTTP 401 in spite of a valid key. The books have nothing. */
  unauthorized: (): Fault => lost("unauthorized", "before"),
  /** The books have a success of this amount, and only this much money. The answer has the same amount. */
  wrongAmount: (amountKobo: number): Fault => ({ outcome: { kind: "success", amountKobo } }),
  /** The books have a success in another currency (not in `totalTaken()`). The answer has the same currency. */
  wrongCurrency: (currency = "USD"): Fault => ({ outcome: { kind: "success", currency } }),
  /** The books have the money twice (`taken` has two entries) in one success, whose amount is the sum. */
  twice: (): Fault => ({ outcome: { kind: "success", times: 2 } }),
  /** The books have the charge's amount. Paystack's `amount` includes the fees, its `requested_amount` does not. */
  feesOnTop: (feesKobo: number): Fault => ({ outcome: { kind: "success", feesKobo } }),
  /** Failed in the books without money, until the n-th question returns success: the money is taken then. */
  lateSuccess: (asks = 1, words = "Declined"): Fault => ({
    outcome: { kind: "later", saying: "failed", words, asks, becomes: SUCCESS },
  }),
  /** Pending in the books, without money. The n-th question returns failure. */
  lateFailure: (asks = 1, words = "Declined"): Fault => ({
    outcome: { kind: "later", saying: "pending", asks, becomes: { kind: "decline", words } },
  }),
  /** Pending in the books, without money. The n-th question returns success, and the money is taken then. */
  pendingUntil: (asks: number, words = "pending"): Fault => ({
    outcome: { kind: "later", saying: "pending", words, asks, becomes: SUCCESS },
  }),
  /** Open in the books, without money: the cardholder can still approve it on the page (`payOnPage`). */
  stepUp: (): Fault => ({ outcome: { kind: "step_up" } }),
  /** Failed in the books, without money. */
  decline: (words: string, more: Omit<Decline, "kind" | "words"> = {}): Fault => ({
    outcome: { kind: "decline", words, ...more },
  }),
  /** Success, but slow: the books have it immediately, the answer comes later. */
  delay: (delayMs: number): Fault => ({ delayMs }),
  /** For a refund: failed in the books immediately, no money is returned. It can be requested again. */
  refundFails: (): Fault => ({ outcome: { kind: "decline", words: "failed" } }),
  /** For a refund: pending, no money is returned until the n-th question about it. */
  refundPendingUntil: (asks: number): Fault => ({
    outcome: { kind: "later", saying: "pending", asks, becomes: SUCCESS },
  }),
  /** For a refund: pending, and failed at the n-th question about it. No money is ever returned. */
  refundFailsLater: (asks = 1): Fault => ({
    outcome: { kind: "later", saying: "pending", asks, becomes: { kind: "decline", words: "failed" } },
  }),
  /** For a refund: made in the books, but the answer is lost. */
  refundCut: (how: Silence = "cut"): Fault => lost(how, "after"),
} as const

/** The kinds of calls, common to both rails. `page`: the buyer presses Pay on the rail's page. */
export type CallKind = "charge" | "open" | "verify" | "refund" | "refund_status" | "page" | "list"

/** A call as it came in, with a valid key. */
export interface Call {
  readonly kind: CallKind
  /** On the wire: a transaction's reference; for a refund's status that of its transaction. Empty if none. */
  readonly reference: string
  /** The merchant's secret key. */
  readonly key: string
  readonly amountKobo: number | null
  /** From 1, for this kind and this reference, until the log drops it. */
  readonly attempt: number
  /** Milliseconds, by the stand-in's clock. */
  readonly at: number
}

/** `next`: the next call of any kind. Another text: a reference, on the wire or ours. */
export type Match = "next" | string | ((call: Call) => boolean)

type OfAny = "next" | ((call: Call) => boolean)

const isOfAny = (match: Match): match is OfAny => match === "next" || typeof match === "function"

/** Planned faults, in queues: those for a reference first, then in the order of planning. */
export class Plan {
  readonly #spelling: (reference: string) => string
  readonly #byReference = new Map<string, Array<Fault>>()
  #others: Array<{ readonly kind: CallKind; readonly match: OfAny; fault: Fault }> = []
  /** Called when no fault is planned. A seeded simulation decides here. */
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

  /** Clears all planned faults, and `decide`. */
  clear = (): void => {
    this.#byReference.clear()
    this.#others = []
    this.decide = undefined
  }
}
