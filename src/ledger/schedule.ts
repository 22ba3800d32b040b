/**
 * The arithmetic of revenue recognition: a bill's revenue is recognised day by day while it is served, and the rest when service
 * ends. Pure. Amounts are kobo, days are numbers since 1970-01-01 (UTC). The table is revenue_schedule; recognition.ts books the days.
 */

import { DAY_MS, formatInstant } from "../base/time.ts"
import type { Tenant } from "../db/tenant.ts"

/** Formats a day, given by its number, as `YYYY-MM-DD`. */
export const formatDay = (day: number): string => formatInstant(day * DAY_MS).slice(0, 10)

/** A schedule is a part of a bill's revenue that is served by days, or by one event. */
export interface Schedule extends Tenant {
  readonly subscription_id: string
  readonly bill_no: number
  /** From 1. A late payment moves the rest to a new period: a new part. */
  readonly part: number
  readonly customer_id: string
  readonly plan_id: string
  readonly test_clock_id: string | null
  /** The price of the period, VAT and credits included. */
  readonly price_kobo: number
  /** The total revenue of the schedule, without VAT. */
  readonly amount_kobo: number
  /** The part of this that was credited from an earlier bill. */
  readonly carried_kobo: number
  /** The VAT that was booked with the rest. */
  readonly vat_kobo: number
  readonly start_day: number
  /** The day after the last day; null: served by deliveries, not by days. */
  readonly end_day: number | null
  /** The first day that recognises revenue. */
  readonly from_day: number
  /** No day from this one on recognises revenue. */
  readonly until_day: number
  readonly adjusted_kobo: number
  readonly moved_kobo: number
  readonly state: "running" | "stopped" | "ended"
}

/** A new schedule: it recognises revenue from the first open day on. */
export type NewSchedule = Omit<Schedule, "from_day" | "until_day" | "adjusted_kobo" | "moved_kobo" | "state"> & {
  /** `stopped`: not served at present. */
  readonly state: "running" | "stopped"
  /** The day of the posting. */
  readonly posted_day: number
}

type Course = Pick<Schedule, "amount_kobo" | "start_day" | "end_day">

/** Returns the revenue recognised by the end of a day: the cumulative amount, rounded down. The last day clears the rest. */
export const recognisedKobo = ({ amount_kobo, start_day, end_day }: Course, byDay: number): number => {
  if (end_day === null) return 0
  const days = end_day - start_day
  const served = Math.min(Math.max(byDay - start_day + 1, 0), days)
  // The product may exceed the exact range of a number.
  return Number((BigInt(amount_kobo) * BigInt(served)) / BigInt(days))
}

/** Returns the revenue that the days before `day` recognise. */
export const recognisedBefore = (schedule: Schedule, day: number): number => {
  const last = Math.min(day, schedule.until_day) - 1
  return last < schedule.from_day ? 0 : recognisedKobo(schedule, last)
}

/** Returns the revenue that is left for `day` and later. */
export const restOf = (schedule: Schedule, day: number): number =>
  schedule.amount_kobo - recognisedBefore(schedule, day) - schedule.adjusted_kobo - schedule.moved_kobo

/**
 * Ends a schedule: from `day` on its days recognise nothing. Of the rest, `recognised` kobo are recognised immediately and `moved` kobo go to
 * another bill or part. The state is `stopped` if some revenue is still left.
 */
export const endSchedule = (schedule: Schedule, day: number, recognised: number, moved: number): Schedule => ({
  ...schedule,
  until_day: Math.min(schedule.until_day, Math.max(day, schedule.from_day)),
  adjusted_kobo: schedule.adjusted_kobo + recognised,
  moved_kobo: schedule.moved_kobo + moved,
  state: recognised + moved === restOf(schedule, day) ? "ended" : "stopped",
})
