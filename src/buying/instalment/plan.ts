/** An instalment plan: its table, its lifecycle, and how the API shows it. */
import {
  INSTALMENT_PLAN_STATUSES,
  type InstalmentContext,
  instalmentMachine,
  instalmentStatusOf,
  isSaving,
} from "../../../machines/instalment.ts"
import {
  FREQUENCIES,
  INSTALMENT_MODES,
  type Instalment,
  isPaid,
  KOBO_OF_NAIRA,
  missedKobo,
  nextOf,
  outstandingKobo,
} from "../../../machines/instalment_schedule.ts"
import { CURRENCY } from "../../base/money.ts"
import { formatInstant, formatInstantOrNull } from "../../base/time.ts"
import * as column from "../../db/columns.ts"
import { actorTable, columnsOf, type RowOf } from "../../db/table.ts"
import type { Lifecycle, Transition } from "../../runtime/lifecycle.ts"
import type { SavingsPlan } from "./shapes.ts"

const { immutable, mutable } = columnsOf<InstalmentContext>()

export const instalmentPlans = actorTable<InstalmentContext>()(
  "instalment_plan",
  { noun: "instalment plan" },
  {
    product_id: immutable(column.text),
    product_name: immutable(column.text),
    product_image: immutable(column.nullable(column.text)),
    customer_id: immutable(column.text),
    test_clock_id: immutable(column.nullable(column.text)),
    token_hash: immutable(column.text),
    mode: immutable(column.oneOf(INSTALMENT_MODES), "mode"),
    frequency: immutable(column.nullable(column.oneOf(FREQUENCIES)), "frequency"),
    target_kobo: immutable(column.bigint, "targetKobo"),
    late_fee_kobo: immutable(column.bigint, "lateFeeKobo"),
    refund_window_days: immutable(column.integer, "refundWindowDays"),
    created_at: immutable(column.instant),
    status: mutable(column.oneOf(INSTALMENT_PLAN_STATUSES), instalmentStatusOf),
    instalments: mutable(column.json<ReadonlyArray<Instalment>>(), "instalments"),
    deadline_at: mutable(column.instant, "deadline"),
    paid_kobo: mutable(column.bigint, "paidKobo"),
    fees_paid_kobo: mutable(column.bigint, "feesPaidKobo"),
    pending_fee_kobo: mutable(column.bigint, "pendingFeeKobo"),
    missed_kobo: mutable(column.bigint, (_: string, context: InstalmentContext) => missedKobo(context)),
    payments: mutable(column.integer, "payments"),
    paying_charge_id: mutable(column.nullable(column.text), "paying"),
    /** The newest payment attempt. */
    charge_id: mutable(column.nullable(column.text)),
    /** When the newest payment succeeded, by the wall clock. */
    charge_settled_at: mutable(column.nullable(column.instant)),
    reminded_at: mutable(column.instant, "remindedAt"),
    completed_at: mutable(column.nullable(column.instant), "completedAt"),
    shipped_at: mutable(column.nullable(column.instant), "shippedAt"),
    delivered_at: mutable(column.nullable(column.instant), "deliveredAt"),
    refund_window_ends_at: mutable(column.nullable(column.instant), "refundWindowEndsAt"),
    cancelled_at: mutable(column.nullable(column.instant), "cancelledAt"),
  },
)

export type InstalmentPlanRow = RowOf<typeof instalmentPlans>
export type InstalmentTransition = Transition<typeof instalmentMachine, InstalmentPlanRow>

export const instalmentLifecycle: Lifecycle<typeof instalmentMachine, InstalmentPlanRow> = {
  kind: "instalment_plan",
  machine: instalmentMachine,
  machineVersion: 1,
  // A missed instalment comes before its reminder.
  ranks: { expiry: 6, missed: 6, reminder: 7 },
  table: instalmentPlans,
}

/** Converts kobo to whole naira, the unit of this API. */
export const naira = (kobo: number): number => kobo / KOBO_OF_NAIRA

/** Returns the sum of all payments, late fees included. */
export const depositedKobo = ({ paid_kobo, fees_paid_kobo }: InstalmentPlanRow): number => paid_kobo + fees_paid_kobo

/** Returns what a buyer who cancels gets back (decision L6). */
export const refundKobo = (row: InstalmentPlanRow): number => Math.max(0, depositedKobo(row) - row.pending_fee_kobo)

export const renderInstalmentPlan = (row: InstalmentPlanRow): typeof SavingsPlan.Type => {
  const savings = instalmentPlans.contextOf(row)
  const isFixed = row.mode === "fixed"
  const next = isFixed && isSaving(row.state) ? nextOf(savings) : undefined
  return {
    id: row.id,
    object: "savings_plan",
    livemode: row.livemode,
    createdAt: formatInstant(row.created_at),
    status: row.status,
    productName: row.product_name,
    productImage: row.product_image,
    mode: row.mode,
    frequency: row.frequency,
    currency: CURRENCY,
    targetAmount: naira(row.target_kobo),
    amountPaid: naira(row.paid_kobo),
    outstanding: naira(outstandingKobo(savings)),
    instalmentAmount: isFixed ? naira(row.instalments[0]!.amountKobo) : null,
    instalmentCount: isFixed ? row.instalments.length : null,
    instalmentsPaid: isFixed ? row.instalments.filter(isPaid).length : row.payments,
    nextDue:
      next === undefined
        ? null
        : { index: next.index + 1, dueAt: formatInstant(next.dueAt), amount: naira(next.restKobo) },
    deadline: formatInstant(row.deadline_at),
    instalments: isFixed
      ? row.instalments.map(({ dueAt, amountKobo, status, paidAt }, n) => ({
          index: n + 1,
          dueAt: formatInstant(dueAt),
          amount: naira(amountKobo),
          status,
          paidAt: formatInstantOrNull(paidAt),
        }))
      : [],
    pendingFee: naira(row.pending_fee_kobo),
    completedAt: formatInstantOrNull(row.completed_at),
    shippedAt: formatInstantOrNull(row.shipped_at),
    deliveredAt: formatInstantOrNull(row.delivered_at),
    refundWindowEndsAt: formatInstantOrNull(row.refund_window_ends_at),
  }
}
