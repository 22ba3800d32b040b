/** A charge: one attempt at a rail (decision F1). Its table, its lifecycle, and how the API shows it. */
import type { Line } from "../../machines/billing.ts"
import { CHARGE_STATUSES, type ChargeContext, chargeMachine } from "../../machines/charge.ts"
import {
  actorTable,
  bigint,
  columnsOf,
  flag,
  instant,
  integer,
  json,
  nullable,
  oneOf,
  type RowOf,
  text,
} from "../db/table.ts"
import { newId } from "../ids.ts"
import type { Metadata } from "../metadata.ts"
import { CURRENCY } from "../money.ts"
import type { Lease } from "../process/lease.ts"
import type { PaymentMethodSummary } from "../rail/PaymentRail.ts"
import type { Lifecycle } from "../runtime/lifecycle.ts"
import { formatInstant, formatInstantOrNull, MINUTE_MS } from "../time.ts"
import type { Charge } from "./api.ts"

/** What a rail said against its first word (decision F2). */
export interface Contradiction {
  readonly at: string
  readonly answer: "succeeded" | "failed"
  readonly code: string | null
}

const { fixed, moving } = columnsOf<ChargeContext>()

export const charges = actorTable<ChargeContext>()(
  "charge",
  { noun: "charge" },
  {
    customer_id: fixed(text),
    subscription_id: fixed(nullable(text)),
    test_clock_id: fixed(nullable(text)),
    /** Attempts at one bill of a subscription have its number. */
    bill_no: fixed(nullable(integer)),
    attempt_number: fixed(integer),
    amount_kobo: fixed(bigint),
    currency: fixed(oneOf([CURRENCY])),
    lines: fixed(json<ReadonlyArray<Line>>()),
    /** null where the customer had none when the bill came due. */
    payment_method: fixed(nullable(json<PaymentMethodSummary>())),
    /** Whether the caller named it; otherwise it was the one in force. */
    payment_method_named: fixed(flag),
    /** The failed one-off charge that this one retries. */
    retry_of: fixed(nullable(text)),
    rail: fixed(text),
    description: fixed(nullable(text)),
    metadata: fixed(json<Metadata>()),
    created_at: fixed(instant),
    sent_at: fixed(instant, "sentAt"),
    asks: moving(integer, "asks"),
    not_found: moving(integer, "notFound"),
    known_at: moving(nullable(instant), "knownAt"),
    status: moving(oneOf(CHARGE_STATUSES)),
    runner: moving(nullable(integer)),
    will_retry: moving(flag),
    next_retry_at: moving(nullable(instant)),
    refund_due: moving(flag),
    failure_code: moving(nullable(text)),
    failure_message: moving(nullable(text)),
    contradictions: moving(json<ReadonlyArray<Contradiction>>()),
    paid_at: moving(nullable(instant)),
    /** The period that it pays for; shortened where that ends early. */
    period_start_at: moving(nullable(instant)),
    period_end_at: moving(nullable(instant)),
  },
)

export type ChargeRow = RowOf<typeof charges>

/** `rail.*` answers move a charge; the questions' timer is `ask`. */
export const chargeLifecycle: Lifecycle<typeof chargeMachine, ChargeRow> = {
  kind: "charge",
  machine: chargeMachine,
  machineVersion: 1,
  // What a rail already knows comes before what is decided on it: a payment at the last instant saves the subscription.
  ranks: { ask: 0 },
  table: charges,
}

/** The process that talks to a rail about a charge. No call to a rail takes longer than two minutes. */
export const chargeLease: Lease = { name: "charge", forgottenAfterMs: 2 * MINUTE_MS }

type Made =
  | "account_id"
  | "livemode"
  | "customer_id"
  | "subscription_id"
  | "test_clock_id"
  | "bill_no"
  | "attempt_number"
  | "amount_kobo"
  | "period_start_at"
  | "period_end_at"
  | "lines"
  | "payment_method"
  | "payment_method_named"
  | "retry_of"
  | "rail"
  | "sent_at"
  | "runner"
  | "description"
  | "metadata"
  | "created_at"

/** A charge as it is committed before it is sent to a rail (decision F1). */
export const newCharge = (made: Pick<ChargeRow, Made>): ChargeRow => ({
  ...made,
  id: newId("charge"),
  currency: CURRENCY,
  state: "pending.sending",
  status: "pending",
  version: 0,
  asks: 0,
  not_found: 0,
  known_at: null,
  will_retry: false,
  next_retry_at: null,
  refund_due: false,
  failure_code: null,
  failure_message: null,
  contradictions: [],
  paid_at: null,
})

export const renderCharge = (row: ChargeRow): typeof Charge.Type => ({
  id: row.id,
  object: "charge",
  livemode: row.livemode,
  created_at: formatInstant(row.created_at),
  amount: row.amount_kobo,
  currency: row.currency,
  status: row.status,
  customer: row.customer_id,
  subscription: row.subscription_id,
  attempt_number: row.attempt_number,
  will_retry: row.will_retry,
  next_retry_at: formatInstantOrNull(row.next_retry_at),
  failure_code: row.failure_code,
  failure_message: row.failure_message,
  payment_method: row.payment_method,
  processor: row.rail,
  description: row.description,
  lines: row.lines,
  refund_due: row.refund_due,
  paid_at: formatInstantOrNull(row.paid_at),
  metadata: row.metadata,
})
