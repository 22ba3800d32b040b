/** A stand-in's transactions, and their possible results. Amounts are in kobo. */

/** It takes the money: the requested amount, or as the fields say. */
export interface Success {
  readonly kind: "success"
  /** Takes this amount instead, and returns it in the answer. */
  readonly amountKobo?: number
  /** Takes this many units of another currency, and returns that in the answer. */
  readonly currency?: string
  /** Takes it this many times under one reference. Only the answer's amount, their sum, shows it. */
  readonly times?: number
  /** The buyer also pays these fees. Paystack then returns the charge's own amount as `requested_amount`. */
  readonly feesKobo?: number
}

/** It takes nothing, and gives a reason. */
export interface Decline {
  readonly kind: "decline"
  readonly words: string
  /** The time for a retry (Paystack's `retry_by`). */
  readonly retryBy?: string
  /** `error`: HTTP 400 with those words as message. The transaction is still in the books as failed. */
  readonly spoken?: "data" | "error"
}

/** It returns one result first, and another later. Money moves only with the later one, if at all. */
export interface Later {
  readonly kind: "later"
  readonly saying: "pending" | "failed"
  /** The rail's own word: a kind of pending (`ongoing`, `queued`), or the reason of the failure. */
  readonly words?: string
  /** The question that returns it first, from 1. Infinity: none, only `settle` applies it. */
  readonly asks: number
  readonly becomes: Success | Decline
}

/** The cardholder must approve it on a page. Until then no money moves. */
export interface StepUp {
  readonly kind: "step_up"
}

/** The result of a charge, of the buyer's action on the page, or of a refund. */
export type Outcome = Success | Decline | Later | StepUp

export interface Card {
  readonly type: string
  readonly first6: string
  readonly last4: string
  readonly expMonth: string
  /** Four digits. */
  readonly expYear: string
  readonly bank: string
}

export interface Token {
  readonly token: string
  /** It is accepted with this e-mail only. */
  readonly email: string
  readonly reusable: boolean
  /** False after deactivation or expiry. */
  active: boolean
  readonly card: Card
  /** The same for every token of one card. */
  readonly signature: string
}

export interface Refund {
  readonly id: bigint
  readonly reference: string
  readonly amountKobo: number
  /** Money is returned only when it is `returned`. */
  status: "pending" | "returned" | "failed"
  asks: number
  later: Later | null
}

export interface Transaction {
  /** As it is on the wire. */
  readonly reference: string
  /** The rail's own number. */
  readonly number: bigint
  readonly code: string
  readonly email: string
  readonly channel: "token" | "page"
  /** The time of creation (ms since the epoch). */
  readonly at: number
  /** As the merchant sent it with the call. */
  metadata: unknown
  /** The amount that the merchant requested. */
  readonly askedKobo: number
  /** The amount that the rail reports. */
  amountKobo: number
  feesKobo: number
  currency: string
  /** `open`: on a page of the rail, not paid yet. */
  status: "open" | "pending" | "succeeded" | "failed"
  /** The rail's own words. */
  words: string
  retryBy: string | null
  spoken: "data" | "error"
  /** True if it is on a page because a charge of a token was stopped there. */
  steppedUp: boolean
  /** Kobo, one entry each time that money was taken. Normally one. */
  readonly taken: Array<number>
  /** The token that was charged, or that the page issued. */
  token: Token | null
  paidBy: "card" | "bank_transfer"
  asks: number
  later: Later | null
  readonly refunds: Array<Refund>
  readonly returnUrl: string | null
  readonly cancelUrl: string | null
}

/** The events that a rail announces. */
export type Happening =
  | { readonly kind: "transaction"; readonly transaction: Transaction }
  | { readonly kind: "refund"; readonly transaction: Transaction; readonly refund: Refund }

export interface Opening {
  readonly reference: string
  readonly amountKobo: number
  readonly currency: string
  readonly email: string
  readonly channel: "token" | "page"
  readonly at: number
  readonly metadata: unknown
  readonly token?: Token
  readonly returnUrl?: string | null
  readonly cancelUrl?: string | null
}

export interface Payment {
  readonly by?: "card" | "bank_transfer"
  /** True if a saved method may be charged again. Default true. */
  readonly reusable?: boolean
  readonly card?: Partial<Card>
}

/** The start of a rail's numbering, and the prefix of its tokens. */
export interface Numbering {
  readonly transaction: bigint
  readonly refund: bigint
  readonly token: (ordinal: number) => string
  /** A method saved by a smaller payment is not reusable. */
  readonly minimumToSaveKobo: number
}
