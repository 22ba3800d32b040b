/**
 * A stand-in's own books of one merchant: the truth that ours are compared with. Amounts are in kobo, whatever the
 * wire's unit. Only `apply` and `applyToRefund` move money. There is no time here: a pending result comes at the n-th
 * question, or by `settle`.
 */
import type {
  Card,
  Happening,
  Numbering,
  Opening,
  Outcome,
  Payment,
  Refund,
  Success,
  Token,
  Transaction,
} from "./transaction.ts"

const CARD: Card = {
  type: "visa",
  first6: "408408",
  last4: "4081",
  expMonth: "12",
  expYear: "2030",
  bank: "TEST BANK",
}

const sum = (amounts: ReadonlyArray<number>): number => amounts.reduce((total, amount) => total + amount, 0)

/** A transaction of no merchant. */
const INVENTED = {
  amountKobo: 500_000,
  currency: "NGN",
  email: "none@example.com",
  channel: "token",
  at: 0,
  metadata: null,
} as const

const SUCCESS: Success = { kind: "success" }

/** Numbers belong to the stand-in and are unique among its merchants. */
export class Numbers {
  #transaction: bigint
  #refund: bigint
  #token = 0
  #code = 0
  readonly #numbering: Numbering
  constructor(numbering: Numbering) {
    this.#numbering = numbering
    this.#transaction = numbering.transaction
    this.#refund = numbering.refund
  }
  transaction = (): bigint => this.#transaction++
  refund = (): bigint => this.#refund++
  token = (): string => this.#numbering.token(++this.#token)
  minimumToSaveKobo = (): number => this.#numbering.minimumToSaveKobo
  code = (): string => `ac${(++this.#code).toString(36).padStart(10, "0")}`
}

export class Books {
  /** By reference, as it is on the wire. */
  readonly transactions = new Map<string, Transaction>()
  /** By the code of its page. */
  readonly byCode = new Map<string, Transaction>()
  /** By the rail's own number. */
  readonly byNumber = new Map<string, Transaction>()
  readonly tokens = new Map<string, Token>()
  readonly refunds = new Map<string, Refund>()
  readonly #numbers: Numbers
  readonly #spelling: (reference: string) => string
  readonly #onHappening: (happening: Happening) => void
  constructor(numbers: Numbers, spelling: (reference: string) => string, onHappening: (happening: Happening) => void) {
    this.#numbers = numbers
    this.#spelling = spelling
    this.#onHappening = onHappening
  }

  /** By the reference as it is on the wire or as ours. */
  find = (reference: string): Transaction | undefined => this.transactions.get(this.#spelling(reference))

  /** The same, for tests that know it exists. */
  get = (reference: string): Transaction => {
    const found = this.find(reference)
    if (found === undefined) throw new Error(`The stand-in has no transaction ${reference}.`)
    return found
  }

  /** Lists invented transactions, page after page, without an end. */
  listsWithoutEnd = false

  /** A page of the transactions that were made from `from` to `to`, newest first, and the number of pages. */
  list = (from: number, to: number, page: number, size: number) => {
    if (this.listsWithoutEnd) {
      const transactions = Array.from({ length: size }, (_, n) =>
        this.#made({ ...INVENTED, reference: `order-${page}-${n}` }),
      )
      return { transactions, total: Number.MAX_SAFE_INTEGER, pages: Number.MAX_SAFE_INTEGER }
    }
    const all = [...this.transactions.values()].filter(({ at }) => at >= from && at <= to).reverse()
    const transactions = all.slice((page - 1) * size, page * size)
    return { transactions, total: all.length, pages: Math.ceil(all.length / size) }
  }

  /** Another transaction's reference, if there is one. */
  otherThan = (reference: string): string | undefined => {
    for (const other of this.transactions.keys()) if (other !== reference) return other
    return undefined
  }

  /** A token as if a page had issued it. */
  issueToken = (email: string, { reusable = true, card = {} }: Payment = {}): Token => {
    const whole = { ...CARD, ...card }
    const token: Token = {
      token: this.#numbers.token(),
      email,
      reusable,
      active: true,
      card: whole,
      signature: `SIG_${whole.first6}${whole.last4}${whole.expMonth}${whole.expYear}`,
    }
    this.tokens.set(token.token, token)
    return token
  }

  /** A transaction that is in no books. */
  #made = (opening: Opening): Transaction => ({
    reference: opening.reference,
    number: this.#numbers.transaction(),
    code: this.#numbers.code(),
    email: opening.email,
    channel: opening.channel,
    at: opening.at,
    metadata: opening.metadata,
    askedKobo: opening.amountKobo,
    amountKobo: opening.amountKobo,
    feesKobo: 0,
    currency: opening.currency,
    status: "open",
    words: "The transaction was not completed",
    retryBy: null,
    spoken: "data",
    steppedUp: false,
    taken: [],
    token: opening.token ?? null,
    paidBy: "card",
    asks: 0,
    later: null,
    refunds: [],
    returnUrl: opening.returnUrl ?? null,
    cancelUrl: opening.cancelUrl ?? null,
  })

  /** Adds a transaction, without moving money. */
  open = (opening: Opening): Transaction => {
    const transaction = this.#made(opening)
    this.transactions.set(transaction.reference, transaction)
    this.byNumber.set(String(transaction.number), transaction)
    this.byCode.set(transaction.code, transaction)
    return transaction
  }

  /** Applies an outcome to the books. */
  apply = (transaction: Transaction, outcome: Outcome = SUCCESS): void => {
    transaction.later = null
    switch (outcome.kind) {
      case "success": {
        const amountKobo = outcome.amountKobo ?? transaction.askedKobo
        for (let time = 0; time < (outcome.times ?? 1); time++) transaction.taken.push(amountKobo)
        transaction.amountKobo = sum(transaction.taken)
        transaction.feesKobo = outcome.feesKobo ?? 0
        transaction.currency = outcome.currency ?? transaction.currency
        transaction.status = "succeeded"
        transaction.words = "Approved"
        this.#onHappening({ kind: "transaction", transaction })
        return
      }
      case "decline":
        transaction.status = "failed"
        transaction.words = outcome.words
        transaction.retryBy = outcome.retryBy ?? null
        transaction.spoken = outcome.spoken ?? "data"
        this.#onHappening({ kind: "transaction", transaction })
        return
      case "later":
        transaction.status = outcome.saying
        transaction.words = outcome.words ?? (outcome.saying === "failed" ? "Declined" : "pending")
        transaction.asks = 0
        transaction.later = outcome
        return
      case "step_up":
        transaction.status = "open"
        transaction.steppedUp = true
        return
    }
  }

  /** The buyer pays on the page: a token is issued with the money, bound to the e-mail, if a card was used. */
  pay = (transaction: Transaction, payment: Payment, outcome?: Outcome): void => {
    transaction.paidBy = payment.by ?? "card"
    if (transaction.channel === "page" && transaction.paidBy === "card")
      transaction.token = this.issueToken(transaction.email, {
        ...payment,
        reusable: payment.reusable !== false && transaction.askedKobo >= this.#numbers.minimumToSaveKobo(),
      })
    this.apply(transaction, outcome)
  }

  /** Counts one question that reached the books, and applies a result that is due by it. */
  ask = (transaction: Transaction): void => {
    transaction.asks++
    if (transaction.later !== null && transaction.asks >= transaction.later.asks) this.settle(transaction.reference)
  }

  /** Applies the pending result now. False if there was none. */
  settle = (reference: string): boolean => {
    const transaction = this.get(reference)
    const { later } = transaction
    if (later === null) return false
    this.apply(transaction, later.becomes)
    return true
  }

  /** Kobo that a refund could still send back. */
  refundable = (transaction: Transaction): number =>
    sum(transaction.taken) -
    sum(transaction.refunds.filter((one) => one.status !== "failed").map((one) => one.amountKobo))

  refund = (transaction: Transaction, amountKobo: number, outcome: Outcome = SUCCESS): Refund => {
    const refund: Refund = {
      id: this.#numbers.refund(),
      reference: transaction.reference,
      amountKobo,
      status: "pending",
      asks: 0,
      later: null,
    }
    transaction.refunds.push(refund)
    this.refunds.set(String(refund.id), refund)
    this.#applyToRefund(refund, outcome)
    return refund
  }

  #applyToRefund = (refund: Refund, outcome: Outcome): void => {
    refund.later = outcome.kind === "later" ? outcome : null
    if (outcome.kind === "success") refund.status = "returned"
    if (outcome.kind === "decline") refund.status = "failed"
    this.#onHappening({ kind: "refund", transaction: this.get(refund.reference), refund })
  }

  askRefund = (refund: Refund): void => {
    refund.asks++
    if (refund.later !== null && refund.asks >= refund.later.asks) this.settleRefund(refund)
  }

  settleRefund = (refund: Refund): boolean => {
    if (refund.later === null) return false
    this.#applyToRefund(refund, refund.later.becomes)
    return true
  }

  /** Applies all pending results now, with their consequences. Returns the number of transactions and refunds. */
  settleAll = (): number => {
    const transactions = [...this.transactions.keys()].filter(this.settle)
    const refunds = [...this.refunds.values()].filter(this.settleRefund)
    return transactions.length + refunds.length
  }

  /** Kobo taken so far, including money that was later returned. */
  totalTaken = (currency = "NGN"): number =>
    sum([...this.transactions.values()].filter((one) => one.currency === currency).flatMap(({ taken }) => taken))

  /** Kobo that have been returned. */
  totalReturned = (): number =>
    sum([...this.refunds.values()].filter(({ status }) => status === "returned").map(({ amountKobo }) => amountKobo))
}
