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
import * as Kind from "../../db/columns.ts"
import { actorTable, columnsOf, type RowOf } from "../../db/table.ts"
import type { Lifecycle, Transition } from "../../runtime/lifecycle.ts"
import type { SavingsPlan } from "./shapes.ts"

const { fixed, moving } = columnsOf<InstalmentContext>()

export const instalmentPlans = actorTable<InstalmentContext>()(
  "instalment_plan",
  { noun: "instalment plan" },
  {
    product_id: fixed(Kind.text),
    product_name: fixed(Kind.text),
    product_image: fixed(Kind.nullable(Kind.text)),
    customer_id: fixed(Kind.text),
    test_clock_id: fixed(Kind.nullable(Kind.text)),
    token_hash: fixed(Kind.text),
    mode: fixed(Kind.oneOf(INSTALMENT_MODES), "mode"),
    frequency: fixed(Kind.nullable(Kind.oneOf(FREQUENCIES)), "frequency"),
    target_kobo: fixed(Kind.bigint, "targetKobo"),
    late_fee_kobo: fixed(Kind.bigint, "lateFeeKobo"),
    refund_window_days: fixed(Kind.integer, "refundWindowDays"),
    created_at: fixed(Kind.instant),
    status: moving(Kind.oneOf(INSTALMENT_PLAN_STATUSES), instalmentStatusOf),
    instalments: moving(Kind.json<ReadonlyArray<Instalment>>(), "instalments"),
    deadline_at: moving(Kind.instant, "deadline"),
    paid_kobo: moving(Kind.bigint, "paidKobo"),
    fees_paid_kobo: moving(Kind.bigint, "feesPaidKobo"),
    pending_fee_kobo: moving(Kind.bigint, "pendingFeeKobo"),
    missed_kobo: moving(Kind.bigint, (_: string, context: InstalmentContext) => missedKobo(context)),
    payments: moving(Kind.integer, "payments"),
    paying_charge_id: moving(Kind.nullable(Kind.text), "paying"),
    /** The newest payment that was tried. */
    charge_id: moving(Kind.nullable(Kind.text)),
    /** When the newest payment succeeded, by the wall clock. */
    charge_settled_at: moving(Kind.nullable(Kind.instant)),
    reminded_at: moving(Kind.instant, "remindedAt"),
    completed_at: moving(Kind.nullable(Kind.instant), "completedAt"),
    shipped_at: moving(Kind.nullable(Kind.instant), "shippedAt"),
    delivered_at: moving(Kind.nullable(Kind.instant), "deliveredAt"),
    refund_window_ends_at: moving(Kind.nullable(Kind.instant), "refundWindowEndsAt"),
    cancelled_at: moving(Kind.nullable(Kind.instant), "cancelledAt"),
  },
)

export type InstalmentPlanRow = RowOf<typeof instalmentPlans>
export type InstalmentTransition = Transition<typeof instalmentMachine, InstalmentPlanRow>

export const instalmentLifecycle: Lifecycle<typeof instalmentMachine, InstalmentPlanRow> = {
  kind: "instalment_plan",
  machine: instalmentMachine,
  machineVersion: 1,
  // What is missed comes before the reminder of it.
  ranks: { expiry: 6, missed: 6, reminder: 7 },
  table: instalmentPlans,
}

/** Kobo as the API of instalment plans has them: whole naira. */
export const naira = (kobo: number): number => kobo / KOBO_OF_NAIRA

/** What all payments came to, late fees included. */
export const depositedKobo = ({ paid_kobo, fees_paid_kobo }: InstalmentPlanRow): number => paid_kobo + fees_paid_kobo

/** What goes back to the buyer who cancels (decision L6). */
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
