/**
 * How the revenue of a bill is recognised: day by day while it is served, what is left when service ends. Pure; kobo, and days
 * as numbers since 1970-01-01 (UTC). The rows are of the table revenue_schedule; recognition.ts books the days.
 */

import { DAY_MS, formatInstant } from "../base/time.ts"
import type { Tenant } from "../db/tenant.ts"

/** A day, by its number, as `YYYY-MM-DD`. */
export const formatDay = (day: number): string => formatInstant(day * DAY_MS).slice(0, 10)

/** The part of a bill's revenue that is served by days, or by one event. */
export interface Schedule extends Tenant {
  readonly subscription_id: string
  readonly bill_no: number
  /** 1; 2 and so on where a late payment moved what was left to a period of its own. */
  readonly part: number
  readonly customer_id: string
  readonly plan_id: string
  readonly test_clock_id: string | null
  /** What the period costs, VAT and credits included. */
  readonly price_kobo: number
  /** What is recognised by it in the end, without VAT. */
  readonly amount_kobo: number
  /** What of this was credited from an earlier bill. */
  readonly carried_kobo: number
  /** The VAT that was booked with the rest. */
  readonly vat_kobo: number
  readonly start_day: number
  /** The day after the last; null: served by deliveries, not by days. */
  readonly end_day: number | null
  /** The first day that recognises anything. */
  readonly from_day: number
  /** From this day on none does. */
  readonly until_day: number
  readonly adjusted_kobo: number
  readonly moved_kobo: number
  readonly state: "running" | "stopped" | "ended"
}

/** A schedule to be begun: its days recognise from the first open one on. */
export type NewSchedule = Omit<Schedule, "from_day" | "until_day" | "adjusted_kobo" | "moved_kobo" | "state"> & {
  /** `stopped`: not served for the time being. */
  readonly state: "running" | "stopped"
  /** The day of the posting. */
  readonly posted_day: number
}

type Course = Pick<Schedule, "amount_kobo" | "start_day" | "end_day">

/** What is recognised of a schedule by the end of a day: the cumulative floor; the last day clears. */
export const recognisedKobo = ({ amount_kobo, start_day, end_day }: Course, byDay: number): number => {
  if (end_day === null) return 0
  const days = end_day - start_day
  const served = Math.min(Math.max(byDay - start_day + 1, 0), days)
  // The product may be larger than a number holds exactly.
  return Number((BigInt(amount_kobo) * BigInt(served)) / BigInt(days))
}

/** What the days of a schedule before `day` recognise, and have recognised. */
export const recognisedBefore = (schedule: Schedule, day: number): number => {
  const last = Math.min(day, schedule.until_day) - 1
  return last < schedule.from_day ? 0 : recognisedKobo(schedule, last)
}

/** What is left of a schedule for `day` and later. */
export const restOf = (schedule: Schedule, day: number): number =>
  schedule.amount_kobo - recognisedBefore(schedule, day) - schedule.adjusted_kobo - schedule.moved_kobo

/**
 * A schedule whose days recognise nothing from `day` on; of the rest, so much is recognised at once and so much goes elsewhere.
 * `stopped` where something is left that waits.
 */
export const endSchedule = (schedule: Schedule, day: number, recognised: number, moved: number): Schedule => ({
  ...schedule,
  until_day: Math.min(schedule.until_day, Math.max(day, schedule.from_day)),
  adjusted_kobo: schedule.adjusted_kobo + recognised,
  moved_kobo: schedule.moved_kobo + moved,
  state: recognised + moved === restOf(schedule, day) ? "ended" : "stopped",
})
