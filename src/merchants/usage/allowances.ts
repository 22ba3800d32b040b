/** The allowances of the API plans and the prices of overage (decision K2). Pure. */
import type { ApiPlan } from "../../base/apiPlans.ts"

export interface Allowance {
  /** Kobo a month. */
  readonly feeKobo: number
  /** null: without limit. */
  readonly writes: number | null
  readonly nudges: number
  /** Kobo for each nudge beyond the allowance. */
  readonly nudgeKobo: number
  /** The maximum charge for nudge overage in a month (kobo); null: no cap. */
  readonly nudgeCapKobo: number | null
}

/** ₦0.1 for each started block of 1,000 writes beyond the allowance. */
export const WRITE_BLOCK = 1000
export const WRITE_BLOCK_KOBO = 10

export const ALLOWANCES: Readonly<Record<ApiPlan, Allowance>> = {
  starter: { feeKobo: 500_000, writes: 5_000, nudges: 50, nudgeKobo: 5_000, nudgeCapKobo: null },
  growth: { feeKobo: 5_000_000, writes: 50_000, nudges: 300, nudgeKobo: 3_500, nudgeCapKobo: null },
  scale: { feeKobo: 20_000_000, writes: 500_000, nudges: 500, nudgeKobo: 2_500, nudgeCapKobo: null },
  enterprise: { feeKobo: 75_000_000, writes: null, nudges: 5_000, nudgeKobo: 2_500, nudgeCapKobo: 10_000_000 },
}

export const writeOverage = (used: number, { writes }: Allowance) => {
  const overage = writes === null ? 0 : Math.max(0, used - writes)
  const blocks = Math.ceil(overage / WRITE_BLOCK)
  return { overage, blocks, amountKobo: blocks * WRITE_BLOCK_KOBO }
}

export const nudgeOverage = (used: number, { nudges, nudgeKobo, nudgeCapKobo }: Allowance) => {
  const overage = Math.max(0, used - nudges)
  return { overage, amountKobo: Math.min(overage * nudgeKobo, nudgeCapKobo ?? Number.POSITIVE_INFINITY) }
}

export const THRESHOLDS = [80, 100] as const
export type Threshold = (typeof THRESHOLDS)[number]

/** Returns the thresholds (percent) above `announced` that `used` has reached, lowest first. */
export const thresholdsReached = (
  used: number,
  included: number | null,
  announced: number,
): ReadonlyArray<Threshold> =>
  included === null ? [] : THRESHOLDS.filter((percent) => percent > announced && used * 100 >= included * percent)

/** Returns the calendar month of `at` in UTC, `months` later (decision K1), in milliseconds since the epoch. */
export const monthOf = (at: number, months = 0) => {
  const date = new Date(at)
  return {
    start: Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + months, 1),
    end: Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + months + 1, 1),
  }
}
