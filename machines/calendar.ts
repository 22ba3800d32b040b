/** Anchored billing periods (decision D2): a boundary is computed from the anchor, never from the boundary before it. */
import { DAY_MS } from "./time.ts"

export const BILLING_CYCLES = ["daily", "weekly", "monthly", "quarterly", "per_delivery"] as const
export type BillingCycle = (typeof BILLING_CYCLES)[number]

const CYCLE_DAYS = { daily: 1, weekly: 7 } as const
/** A delivery plan has no calendar: its period of one month is only informational (decision D8). */
const CYCLE_MONTHS = { monthly: 1, quarterly: 3, per_delivery: 1 } as const

/** Moves `instant` by whole calendar months in UTC. If the month lacks the day, the result is the month's last day. */
export const addMonths = (instant: number, months: number): number => {
  const date = new Date(instant)
  const day = date.getUTCDate()
  date.setUTCDate(1)
  date.setUTCMonth(date.getUTCMonth() + months)
  const lastDay = new Date(Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1, 0)).getUTCDate()
  date.setUTCDate(Math.min(day, lastDay))
  return date.getTime()
}

/** The n-th boundary of the grid: `anchor` plus n cycles, in milliseconds since the epoch. */
export const boundary = (cycle: BillingCycle, anchor: number, n: number): number =>
  cycle === "daily" || cycle === "weekly"
    ? anchor + n * CYCLE_DAYS[cycle] * DAY_MS
    : addMonths(anchor, n * CYCLE_MONTHS[cycle])
