/**
 * The wall clock is this machine's clock, for as long as it agrees with the database's (decision D10). A look at the database's clock
 * says within which bounds this machine's may lie ahead of the monotonic clock, which no one sets. So a jump of the machine's clock shows
 * at each reading, without asking the database.
 */
import { SECOND_MS } from "./time.ts"

/** Clocks that NTP keeps differ by some milliseconds. */
export const MAX_DIFFERENCE_MS = 2 * SECOND_MS
/** A look says nothing after so long: several looks in a row have failed, or the process stood still. */
const LOOK_HOLDS_MS = 10 * SECOND_MS

/** The instant that the database named between a question and its answer, which have the monotonic clock's instants (ms). */
export interface Look {
  readonly databaseAt: number
  readonly askedAt: number
  readonly answeredAt: number
}

let look: Look | undefined

/** Notes the newest look; undefined: this process works on no database any more. */
export const noteLook = (newest: Look | undefined): void => {
  look = newest
}

/** The instants between which the database's clock is now. Without a database: any. */
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
 * Whether the last look still says something. In both directions: a process that is moved while it runs takes the monotonic clock of the
 * machine that it comes to.
 */
export const isLookFresh = (): boolean =>
  look === undefined || Math.abs(performance.now() - look.askedAt) < LOOK_HOLDS_MS

/** Whether this machine's clock agrees with the database's, as far as the last look tells. */
export const clocksAgree = (): boolean => isLookFresh() && isWithin(Date.now(), databaseBounds(performance.now()))

/**
 * Now, in milliseconds since the epoch: the only reading of the wall clock that the service acts on. What is under way while the machine's
 * clock jumps goes on by the database's: work that has sent something must be written down, and by the right instant.
 */
export const currentTime = (): number => {
  const machine = Date.now()
  const bounds = databaseBounds(performance.now())
  return isWithin(machine, bounds) ? machine : Math.floor((bounds.from + bounds.to) / 2)
}

/** What the two clocks say, where they disagree; undefined where they agree. */
export const disagreement = (): { readonly machineAt: number; readonly databaseAt: number } | undefined => {
  const machineAt = Date.now()
  const bounds = databaseBounds(performance.now())
  return isWithin(machineAt, bounds) ? undefined : { machineAt, databaseAt: Math.floor((bounds.from + bounds.to) / 2) }
}
