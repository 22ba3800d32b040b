/** A charge is one attempt to collect a payment at a rail (decision F1): its table, its lifecycle, and its API object. */
import { Effect } from "effect"
import type { Line } from "../../../machines/billing.ts"
import { CHARGE_STATUSES, type ChargeContext, chargeMachine, type RailPage } from "../../../machines/charge.ts"
import { isId, newId } from "../../base/ids.ts"
import type { Metadata } from "../../base/metadata.ts"
import { CURRENCY } from "../../base/money.ts"
import { noSuch } from "../../base/problem.ts"
import { formatInstantOrNull, MINUTE_MS } from "../../base/time.ts"
import * as column from "../../db/columns.ts"
import { actorTable, columnsOf, type RowOf } from "../../db/table.ts"
import type { Tenant } from "../../db/tenant.ts"
import { commonOf } from "../../http/response.ts"
import type { Lease } from "../../process/lease.ts"
import type { PaymentMethodSummary } from "../../rails/rail/PaymentRail.ts"
import { isOutside, RAILS } from "../../rails/rail/Rail.ts"
import type { Lifecycle } from "../../runtime/lifecycle.ts"
import type { AttentionKind, Charge } from "./api.ts"

/** A rail's answer that contradicts its first one (decision F2). */
export interface Contradiction {
  readonly at: string
  readonly answer: "succeeded" | "failed"
  readonly code: string | null
}

/** A received payment that differs from the requested one and settles nothing (decision P10). Amounts in kobo. */
export interface Attention {
  readonly kind: AttentionKind
  readonly expected_amount: number
  /** null: the rail gives no readable amount. */
  readonly received_amount: number | null
  /** The currency of the received payment. */
  readonly currency: string
}

const CHARGE_PURPOSES = ["sale", "verification", "instalment"] as const

const { immutable, mutable } = columnsOf<ChargeContext>()

export const charges = actorTable<ChargeContext>()(
  "charge",
  { noun: "charge", ids: "charge" },
  {
    customer_id: immutable(column.text),
    subscription_id: immutable(column.nullable(column.text)),
    test_clock_id: immutable(column.nullable(column.text)),
    /** The number of the subscription's bill; all attempts at the bill have it. */
    bill_no: immutable(column.nullable(column.integer)),
    attempt_number: immutable(column.integer),
    amount_kobo: immutable(column.bigint),
    currency: immutable(column.oneOf([CURRENCY])),
    lines: immutable(column.json<ReadonlyArray<Line>>()),
    /**
     * A verification is made to save a card and is refunded (decision P8): it sells nothing, and the API does not show it. An instalment
     * belongs to the plan on whose page it was made.
     */
    purpose: immutable(column.oneOf(CHARGE_PURPOSES)),
    /** Whether the buyer pays on the rail's own page (decision P5). */
    hosted: immutable(column.flag),
    /** null if the customer had none when the bill came due, or if the rail's page has not reported it. */
    payment_method: mutable(column.nullable(column.json<PaymentMethodSummary>())),
    /** Whether the caller named the payment method; otherwise it was the current one. */
    payment_method_named: immutable(column.flag),
    /** The failed one-off charge that this one retries. */
    retry_of: immutable(column.nullable(column.text)),
    /** The checkout session, the nudge with the link, or the instalment plan on whose page the charge was made. */
    page_id: immutable(column.nullable(column.text)),
    /** The hash of the submitted form's number; identifies a form that is submitted twice. */
    submission: immutable(column.nullable(column.text)),
    rail: immutable(column.oneOf(RAILS)),
    /** The address of the rail's page, once it is open. */
    page_url: mutable(column.nullable(column.text)),
    /** The rail's own number of the transaction. */
    rail_id: mutable(column.nullable(column.text)),
    description: immutable(column.nullable(column.text)),
    metadata: immutable(column.json<Metadata>()),
    created_at: immutable(column.instant),
    sent_at: mutable(column.instant, "sentAt"),
    asks: mutable(column.integer, "asks"),
    not_found: mutable(column.integer, "notFound"),
    known_at: mutable(column.nullable(column.instant), "knownAt"),
    refused_for: mutable(column.nullable(column.text), "refusedFor"),
    page: mutable(column.nullable(column.json<RailPage>()), "page"),
    resend: mutable(column.nullable(column.oneOf(["possible", "made"])), "resend"),
    /** While pending: the received payment that differs from the requested one (decision P10). */
    attention: mutable(column.nullable(column.json<Attention>())),
    status: mutable(column.oneOf(CHARGE_STATUSES)),
    runner: mutable(column.nullable(column.integer)),
    will_retry: mutable(column.flag),
    next_retry_at: mutable(column.nullable(column.instant)),
    refund_due: mutable(column.flag),
    failure_code: mutable(column.nullable(column.text)),
    failure_message: mutable(column.nullable(column.text)),
    contradictions: mutable(column.json<ReadonlyArray<Contradiction>>()),
    paid_at: mutable(column.nullable(column.instant)),
    /** The period that the charge pays for; shortened if the period ends early. */
    period_start_at: mutable(column.nullable(column.instant)),
    period_end_at: mutable(column.nullable(column.instant)),
  },
)

export type ChargeRow = RowOf<typeof charges>

/** `rail.*` events move a charge; the timer `ask` starts status checks. */
export const chargeLifecycle: Lifecycle<typeof chargeMachine, ChargeRow> = {
  kind: "charge",
  machine: chargeMachine,
  machineVersion: 1,
  // Status checks come before decisions that depend on their answers: a payment at the last instant saves the subscription.
  ranks: { ask: 0 },
  table: charges,
}

/** The lease of the process that calls the simulator for a charge. Such a call takes almost no time. */
export const chargeLease: Lease = { name: "charge", forgottenAfterMs: 2 * MINUTE_MS }

type InitialColumn =
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
  | "purpose"
  | "hosted"
  | "payment_method"
  | "payment_method_named"
  | "retry_of"
  | "page_id"
  | "submission"
  | "rail"
  | "sent_at"
  | "description"
  | "metadata"
  | "created_at"

/**
 * Whether a charge is sent through the queue of rail calls (src/rails/rail_call), where its commit puts it, and not directly. A charge
 * without a payment method is not sent.
 */
export const isQueued = ({
  rail,
  hosted,
  payment_method,
}: Pick<ChargeRow, "rail" | "hosted" | "payment_method">): boolean =>
  isOutside(rail) && (hosted || payment_method !== null)

/** Creates a charge's row, to be committed before it is sent (decision F1). `runner`: this process, which sends it unless queued. */
export const newCharge = (initial: Pick<ChargeRow, InitialColumn> & { readonly runner: number }): ChargeRow => ({
  ...initial,
  runner: isQueued(initial) ? null : initial.runner,
  id: newId(initial.purpose === "verification" ? "verification" : "charge", { ...initial, at: initial.created_at }),
  currency: CURRENCY,
  state: "pending.sending",
  status: "pending",
  version: 0,
  asks: 0,
  not_found: 0,
  known_at: null,
  refused_for: null,
  page: null,
  resend: null,
  attention: null,
  page_url: null,
  rail_id: null,
  will_retry: false,
  next_retry_at: null,
  refund_due: false,
  failure_code: null,
  failure_message: null,
  contradictions: [],
  paid_at: null,
})

/** Whether a charge was made on the page of a checkout session. */
export const isOfCheckout = ({ page_id }: ChargeRow): boolean => page_id !== null && isId("checkout_session", page_id)

/** Whether the buyer pays the charge on the rail's own page, reached through a payment link. */
export const isHostedByLink = (charge: ChargeRow): boolean =>
  charge.hosted && charge.page_id !== null && !isOfCheckout(charge) && charge.purpose !== "instalment"

/** Returns the charge with this ID, but no verification. Fails with `resource_missing`. */
export const getCharge = (tenant: Tenant, id: string) =>
  isId("charge", id) ? charges.get(tenant, id) : Effect.fail(noSuch("charge", id))

export const renderCharge = (row: ChargeRow): typeof Charge.Type => ({
  ...commonOf("charge", row),
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
  attention: row.attention,
  paid_at: formatInstantOrNull(row.paid_at),
  metadata: row.metadata,
})
