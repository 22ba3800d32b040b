/**
 * Rail is the port to external payment rails: their calls and results. An adapter only translates: amounts between naira
 * and kobo, spellings of references, shapes of answers. It decides nothing: the caller checks a result against the charge
 * (decisions P9, P10).
 */
import type { Effect, Redacted } from "effect"
import type { FailureCode, PaymentMethodSummary } from "./PaymentRail.ts"

export const RAILS = ["simulator", "paystack", "flutterwave"] as const
export type RailName = (typeof RAILS)[number]
export type OutsideRail = Exclude<RailName, "simulator">
export const OUTSIDE_RAILS: ReadonlyArray<OutsideRail> = ["paystack", "flutterwave"]

export const isOutside = (rail: string): rail is OutsideRail => OUTSIDE_RAILS.some((name) => name === rail)

/** Transfers between Nigerian accounts are of ₦100 or more. */
export const MIN_TRANSFER_KOBO = 10_000

/** The names of each rail's credentials. All of them are required (decision P1). */
export const RAIL_CREDENTIALS: Readonly<Record<OutsideRail, ReadonlyArray<string>>> = {
  paystack: ["secret_key"],
  flutterwave: ["secret_key", "webhook_secret"],
}

/** Prefixes of a rail's keys that are not its live secret key: public keys, and test keys, which move no money. */
export const OTHER_KEYS: Readonly<Record<OutsideRail, { readonly public: string; readonly test: string }>> = {
  paystack: { public: "pk_", test: "sk_test_" },
  flutterwave: { public: "FLWPUBK", test: "FLWSECK_TEST" },
}

/** The credentials of a merchant's account at a rail, by name (decision P1). */
export type Credentials = Readonly<Record<string, Redacted.Redacted<string>>>

/** A payment method that a rail saved and lets us charge again. */
export interface SavedMethod extends Omit<PaymentMethodSummary, "id"> {
  /** Paystack's authorization code, Flutterwave's token. */
  readonly token: Redacted.Redacted<string>
  /** The rail accepts the token only with the e-mail that it was saved with; null: the rail does not say which. */
  readonly email: string | null
  /** The same for every token of one card; null: the rail does not say. */
  readonly signature: string | null
}

/** A transaction in the rail's records. */
export interface RailTransaction {
  readonly kind: "transaction"
  /** `ongoing`: the buyer still has to act on the rail's page; `abandoned`: started there and not paid, but it may still be open. */
  readonly status: "succeeded" | "failed" | "pending" | "ongoing" | "abandoned"
  /** The payment was sent back later; its status is now `failed`. */
  readonly reversed?: true
  /** In our spelling. */
  readonly reference: string
  /**
   * The amount that counts for the charge (decision P10), in kobo. Null: nothing was paid, and the rail gives no amount. `unreadable`: the
   * amount is not a valid one, or a payment was made and has none.
   */
  readonly amountKobo: number | null | "unreadable"
  /** null: the rail does not say, so it is the requested currency. */
  readonly currency: string | null
  /** The rail's own number of the transaction, for refunds; null: it gave none. */
  readonly railId: string | null
  /** Of a failed transaction. */
  readonly code: FailureCode | null
  /** The rail's own message. */
  readonly message: string | null
  /** Of a failed transaction: no retry before this instant (ms since the epoch). */
  readonly retryAt: number | null
  /** Of a succeeded transaction, even if it was sent back later; null: the rail saved nothing reusable. */
  readonly saved: SavedMethod | null
}

/** The result of a call that returned no transaction. */
export type NoAnswer =
  /** The rail refused the call itself: it charged nothing. */
  | { readonly kind: "refused"; readonly code: FailureCode; readonly message: string | null }
  /** HTTP 429. `retryAfterMs`: the rail's Retry-After; null: it gave none. */
  | { readonly kind: "rate_limited"; readonly retryAfterMs: number | null }
  /** No connection was made, so the call never arrived. */
  | { readonly kind: "not_sent"; readonly message: string }
  /**
   * The outcome is unknown: timeout, broken connection, 5xx, duplicate reference or an unreadable answer.
   * `reached`: the rail itself answered, but the answer is unusable.
   */
  | { readonly kind: "unclear"; readonly message: string; readonly reached: boolean }

/** The process that made the call died before it wrote the result. */
export interface LostCall {
  readonly kind: "lost"
}

/** The rail has no transaction or refund with this reference. */
export interface UnknownReference {
  readonly kind: "unknown_reference"
}

/** The rail's page is open at this address. */
export interface RailPage {
  readonly kind: "page"
  readonly url: string
}

/** A refund in the rail's records. */
export interface RailRefund {
  readonly kind: "refund"
  readonly status: "pending" | "returned" | "failed"
  /** The rail's own number of the refund. */
  readonly refundId: string | null
  readonly message: string | null
}

export type RailResult = RailTransaction | UnknownReference | RailPage | RailRefund | NoAnswer | LostCall

/** Texts by name that the rail stores with a transaction and returns with it (decision F9). */
export type TransactionMetadata = Readonly<Record<string, string>>

/** A charge of a saved token. */
export interface TokenCharge {
  /** The charge's ID. */
  readonly reference: string
  readonly amountKobo: number
  readonly token: Redacted.Redacted<string>
  readonly email: string
  readonly metadata: TransactionMetadata
}

/** A payment that the buyer makes on the rail's page. */
export interface PagePayment {
  readonly reference: string
  readonly amountKobo: number
  readonly email: string
  readonly name: string
  readonly phone: string | null
  /** The address to which the rail returns the buyer. */
  readonly returnUrl: string
  /** The purpose of the payment, in a few words. */
  readonly description: string
  readonly metadata: TransactionMetadata
}

/** The range and page of a rail's list of transactions. */
export interface Listing {
  /** The list has at least the transactions from this instant on (ms since the epoch). */
  readonly since: number
  /** The list has at least the transactions before this instant. */
  readonly until: number
  /** Counted from 1. */
  readonly page: number
}

/** An item of a rail's list of transactions. */
export interface ListedTransaction {
  /** In our spelling if it is one of ours. */
  readonly reference: string
  /** As the rail returns it. */
  readonly metadata: unknown
  /** When it was paid, or else made (ms since the epoch); null: the rail does not say. */
  readonly at: number | null
}

/** A page of a rail's list. */
export interface ListedPage {
  readonly kind: "listed"
  readonly transactions: ReadonlyArray<ListedTransaction>
  /** The number of pages; null: the rail does not say. */
  readonly pages: number | null
}

/** A full refund of a transaction. */
export interface RefundCall {
  readonly reference: string
  /** The rail's own number of the transaction; Flutterwave needs it for a refund. */
  readonly railId: string | null
  readonly amountKobo: number
}

export interface CallbackRequest {
  /** Headers by lower-case name. */
  readonly headers: Readonly<Record<string, string | ReadonlyArray<string> | undefined>>
  readonly body: Buffer
}

/** The part of a callback that is used (decision P13). */
export interface CallbackNotice {
  /** In our spelling: 1 to 200 printable ASCII characters. */
  readonly reference: string
  /** The callback says that the payment failed or was sent back. It is not trusted: the rail is then asked about the payment. */
  readonly denies: boolean
}

/** An external payment rail. A call never fails: an error is part of its result. */
export interface Rail {
  readonly name: OutsideRail
  readonly charge: (charge: TokenCharge, credentials: Credentials) => Effect.Effect<RailTransaction | NoAnswer>
  readonly openPage: (payment: PagePayment, credentials: Credentials) => Effect.Effect<RailPage | NoAnswer>
  readonly ask: (
    reference: string,
    credentials: Credentials,
  ) => Effect.Effect<RailTransaction | UnknownReference | NoAnswer>
  /** Lists the account's transactions, one page a call. */
  readonly list: (listing: Listing, credentials: Credentials) => Effect.Effect<ListedPage | NoAnswer>
  readonly refund: (refund: RefundCall, credentials: Credentials) => Effect.Effect<RailRefund | NoAnswer>
  /** Asks for the outcome of a refund, by the rail's own number of it. */
  readonly askRefund: (
    refundId: string,
    credentials: Credentials,
  ) => Effect.Effect<RailRefund | UnknownReference | NoAnswer>
  /** Whether a callback is signed with these credentials, compared in constant time. */
  readonly isSigned: (request: CallbackRequest, credentials: Credentials) => boolean
  /** Reads what a callback is about; undefined: it has no readable reference. */
  readonly announcementIn: (body: Buffer) => CallbackNotice | undefined
}
