/** When a subscription's customer is reminded by itself (decision H4), as pure arithmetic. */
import { DAY_MS, HOUR_MS } from "./time.ts"

/** A reminder that an outage held up for longer is not sent any more. */
export const MAX_LATE_MS = HOUR_MS
/** Africa/Lagos is an hour ahead of UTC all year. */
const LAGOS_MS = HOUR_MS

/** Hours of the day in Lagos between which nobody is reminded: from one, over midnight, to the other. */
export interface QuietHours {
  readonly from: number
  readonly to: number
}

/** The end of the quiet hours that an instant falls into; the instant itself where it falls into none. */
export const afterQuiet = (at: number, quiet: QuietHours | null): number => {
  if (quiet === null) return at
  const hour = Math.floor(((((at + LAGOS_MS) % DAY_MS) + DAY_MS) % DAY_MS) / HOUR_MS)
  const isQuiet = quiet.from < quiet.to ? hour >= quiet.from && hour < quiet.to : hour >= quiet.from || hour < quiet.to
  if (!isQuiet) return at
  const midnight = at - ((((at + LAGOS_MS) % DAY_MS) + DAY_MS) % DAY_MS)
  const end = midnight + quiet.to * HOUR_MS
  return end > at ? end : end + DAY_MS
}

/** When an automatic nudge that is due since `due` has its turn: once quiet hours are over, or at once. It counts as late from then on. */
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

/** What reminders are counted from. */
export interface Remindable {
  /** The machine's state as one word. */
  readonly state: string
  /** When the present period began; before the first one, when the subscription was created. */
  readonly since: number
  readonly nextChargeAt: number | null
  readonly firstFailedAt: number | null
  readonly cancelling: boolean
}

/** States in which reminders go out; while an attempt is under way it takes their place. */
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
      // A day before this period is none of it; one that would come too late says nothing.
      if (due > since && at < nextChargeAt) found.push({ rule: "pre_due", day, at })
    }
  // Who is leaving is not asked any more for what is overdue; where a charge still lies ahead, it is announced.
  if (AFTER.has(state) && firstFailedAt !== null && !cancelling)
    for (const day of new Set(rules.post_due_days))
      found.push({ rule: "post_due", day, at: afterQuiet(firstFailedAt + day * DAY_MS, quiet) })
  return found.sort((a, b) => a.at - b.at || a.day - b.day)
}
