/** The subscription table: its columns are the machine's snapshot. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import type { BillingCycle } from "../../machines/calendar.ts"
import type { Dunning } from "../../machines/dunning.ts"
import type { Bill, CancellationReason, SubscriptionContext } from "../../machines/periods.ts"
import { nextChargeAt, type SubscriptionStatus, statusOf } from "../../machines/status.ts"
import { type Columns, lockRows, names, REF_COLUMNS, records } from "../db/records.ts"
import type { Ref } from "../db/tenant.ts"
import type { ActorRow } from "../lifecycle/advance.ts"
import type { PaymentMethodSummary } from "../rail/PaymentRail.ts"

/** Instants are milliseconds since the epoch. */
export interface SubscriptionRow extends ActorRow {
  readonly customer_id: string
  readonly plan_id: string
  readonly payment_method_id: string | null
  readonly status: SubscriptionStatus
  readonly billing_cycle: BillingCycle
  readonly price_kobo: number
  readonly quantity: number
  readonly start_at: number
  readonly trial_end_at: number | null
  readonly anchor_at: number
  readonly period_no: number
  readonly period_start_at: number
  readonly period_end_at: number
  /** What the current period was billed for. */
  readonly period_quantity: number
  readonly next_charge_at: number | null
  /** Units reported and not billed yet. */
  readonly units: number
  readonly cancel_at_period_end: boolean
  readonly cancel_reason: CancellationReason | null
  readonly bills_made: number
  readonly bill: Bill | null
  readonly dunning: Dunning | null
  readonly escalation: SubscriptionContext["escalation"]
  readonly pause: SubscriptionContext["pause"]
  readonly cancelled_at: number | null
  readonly cancellation_reason: CancellationReason | null
  readonly latest_charge_id: string | null
  /** The latest charge as the newest event about the subscription showed it. */
  readonly told_charge_id: string | null
  readonly metadata: Readonly<Record<string, string>>
  readonly created_at: number
}

export const contextOf = (row: SubscriptionRow): SubscriptionContext => ({
  billingCycle: row.billing_cycle,
  priceKobo: row.price_kobo,
  quantity: row.quantity,
  startAt: row.start_at,
  trialEnd: row.trial_end_at,
  anchorAt: row.anchor_at,
  periodNo: row.period_no,
  periodStart: row.period_start_at,
  periodEnd: row.period_end_at,
  periodQuantity: row.period_quantity,
  units: row.units,
  cancelAtPeriodEnd: row.cancel_at_period_end,
  cancelReason: row.cancel_reason,
  billsMade: row.bills_made,
  bill: row.bill,
  dunning: row.dunning,
  escalation: row.escalation,
  pause: row.pause,
  cancelledAt: row.cancelled_at,
  cancellationReason: row.cancellation_reason,
})

/** The columns that the machine owns, for a snapshot. */
export const machineColumns = (state: string, context: SubscriptionContext) => ({
  state,
  status: statusOf(state, context),
  billing_cycle: context.billingCycle,
  price_kobo: context.priceKobo,
  quantity: context.quantity,
  start_at: context.startAt,
  trial_end_at: context.trialEnd,
  anchor_at: context.anchorAt,
  period_no: context.periodNo,
  period_start_at: context.periodStart,
  period_end_at: context.periodEnd,
  period_quantity: context.periodQuantity,
  next_charge_at: nextChargeAt(state, context),
  units: context.units,
  cancel_at_period_end: context.cancelAtPeriodEnd,
  cancel_reason: context.cancelReason,
  bills_made: context.billsMade,
  bill: context.bill,
  dunning: context.dunning,
  escalation: context.escalation,
  pause: context.pause,
  cancelled_at: context.cancelledAt,
  cancellation_reason: context.cancellationReason,
})

/** What the machine moves, and the newest charge. */
const MOVING = {
  ...REF_COLUMNS,
  state: "text",
  status: "text",
  version: "integer",
  quantity: "integer",
  anchor_at: "timestamptz",
  period_no: "integer",
  period_start_at: "timestamptz",
  period_end_at: "timestamptz",
  period_quantity: "integer",
  next_charge_at: "timestamptz",
  units: "bigint",
  cancel_at_period_end: "boolean",
  cancel_reason: "text",
  bills_made: "integer",
  bill: "jsonb",
  dunning: "jsonb",
  escalation: "jsonb",
  pause: "jsonb",
  cancelled_at: "timestamptz",
  cancellation_reason: "text",
  latest_charge_id: "text",
  told_charge_id: "text",
} as const satisfies Columns<SubscriptionRow>

const INSERTED = {
  ...MOVING,
  customer_id: "text",
  plan_id: "text",
  payment_method_id: "text",
  test_clock_id: "text",
  billing_cycle: "text",
  price_kobo: "bigint",
  start_at: "timestamptz",
  trial_end_at: "timestamptz",
  metadata: "jsonb",
  created_at: "timestamptz",
} as const satisfies Columns<SubscriptionRow>

export const insertSubscriptions = (rows: ReadonlyArray<SubscriptionRow>) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    yield* sql`INSERT INTO subscription (${names(sql, INSERTED)}) SELECT * FROM ${records(sql, rows, INSERTED)} r`
  })

/** Writes what the machine owns, and the newest charge. The rows must be locked. */
export const updateSubscriptions = (rows: ReadonlyArray<SubscriptionRow>) =>
  Effect.gen(function* () {
    if (rows.length === 0) return
    const sql = yield* SqlClient.SqlClient
    yield* sql`
      UPDATE subscription s SET state = r.state, status = r.status, version = r.version, quantity = r.quantity,
        anchor_at = r.anchor_at, period_no = r.period_no, period_start_at = r.period_start_at, period_end_at = r.period_end_at, period_quantity = r.period_quantity, next_charge_at = r.next_charge_at,
        units = r.units, cancel_at_period_end = r.cancel_at_period_end, cancel_reason = r.cancel_reason, bills_made = r.bills_made, bill = r.bill, dunning = r.dunning,
        escalation = r.escalation, pause = r.pause, cancelled_at = r.cancelled_at, cancellation_reason = r.cancellation_reason, latest_charge_id = r.latest_charge_id, told_charge_id = r.told_charge_id
      FROM ${records(sql, rows, MOVING)} r
      WHERE (s.account_id, s.livemode, s.id) = (r.account_id, r.livemode, r.id)`
  })

/** What the merchant writes on a subscription, and the machine never looks at. */
export type Details = Pick<SubscriptionRow, "metadata" | "payment_method_id">

const DETAILS = {
  ...REF_COLUMNS,
  metadata: "jsonb",
  payment_method_id: "text",
} as const satisfies Columns<SubscriptionRow>

/** Writes the details of these subscriptions. The rows must be locked. */
export const updateDetails = (rows: ReadonlyArray<SubscriptionRow>) =>
  Effect.gen(function* () {
    if (rows.length === 0) return
    const sql = yield* SqlClient.SqlClient
    yield* sql`
      UPDATE subscription s SET metadata = r.metadata, payment_method_id = r.payment_method_id
      FROM ${records(sql, rows, DETAILS)} r
      WHERE (s.account_id, s.livemode, s.id) = (r.account_id, r.livemode, r.id)`
  })

/** Locks subscriptions and reads them, in ID order. */
export const lockSubscriptions = (refs: ReadonlyArray<Ref>) => lockRows<SubscriptionRow>("subscription", refs)

/** What a decision needs to know beside the subscription itself. */
export interface Terms {
  readonly id: string
  readonly retry_logic: {
    readonly enabled: boolean
    readonly max_attempts: number
    readonly retry_intervals_days: ReadonlyArray<number>
    readonly escalation_on_failure: "pause_service" | "restrict_access" | "hold_delivery" | "none"
    readonly cancel_after_days_unpaid: number | null
  }
  readonly overage_per_unit_kobo: number | null
  readonly pause_enabled: boolean
  readonly pro_rate: boolean
  /** The subscription's payment method, else the customer's default; null where there is none any more. */
  readonly payment_method: PaymentMethodSummary | null
}

/** The terms of these subscriptions, by subscription ID: plan rules and the method to charge, as they stand now. */
export const readTerms = (refs: ReadonlyArray<Ref>) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const rows = yield* sql<Terms>`
      SELECT s.id, p.retry_logic, p.overage_per_unit_kobo, p.pause_enabled, p.pro_rate,
        CASE WHEN m.id IS NULL THEN NULL ELSE jsonb_build_object('id', m.id, 'type', m.type, 'brand', m.brand, 'last4', m.last4,
          'bank_name', m.bank_name, 'exp_month', m.exp_month, 'exp_year', m.exp_year) END AS payment_method
      FROM ${records(sql, refs, REF_COLUMNS)} r
      JOIN subscription s ON (s.account_id, s.livemode, s.id) = (r.account_id, r.livemode, r.id)
      JOIN plan p ON (p.account_id, p.livemode, p.id) = (s.account_id, s.livemode, s.plan_id)
      JOIN customer c ON (c.account_id, c.livemode, c.id) = (s.account_id, s.livemode, s.customer_id)
      LEFT JOIN payment_method m ON (m.account_id, m.livemode, m.customer_id, m.id)
        = (s.account_id, s.livemode, s.customer_id, coalesce(s.payment_method_id, c.default_payment_method_id))`
    return new Map(rows.map((row) => [row.id, row]))
  })
