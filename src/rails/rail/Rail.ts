/**
 * The port to rails of the outside world: what is asked of them, and what they are heard to say. An adapter translates and
 * decides nothing: naira and kobo, spellings of references and shapes of answers end in it. What was heard is held against
 * the charge by whoever asked (decisions P9, P10).
 */
import type { Effect, Redacted } from "effect"
import type { FailureCode, PaymentMethodSummary } from "./PaymentRail.ts"

export const RAILS = ["simulator", "paystack", "flutterwave"] as const
export type RailName = (typeof RAILS)[number]
export type OutsideRail = Exclude<RailName, "simulator">
export const OUTSIDE_RAILS: ReadonlyArray<OutsideRail> = ["paystack", "flutterwave"]

export const isOutside = (rail: string): rail is OutsideRail => OUTSIDE_RAILS.some((name) => name === rail)

/** Transfers between Nigerian accounts begin at ₦100. */
export const MIN_TRANSFER_KOBO = 10_000

/** The names of each rail's credentials, all of which are needed (decision P1). */
export const RAIL_CREDENTIALS: Readonly<Record<OutsideRail, ReadonlyArray<string>>> = {
  paystack: ["secret_key"],
  flutterwave: ["secret_key", "webhook_secret"],
}

/** How keys of a rail begin that are not the secret one, or that move no money. */
export const OTHER_KEYS: Readonly<Record<OutsideRail, { readonly public: string; readonly test: string }>> = {
  paystack: { public: "pk_", test: "sk_test_" },
  flutterwave: { public: "FLWPUBK", test: "FLWSECK_TEST" },
}

/** What a merchant's account at a rail is used with, by the names in which it is given (decision P1). */
export type Credentials = Readonly<Record<string, Redacted.Redacted<string>>>

/** What a rail lets us charge again later. */
export interface SavedMethod extends Omit<PaymentMethodSummary, "id"> {
  /** Paystack's authorization code, Flutterwave's token. */
  readonly token: Redacted.Redacted<string>
  /** The rail takes the token with the e-mail only that it was saved with; null: it does not say which that was. */
  readonly email: string | null
  /** The same for every token of one card, where the rail says so. */
  readonly signature: string | null
}

/** A transaction as the rail has it. */
export interface RailTransaction {
  readonly kind: "transaction"
  /** `ongoing`: the buyer is still to do something on the rail's page; `abandoned`: begun there and not paid; it may still be open. */
  readonly status: "succeeded" | "failed" | "pending" | "ongoing" | "abandoned"
  /** What was paid was sent back since; `failed` by now. */
  readonly reversed?: true
  /** In our spelling. */
  readonly reference: string
  /**
   * What counts for the charge (decision P10), in kobo; null: a payment that was not made, of which the rail does not say it; `unreadable`:
   * what is said is no amount, or nothing is said of one that was made.
   */
  readonly amountKobo: number | null | "unreadable"
  /** null: the rail does not say it, so it is the one that was asked for. */
  readonly currency: string | null
  /** The rail's own number, for refunds; null where it gave none. */
  readonly railId: string | null
  /** Of one that failed. */
  readonly code: FailureCode | null
  /** The rail's own words. */
  readonly message: string | null
  /** Of one that failed: not to be tried again before (ms since the epoch). */
  readonly retryAt: number | null
  /** Of one that succeeded, also where it was sent back since; null: the rail saved nothing that can be used again. */
  readonly saved: SavedMethod | null
}

/** What is known after any call that brought no transaction. */
export type NoAnswer =
  /** The rail refused the call itself: nothing is charged by it. */
  | { readonly kind: "refused"; readonly code: FailureCode; readonly message: string | null }
  /** HTTP 429. `retryAfterMs`: as the rail asks; null: it says nothing. */
  | { readonly kind: "rate_limited"; readonly retryAfterMs: number | null }
  /** It never got there: no connection came to be. */
  | { readonly kind: "not_sent"; readonly message: string }
  /**
   * Anything may have happened: time-out, broken connection, 5xx, duplicate reference, an answer that cannot be read.
   * `reached`: the rail itself answered, if unusably.
   */
  | { readonly kind: "unclear"; readonly message: string; readonly reached: boolean }

/** The process that made the call died before it wrote the answer. */
export interface LostCall {
  readonly kind: "lost"
}

/** The rail knows no such reference. */
export interface UnknownReference {
  readonly kind: "unknown_reference"
}

/** The rail's page is open at this address. */
export interface RailPage {
  readonly kind: "page"
  readonly url: string
}

/** A refund as the rail has it. */
export interface RailRefund {
  readonly kind: "refund"
  readonly status: "pending" | "returned" | "failed"
  /** The rail's own number of the refund. */
  readonly refundId: string | null
  readonly message: string | null
}

export type RailResult = RailTransaction | UnknownReference | RailPage | RailRefund | NoAnswer | LostCall

/** What the rail keeps with a transaction and gives back with it (decision F9): texts by name. */
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

/** A payment that the buyer makes on the rail's own page. */
export interface PagePayment {
  readonly reference: string
  readonly amountKobo: number
  readonly email: string
  readonly name: string
  readonly phone: string | null
  /** Where the rail sends the buyer back to. */
  readonly returnUrl: string
  /** What it is for, in a few words. */
  readonly description: string
  readonly metadata: TransactionMetadata
}

/** Which of its transactions a rail is to list. */
export interface Listing {
  /** Those made from then on, at least (ms since the epoch). */
  readonly since: number
  /** Those made before, at least. */
  readonly until: number
  /** From 1. */
  readonly page: number
}

/** A transaction as a rail lists it: which it is, and what was sent with it. */
export interface ListedTransaction {
  /** In our spelling where it is one of ours. */
  readonly reference: string
  /** As the rail gives it back. */
  readonly metadata: unknown
  /** When it was paid, or else made; null: the rail does not say it. */
  readonly at: number | null
}

/** A page of a rail's list. */
export interface ListedPage {
  readonly kind: "listed"
  readonly transactions: ReadonlyArray<ListedTransaction>
  /** How many pages there are; null: the rail does not say it. */
  readonly pages: number | null
}

/** A transaction to be sent back whole. */
export interface RefundCall {
  readonly reference: string
  /** The rail's own number of the transaction; Flutterwave refunds by nothing else. */
  readonly railId: string | null
  readonly amountKobo: number
}

export interface CallbackRequest {
  /** By lower-case name. */
  readonly headers: Readonly<Record<string, string | ReadonlyArray<string> | undefined>>
  readonly body: Buffer
}

/** What a callback says that counts (decision P13). */
export interface Announcement {
  /** In our spelling: 1 to 200 printable ASCII characters. */
  readonly reference: string
  /** It says that this was not paid, or not any more. That is not believed, but a reason to ask about what was paid. */
  readonly denies: boolean
}

/** One rail of the outside world. No call fails: what went wrong is what was heard. */
export interface Rail {
  readonly name: OutsideRail
  readonly charge: (charge: TokenCharge, credentials: Credentials) => Effect.Effect<RailTransaction | NoAnswer>
  readonly openPage: (payment: PagePayment, credentials: Credentials) => Effect.Effect<RailPage | NoAnswer>
  readonly ask: (
    reference: string,
    credentials: Credentials,
  ) => Effect.Effect<RailTransaction | UnknownReference | NoAnswer>
  /** The account's transactions, page by page. */
  readonly list: (listing: Listing, credentials: Credentials) => Effect.Effect<ListedPage | NoAnswer>
  readonly refund: (refund: RefundCall, credentials: Credentials) => Effect.Effect<RailRefund | NoAnswer>
  /** What became of a refund, by the rail's own number of it. */
  readonly askRefund: (
    refundId: string,
    credentials: Credentials,
  ) => Effect.Effect<RailRefund | UnknownReference | NoAnswer>
  /** Whether a callback was signed with these credentials; compared in constant time. */
  readonly isSigned: (request: CallbackRequest, credentials: Credentials) => boolean
  /** What a callback is about, as far as a reference can be read from it. */
  readonly announcementIn: (body: Buffer) => Announcement | undefined
}
