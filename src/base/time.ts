/** Instants: milliseconds since the epoch inside, ISO 8601 UTC with milliseconds outside (decision A8). */

export { DAY_MS, dayOf, HOUR_MS, MINUTE_MS, SECOND_MS } from "../../machines/time.ts"

/** The latest instants that were formatted: what is shown of one moment has most of them in common. */
const formatted = new Map<number, string>()
const MAX_FORMATTED = 256

/** `YYYY-MM-DDTHH:MM:SS.sssZ`. */
export const formatInstant = (ms: number): string => {
  const known = formatted.get(ms)
  if (known !== undefined) return known
  const text = new Date(ms).toISOString()
  if (formatted.size >= MAX_FORMATTED) formatted.clear()
  formatted.set(ms, text)
  return text
}

/** The day of an instant: `YYYY-MM-DD`. */
export const formatDayOf = (ms: number): string => new Date(ms).toISOString().slice(0, 10)

const longDay = new Intl.DateTimeFormat("en-GB", { timeZone: "UTC", day: "numeric", month: "long", year: "numeric" })
const longMonth = new Intl.DateTimeFormat("en-GB", { timeZone: "UTC", month: "long", year: "numeric" })

/** The day of an instant in words, in UTC as books and invoices have it: `8 November 2026`. */
export const dayInWords = (ms: number): string => longDay.format(ms)

/** The month of an instant in words, in UTC: `November 2026`. */
export const monthInWords = (ms: number): string => longMonth.format(ms)

export const formatInstantOrNull = (ms: number | null): string | null => (ms === null ? null : formatInstant(ms))

const INSTANT = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d{1,3})?Z$/

/**
 * Now, as the customer of an actor has it: while a test clock moves, each of its customers has a time of its own. Everybody
 * else's is the same.
 */
export type NowOf = (actor: { readonly customer_id: string | null }) => number

export const sameForAll =
  (now: number): NowOf =>
  () =>
    now

/** Years that both the calendar and the database's dates can hold, renewals included. */
export const FIRST_YEAR = 1970
export const LAST_YEAR = 8999
const EARLIEST = Date.UTC(FIRST_YEAR, 0, 1)
const TOO_LATE = Date.UTC(LAST_YEAR + 1, 0, 1)

/** The instant that `text` names; undefined where it is not a real one ending in `Z`, or of another year (decision A8). */
export const parseInstant = (text: string): number | undefined => {
  if (!INSTANT.test(text)) return undefined
  const ms = Date.parse(text)
  // Date.parse reads 31 February as 3 March: the day must come back as it was written.
  return Number.isNaN(ms) ||
    ms < EARLIEST ||
    ms >= TOO_LATE ||
    new Date(ms).toISOString().slice(0, 19) !== text.slice(0, 19)
    ? undefined
    : ms
}
