/** Builds the outcome of an instalment plan's transition: its row, ledger entries, events and reminders. Pure. */
import { allParamsOf, hasEffect } from "../../../machines/decide.ts"
import { dueKobo, nextOf } from "../../../machines/instalment_schedule.ts"
import { MAX_LATE_MS, type QuietHours, turnOf } from "../../../machines/reminders.ts"
import type { NowOf } from "../../base/time.ts"
import { dayOf } from "../../base/time.ts"
import type { ChargeRow } from "../../billing/charge/charge.ts"
import type { Ref, Tenant } from "../../db/tenant.ts"
import { type About, entriesOf, type NewEntry } from "../../ledger/ledger.ts"
import { vatIn } from "../../ledger/postings.ts"
import { type NewEvent, previousAttributes } from "../../outbound/event/events.ts"
import { type Addressees, type NudgeRequest, newNudge } from "../../outbound/nudge/create.ts"
import { rowAfter } from "../../runtime/lifecycle.ts"
import { type Outcome, transitioned } from "../../runtime/outcome.ts"
import {
  depositedKobo,
  type InstalmentPlanRow,
  type InstalmentTransition,
  instalmentLifecycle,
  instalmentPlans,
  renderInstalmentPlan,
} from "./plan.ts"

/** The columns of a plan that its machine does not set. */
export type Notes = Partial<Pick<InstalmentPlanRow, "charge_id" | "charge_settled_at">>

export interface Facts {
  /** The time of a plan's clock. */
  readonly nowOf: NowOf
  readonly vatBps: number
  /** The settled charges that moved plans, with their events, by plan ID. */
  readonly settled: ReadonlyMap<string, Settled>
  /** By plan ID. */
  readonly notes: ReadonlyMap<string, Notes>
  /** Of the customers to remind. */
  readonly addressees: Addressees
  readonly quietOf: (tenant: Tenant) => QuietHours | null
  /** The token of a nudge's payment link. */
  readonly token: (nudge: Ref) => string
}

/** A charge with its result, and the event about it. */
export interface Settled {
  readonly charge: ChargeRow
  readonly event: NewEvent
}

/** Whether a transition reminds the buyer. */
export const reminds = ({ decision }: Pick<InstalmentTransition, "decision">): boolean => hasEffect(decision, "remind")

/** Returns the ledger entries of a transition. A deposit ends with its amount before the transition. */
const entries = (
  { row: before, event, decision }: InstalmentTransition,
  charge: ChargeRow | undefined,
  vatBps: number,
): ReadonlyArray<NewEntry> => {
  const { id: planId, customer_id: customerId } = before
  const about: About = {
    account_id: before.account_id,
    livemode: before.livemode,
    customerId,
    chargeId: charge?.id ?? null,
    testClockId: before.test_clock_id,
    day: dayOf(event.at),
  }
  const amountKobo = depositedKobo(before)
  const feeKobo = Math.min(before.pending_fee_kobo, amountKobo)
  const ofPayment = (posting: "deposit_paid" | "refund_due") => {
    const { id, amount_kobo, rail } = charge!
    return entriesOf(posting, id, about, { amountKobo: amount_kobo, rail, planId, customerId })
  }
  const builders = {
    deposit_paid: () => ofPayment("deposit_paid"),
    refund_due: () => ofPayment("refund_due"),
    goods_delivered: () =>
      entriesOf("goods_delivered", planId, about, { amountKobo, planId, vatKobo: vatIn(amountKobo, vatBps) }),
    deposit_cancelled: () => entriesOf("deposit_cancelled", planId, about, { amountKobo, planId, customerId, feeKobo }),
  }
  return allParamsOf(decision, "post").flatMap(({ posting }) => builders[posting]())
}

/** Returns what to remind the buyer of: the missed amount, else the next instalment. */
const reminderOf = (row: InstalmentPlanRow): NudgeRequest["about"] => {
  const savings = instalmentPlans.contextOf(row)
  const next = nextOf(savings)
  if (next === undefined) return null
  return {
    instalmentPlanId: row.id,
    goods: row.product_name,
    amountKobo: dueKobo("fixed", savings),
    dueAt: next.dueAt,
    isLate: next.status === "missed",
  }
}

/** Returns the nudges of a transition. A payment in progress needs no reminder: its outcome replaces it (decision H4). */
const nudges = (
  { event, decision }: InstalmentTransition,
  row: InstalmentPlanRow,
  facts: Facts,
): ReadonlyArray<Outcome> =>
  allParamsOf(decision, "remind").flatMap(({ rule, day }) => {
    const about = row.paying_charge_id === null ? reminderOf(row) : null
    const now = facts.nowOf(row)
    if (about === null || now - row.reminded_at > MAX_LATE_MS) return []
    const request: NudgeRequest = {
      account_id: row.account_id,
      livemode: row.livemode,
      customerId: row.customer_id,
      testClockId: row.test_clock_id,
      about,
      template: "payment_due",
      message: null,
      channels: null,
      source: "automatic",
      reminder: { rule, day, of: row.reminded_at },
      sendAt: turnOf(event.at, now, facts.quietOf(row)),
      at: now,
    }
    return newNudge(request, facts.addressees, facts.token)?.outcome ?? []
  })

/** Returns the events of a transition, with the plan after it. */
export const eventsOf = (
  { row: before, decision }: InstalmentTransition,
  row: InstalmentPlanRow,
  now: number,
): ReadonlyArray<NewEvent> => {
  const types = allParamsOf(decision, "emit").map(({ type }) => type)
  if (types.length === 0) return []
  const object = renderInstalmentPlan(row)
  const previous = previousAttributes(renderInstalmentPlan(before), object)
  const { account_id, livemode, test_clock_id } = row
  return types.map((type) => ({
    account_id,
    livemode,
    test_clock_id,
    at: now,
    type,
    object,
    previous: type === "savings_plan.created" ? {} : previous,
  }))
}

/** Returns the plan after a transition, and the outcome. */
export const outcomeOf = (
  transition: InstalmentTransition,
  facts: Facts,
): { readonly row: InstalmentPlanRow; readonly outcome: Outcome } => {
  const row: InstalmentPlanRow = {
    ...rowAfter(instalmentLifecycle, transition),
    ...facts.notes.get(transition.row.id),
  }
  const settled = facts.settled.get(row.id)
  const outcome = transitioned(instalmentLifecycle, transition, row, {
    entries: entries(transition, settled?.charge, facts.vatBps),
    events: [...(settled === undefined ? [] : [settled.event]), ...eventsOf(transition, row, facts.nowOf(row))],
    created: nudges(transition, row, facts),
  })
  return { row, outcome }
}
