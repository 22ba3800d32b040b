/** The charge table: rows in and out, in sets. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import type { Line } from "../../machines/billing.ts"
import { type Columns, lockRows, names, REF_COLUMNS, records } from "../db/records.ts"
import type { Ref } from "../db/tenant.ts"
import { newId } from "../ids.ts"
import type { ActorRow } from "../lifecycle/advance.ts"
import { CURRENCY } from "../money.ts"
import type { PaymentMethodSummary } from "../rail/PaymentRail.ts"

/** What a rail said against its first word (decision F2). */
export interface Contradiction {
  readonly at: string
  readonly answer: "succeeded" | "failed"
  readonly code: string | null
}

/** Instants are milliseconds since the epoch. */
export interface ChargeRow extends ActorRow {
  readonly customer_id: string
  readonly subscription_id: string | null
  readonly bill_no: number | null
  readonly attempt_number: number
  readonly amount_kobo: number
  readonly currency: string
  readonly period_start_at: number | null
  readonly period_end_at: number | null
  readonly lines: ReadonlyArray<Line>
  /** null where the customer had none when the bill came due. */
  readonly payment_method: PaymentMethodSummary | null
  /** Whether the caller named it; otherwise it was the one in force. */
  readonly payment_method_named: boolean
  /** The failed one-off charge that this one retries. */
  readonly retry_of: string | null
  readonly rail: string
  readonly status: "pending" | "succeeded" | "failed"
  readonly sent_at: number
  readonly asks: number
  readonly not_found: number
  readonly known_at: number | null
  readonly sender: number | null
  readonly will_retry: boolean
  readonly next_retry_at: number | null
  readonly refund_due: boolean
  readonly failure_code: string | null
  readonly failure_message: string | null
  readonly contradictions: ReadonlyArray<Contradiction>
  readonly description: string | null
  readonly metadata: Readonly<Record<string, string>>
  readonly paid_at: number | null
  readonly created_at: number
}

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
  | "sender"
  | "description"
  | "metadata"
  | "created_at"

/** A charge as it is committed before a rail hears of it (decision F1). */
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

const INSERTED = {
  ...REF_COLUMNS,
  customer_id: "text",
  subscription_id: "text",
  test_clock_id: "text",
  bill_no: "integer",
  attempt_number: "integer",
  amount_kobo: "bigint",
  period_start_at: "timestamptz",
  period_end_at: "timestamptz",
  lines: "jsonb",
  payment_method: "jsonb",
  payment_method_named: "boolean",
  retry_of: "text",
  rail: "text",
  state: "text",
  status: "text",
  version: "integer",
  sent_at: "timestamptz",
  sender: "integer",
  description: "text",
  metadata: "jsonb",
  created_at: "timestamptz",
} as const satisfies Columns<ChargeRow>

export const insertCharges = (rows: ReadonlyArray<ChargeRow>) =>
  Effect.gen(function* () {
    if (rows.length === 0) return
    const sql = yield* SqlClient.SqlClient
    yield* sql`INSERT INTO charge (${names(sql, INSERTED)}) SELECT * FROM ${records(sql, rows, INSERTED)} r`
  })

/** What changes over a charge's life. */
const MOVING = {
  ...REF_COLUMNS,
  state: "text",
  status: "text",
  version: "integer",
  asks: "integer",
  not_found: "integer",
  known_at: "timestamptz",
  sender: "integer",
  will_retry: "boolean",
  next_retry_at: "timestamptz",
  refund_due: "boolean",
  failure_code: "text",
  failure_message: "text",
  contradictions: "jsonb",
  paid_at: "timestamptz",
  period_start_at: "timestamptz",
  period_end_at: "timestamptz",
} as const satisfies Columns<ChargeRow>

/** Writes everything of these charges that changes over their life. The rows must be locked. */
export const updateCharges = (rows: ReadonlyArray<ChargeRow>) =>
  Effect.gen(function* () {
    if (rows.length === 0) return
    const sql = yield* SqlClient.SqlClient
    yield* sql`
      UPDATE charge c SET state = r.state, status = r.status, version = r.version, asks = r.asks, not_found = r.not_found, known_at = r.known_at,
        sender = r.sender, will_retry = r.will_retry, next_retry_at = r.next_retry_at, refund_due = r.refund_due,
        failure_code = r.failure_code, failure_message = r.failure_message, contradictions = r.contradictions, paid_at = r.paid_at,
        period_start_at = r.period_start_at, period_end_at = r.period_end_at
      FROM ${records(sql, rows, MOVING)} r
      WHERE (c.account_id, c.livemode, c.id) = (r.account_id, r.livemode, r.id)`
  })

/** Locks charges and reads them, in ID order. Their subscriptions must be locked before. */
export const lockCharges = (refs: ReadonlyArray<Ref>) => lockRows<ChargeRow>("charge", refs)

const CLOSING = { ...REF_COLUMNS, at: "timestamptz" } as const

/** Ends the paid periods of these subscriptions that run on beyond `at`. The subscriptions must be locked. */
export const closePaidPeriods = (closed: ReadonlyArray<Ref & { readonly at: number }>) =>
  Effect.gen(function* () {
    if (closed.length === 0) return
    const sql = yield* SqlClient.SqlClient
    yield* sql`
      UPDATE charge c SET period_end_at = r.at
      FROM ${records(sql, closed, CLOSING)} r
      WHERE (c.account_id, c.livemode, c.subscription_id) = (r.account_id, r.livemode, r.id)
        AND c.status = 'succeeded' AND NOT c.refund_due AND c.period_start_at <= r.at AND c.period_end_at > r.at`
  })
