/**
 * PaymentRail is the port to a rail that settles charges in batches. The charges' rows are committed before they are sent.
 * An uncertain outcome is `unsettled`: the rail is asked again by reference (decision F1).
 */
import { Context, type Effect, Struct } from "effect"

export const PAYMENT_METHOD_TYPES = ["card", "bank_account", "ussd"] as const
export type PaymentMethodType = (typeof PAYMENT_METHOD_TYPES)[number]

export interface PaymentMethodSummary {
  readonly id: string
  readonly type: PaymentMethodType
  readonly brand: string | null
  readonly last4: string | null
  readonly bank_name: string | null
  readonly exp_month: number | null
  readonly exp_year: number | null
}

export interface RailCharge {
  readonly account_id: string
  readonly livemode: boolean
  /** The charge's ID, unique for ever: the rail identifies the attempt by it. */
  readonly reference: string
  readonly customerId: string
  readonly testClockId: string | null
  readonly paymentMethod: PaymentMethodSummary
  readonly amountKobo: number
  /** Counts the attempts at one bill from 1. */
  readonly attemptNumber: number
  /** Now, in the customer's clock (ms since the epoch). */
  readonly at: number
  /** The one-time code that the buyer entered; null: the buyer was not asked for one. Never stored. */
  readonly code: string | null
}

export type RailAnswer =
  | { readonly type: "rail.succeeded" }
  | { readonly type: "rail.failed"; readonly code: FailureCode; readonly message: string | null }
  /** `knownAt`: when the rail will know the outcome (ms since the epoch); null: it does not say. */
  | { readonly type: "rail.unsettled"; readonly knownAt: number | null }
  | { readonly type: "rail.not_found" }

/** Returns answers in the order of the charges. An unreachable rail answers `unsettled`, never an error. */
export class PaymentRail extends Context.Service<
  PaymentRail,
  {
    /**
     * Returns why a buyer who is present cannot use a payment method: its one-time code is missing
     * (`authentication_required`) or wrong. Null: the buyer can use it.
     */
    readonly objection: (method: string, code: string | null) => FailureCode | null
    /** Sends each charge once. */
    readonly charge: (charges: ReadonlyArray<RailCharge>) => Effect.Effect<ReadonlyArray<RailAnswer>>
    /** Asks for the outcome of each reference. */
    readonly ask: (charges: ReadonlyArray<RailCharge>) => Effect.Effect<ReadonlyArray<RailAnswer>>
  }
>()("billing/rails/rail/PaymentRail") {}

/** Failure codes, and whether the automatic schedule retries after each (docs/decisions.md, failure codes). */
export const RETRYABLE = {
  insufficient_funds: true,
  limit_exceeded: true,
  do_not_honor: true,
  unknown_decline: true,
  issuer_unavailable: true,
  processor_error: true,
  card_throttled: true,
  rail_rate_limited: true,
  expired_card: false,
  lost_card: false,
  stolen_card: false,
  pick_up_card: false,
  restricted_card: false,
  account_closed: false,
  invalid_card: false,
  not_permitted: false,
  suspected_fraud: false,
  authorization_revoked: false,
  payment_method_inactive: false,
  authentication_required: false,
  authentication_failed: false,
  amount_invalid: false,
  customer_abandoned: false,
  rail_misconfigured: false,
} as const satisfies Record<string, boolean>

export type FailureCode = keyof typeof RETRYABLE

export const FAILURE_CODES = Struct.keys(RETRYABLE)

/** Whether the automatic schedule retries after this failure. It does not after an unknown code. */
export const isRetryable = (code: string | null): boolean =>
  FAILURE_CODES.some((listed) => listed === code && RETRYABLE[listed])
