/** What a stand-in writes down of transactions, and what can become of them. Amounts are in kobo. */

/** It takes the money: as asked for, or as the fields say. */
export interface Success {
  readonly kind: "success"
  /** Takes this much instead, and says so. */
  readonly amountKobo?: number
  /** Takes that many units of another currency, and says so. */
  readonly currency?: string
  /** Takes it so often under the one reference, and says so nowhere but in the amount, which is that of all together. */
  readonly times?: number
  /** The buyer bears these fees too; Paystack then says the charge's own amount as `requested_amount`. */
  readonly feesKobo?: number
}

/** It takes nothing, and says why. */
export interface Decline {
  readonly kind: "decline"
  readonly words: string
  /** When it may be tried again (Paystack's `retry_by`). */
  readonly retryBy?: string
  /** `error`: HTTP 400 with those words as message; the transaction is in the books as failed all the same. */
  readonly spoken?: "data" | "error"
}

/** It says one thing, and something else later: money moves, if at all, only then. */
export interface Later {
  readonly kind: "later"
  readonly saying: "pending" | "failed"
  /** In the rail's own words: a kind of pending (`ongoing`, `queued`), or why it failed. */
  readonly words?: string
  /** The ask that hears it first, from 1; Infinity: none, only `settle` brings it about. */
  readonly asks: number
  readonly becomes: Success | Decline
}

/** The cardholder has to approve it on a page; until then no money moves. */
export interface StepUp {
  readonly kind: "step_up"
}

/** What becomes of a charge, of what the buyer does on the page, or of a refund. */
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
  /** It is taken with this e-mail only. */
  readonly email: string
  readonly reusable: boolean
  /** False once deactivated or expired. */
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
  /** When it was made (ms since the epoch). */
  readonly at: number
  /** As the merchant sent it with the call. */
  metadata: unknown
  /** What the merchant asked for. */
  readonly askedKobo: number
  /** What the rail says it is of. */
  amountKobo: number
  feesKobo: number
  currency: string
  /** `open`: on a page of the rail's, where nobody has paid yet. */
  status: "open" | "pending" | "succeeded" | "failed"
  /** The rail's own words. */
  words: string
  retryBy: string | null
  spoken: "data" | "error"
  /** Whether it stands on a page because a charge of a token was stopped there. */
  steppedUp: boolean
  /** Kobo, one entry each time that money was taken; normally one. */
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

/** What a rail would announce. */
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
  /** Whether what is saved may be charged again; default true. */
  readonly reusable?: boolean
  readonly card?: Partial<Card>
}

/** Where a rail's numbering begins, and what its tokens are called. */
export interface Numbering {
  readonly transaction: bigint
  readonly refund: bigint
  readonly token: (ordinal: number) => string
  /** What is saved by a smaller payment is not reusable. */
  readonly minimumToSaveKobo: number
}
