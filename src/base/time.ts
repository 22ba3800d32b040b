/** Instants: milliseconds since the epoch inside, ISO 8601 UTC with milliseconds outside (decision A8). */

export { DAY_MS, dayOf, HOUR_MS, MINUTE_MS, SECOND_MS } from "../../machines/time.ts"

/** Cache of formatted instants: most instants of one response are the same. */
const formatted = new Map<number, string>()
const MAX_FORMATTED = 256

/** `YYYY-MM-DDTHH:MM:SS.sssZ`. */
export const formatInstant = (ms: number): string => {
  const cached = formatted.get(ms)
  if (cached !== undefined) return cached
  const text = new Date(ms).toISOString()
  if (formatted.size >= MAX_FORMATTED) formatted.clear()
  formatted.set(ms, text)
  return text
}

/** The day of an instant: `YYYY-MM-DD`. */
export const formatDayOf = (ms: number): string => new Date(ms).toISOString().slice(0, 10)

/** Lagos time is UTC with this offset, all year. */
export const LAGOS_OFFSET_MS = 3_600_000

const longDay = new Intl.DateTimeFormat("en-GB", { timeZone: "UTC", day: "numeric", month: "long", year: "numeric" })
const longMonth = new Intl.DateTimeFormat("en-GB", { timeZone: "UTC", month: "long", year: "numeric" })

/** The day of an instant in words, in UTC (as in books and invoices): `8 November 2026`. */
export const dayInWords = (ms: number): string => longDay.format(ms)

/** The month of an instant in words, in UTC: `November 2026`. */
export const monthInWords = (ms: number): string => longMonth.format(ms)

export const formatInstantOrNull = (ms: number | null): string | null => (ms === null ? null : formatInstant(ms))

const INSTANT = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d{1,3})?Z$/

/**
 * Returns the current time of an actor's customer. While a test clock moves, each of its customers has its own time; all others share
 * one time.
 */
export type NowOf = (actor: { readonly customer_id: string | null }) => number

export const sameForAll =
  (now: number): NowOf =>
  () =>
    now

/** The years that both the calendar and the database's dates can represent, renewals included. */
export const FIRST_YEAR = 1970
export const LAST_YEAR = 8999
const EARLIEST = Date.UTC(FIRST_YEAR, 0, 1)
const TOO_LATE = Date.UTC(LAST_YEAR + 1, 0, 1)

/** Parses an instant; returns undefined if it is not a real one ending in `Z`, or if its year is out of range (decision A8). */
export const parseInstant = (text: string): number | undefined => {
  if (!INSTANT.test(text)) return undefined
  const ms = Date.parse(text)
  // Date.parse reads 31 February as 3 March: compare the day with the text.
  return Number.isNaN(ms) ||
    ms < EARLIEST ||
    ms >= TOO_LATE ||
    new Date(ms).toISOString().slice(0, 19) !== text.slice(0, 19)
    ? undefined
    : ms
}
