/** The HTTP header Retry-After. */
import { SECOND_MS } from "./time.ts"

/** Parses seconds or a date (RFC 9110, 10.2.3) into milliseconds from `now`; returns null if it is absent or neither. */
export const retryAfterOf = (value: string | ReadonlyArray<string> | undefined, now: number): number | null => {
  const text = typeof value === "string" ? value.trim() : ""
  if (/^\d{1,9}$/.test(text)) return Number(text) * SECOND_MS
  const at = /^[A-Za-z]{3}/.test(text) ? Date.parse(text) : Number.NaN
  return Number.isNaN(at) ? null : Math.max(0, at - now)
}
