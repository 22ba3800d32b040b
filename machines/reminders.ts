/** The times of a subscription's automatic reminders (decision H4), as pure arithmetic. */
import { DAY_MS, HOUR_MS } from "./time.ts"

/** A reminder that an outage delayed for longer is no longer sent. */
export const MAX_LATE_MS = HOUR_MS
/** Africa/Lagos is an hour ahead of UTC all year. */
const LAGOS_MS = HOUR_MS

/** The hours of the day in Lagos without reminders: from one hour to the other, over midnight. */
export interface QuietHours {
  readonly from: number
  readonly to: number
}

/** The end of the quiet hours that contain an instant; otherwise the instant itself. */
export const afterQuiet = (at: number, quiet: QuietHours | null): number => {
  if (quiet === null) return at
  const hour = Math.floor(((((at + LAGOS_MS) % DAY_MS) + DAY_MS) % DAY_MS) / HOUR_MS)
  const isQuiet = quiet.from < quiet.to ? hour >= quiet.from && hour < quiet.to : hour >= quiet.from || hour < quiet.to
  if (!isQuiet) return at
  const midnight = at - ((((at + LAGOS_MS) % DAY_MS) + DAY_MS) % DAY_MS)
  const end = midnight + quiet.to * HOUR_MS
  return end > at ? end : end + DAY_MS
}

/** When an automatic nudge due since `due` has its turn: after the quiet hours, or immediately. Its lateness counts from then. */
export const turnOf = (due: number, now: number, quiet: QuietHours | null): number => {
  const after = afterQuiet(now, quiet)
  return after > now ? after : due
}

/** A plan's rules. */
export interface ReminderRules {
  readonly enabled: boolean
  readonly pre_due_days: ReadonlyArray<number>
  readonly post_due_days: ReadonlyArray<number>
}

export const REMINDER_RULES = ["pre_due", "post_due"] as const

export interface Reminder {
  readonly rule: (typeof REMINDER_RULES)[number]
  readonly day: number
  readonly at: number
}

/** The facts that decide the times of reminders. */
export interface Remindable {
  /** The machine's state as one word. */
  readonly state: string
  /** When the current period started; before the first one, when the subscription was created. */
  readonly since: number
  readonly nextChargeAt: number | null
  readonly firstFailedAt: number | null
  readonly cancelling: boolean
}

/** The states in which reminders are sent; during an attempt none are. */
const BEFORE: ReadonlySet<string> = new Set(["scheduled", "trialing.running", "active.current"])
const AFTER: ReadonlySet<string> = new Set(["overdue.retrying", "overdue.waiting"])

export const isReminding = (state: string): boolean => BEFORE.has(state) || AFTER.has(state)

/** All reminders of the current period, or of the unpaid bill, in order. */
export const remindersOf = (
  { state, since, nextChargeAt, firstFailedAt, cancelling }: Remindable,
  rules: ReminderRules,
  quiet: QuietHours | null,
): ReadonlyArray<Reminder> => {
  if (!rules.enabled) return []
  const found: Array<Reminder> = []
  if (BEFORE.has(state) && nextChargeAt !== null)
    for (const day of new Set(rules.pre_due_days)) {
      const due = nextChargeAt - day * DAY_MS
      const at = afterQuiet(due, quiet)
      // Skips days before this period, and reminders that would come too late.
      if (due > since && at < nextChargeAt) found.push({ rule: "pre_due", day, at })
    }
  // A customer who has cancelled is not reminded of an overdue bill; a charge that is still to come is announced.
  if (AFTER.has(state) && firstFailedAt !== null && !cancelling)
    for (const day of new Set(rules.post_due_days))
      found.push({ rule: "post_due", day, at: afterQuiet(firstFailedAt + day * DAY_MS, quiet) })
  return found.sort((a, b) => a.at - b.at || a.day - b.day)
}
