/**
 * The wall clock is this machine's clock, for as long as it agrees with the database's (decision D10). A check of the database's clock
 * limits how far this machine's clock may be from the monotonic clock, which cannot be set. So every reading detects a jump of the
 * machine's clock without asking the database.
 */
import { SECOND_MS } from "./time.ts"

/** Clocks that NTP keeps differ by some milliseconds. */
export const MAX_DIFFERENCE_MS = 2 * SECOND_MS
/** A check is valid for so long. After that, several checks in a row have failed, or the process was suspended. */
const LOOK_HOLDS_MS = 10 * SECOND_MS

/** One check: the database's clock, and the monotonic clock before the query and after its result (ms). */
export interface ClockCheck {
  readonly databaseAt: number
  readonly askedAt: number
  readonly answeredAt: number
}

let look: ClockCheck | undefined

/** Stores the newest check; undefined if this process no longer uses a database. */
export const recordClockCheck = (newest: ClockCheck | undefined): void => {
  look = newest
}

/** The bounds of the database's clock now. Without a database: no bounds. */
const databaseBounds = (monotonic: number): { readonly from: number; readonly to: number } =>
  look === undefined
    ? { from: Number.NEGATIVE_INFINITY, to: Number.POSITIVE_INFINITY }
    : {
        from: look.databaseAt + (monotonic - look.answeredAt),
        to: look.databaseAt + (monotonic - look.askedAt),
      }

const isWithin = (machine: number, { from, to }: { readonly from: number; readonly to: number }): boolean =>
  machine >= from - MAX_DIFFERENCE_MS && machine <= to + MAX_DIFFERENCE_MS

/**
 * Whether the last check is still valid. The difference counts in both directions: a process that is moved while it runs continues with
 * the monotonic clock of the new machine.
 */
export const isCheckFresh = (): boolean =>
  look === undefined || Math.abs(performance.now() - look.askedAt) < LOOK_HOLDS_MS

/** Whether this machine's clock agrees with the database's, by the last check. */
export const clocksAgree = (): boolean => isCheckFresh() && isWithin(Date.now(), databaseBounds(performance.now()))

/**
 * Returns the current time in milliseconds since the epoch; the service reads the wall clock only here. If the machine's clock jumps,
 * running work continues with the database's clock: work that has sent something must be recorded with the right instant.
 */
export const currentTime = (): number => {
  const machine = Date.now()
  const bounds = databaseBounds(performance.now())
  return isWithin(machine, bounds) ? machine : Math.floor((bounds.from + bounds.to) / 2)
}

/** Both clocks, if they disagree; undefined if they agree. */
export const disagreement = (): { readonly machineAt: number; readonly databaseAt: number } | undefined => {
  const machineAt = Date.now()
  const bounds = databaseBounds(performance.now())
  return isWithin(machineAt, bounds) ? undefined : { machineAt, databaseAt: Math.floor((bounds.from + bounds.to) / 2) }
}
