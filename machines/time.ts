/** Lengths of time in milliseconds, and days by their number since 1970-01-01 (UTC). */

export const SECOND_MS = 1000
export const MINUTE_MS = 60 * SECOND_MS
export const HOUR_MS = 60 * MINUTE_MS
export const DAY_MS = 24 * HOUR_MS

/** The day of an instant. */
export const dayOf = (at: number): number => Math.floor(at / DAY_MS)
