/**
 * What the buyer of an instalment plan pays, and when (decisions L4 to L8), as pure arithmetic. Amounts are kobo, always
 * whole naira; instants are milliseconds since the epoch. A flexible plan has one instalment: all of it, by the deadline.
 */
import { MAX_AMOUNT_KOBO } from "./billing.ts"
import { addMonths } from "./calendar.ts"
import type { Reminder } from "./reminders.ts"
import { DAY_MS, dayOf } from "./time.ts"

export const INSTALMENT_MODES = ["fixed", "flexible"] as const
export type InstalmentMode = (typeof INSTALMENT_MODES)[number]

export const FREQUENCIES = ["daily", "weekly", "biweekly", "monthly"] as const
export type Frequency = (typeof FREQUENCIES)[number]

export const INSTALMENT_STATUSES = ["scheduled", "paid", "paid_early", "missed"] as const

export const KOBO_OF_NAIRA = 100
/** The least that is paid at once: rails refuse smaller amounts. */
export const MIN_PAYMENT_KOBO = 200 * KOBO_OF_NAIRA
/** The most that one charge takes (decision B4). */
const MAX_PAYMENT_KOBO = Math.floor(MAX_AMOUNT_KOBO / KOBO_OF_NAIRA) * KOBO_OF_NAIRA
/** An instalment that is unpaid for so long after it was due is missed. */
export const GRACE_MS = DAY_MS

export interface Instalment {
  readonly dueAt: number
  readonly amountKobo: number
  readonly status: (typeof INSTALMENT_STATUSES)[number]
  readonly paidAt: number | null
}

/** How far the buyer has come. Payments fill the oldest instalments first, so that those that are paid come first. */
export interface Savings {
  readonly targetKobo: number
  readonly lateFeeKobo: number
  readonly instalments: ReadonlyArray<Instalment>
  readonly deadline: number
  /** What is paid of the target. */
  readonly paidKobo: number
  readonly feesPaidKobo: number
  /** Late fees that are not paid. */
  readonly pendingFeeKobo: number
}

export interface Terms {
  readonly mode: InstalmentMode
  /** Of a fixed plan. */
  readonly frequency: Frequency | null
  readonly targetKobo: number
  readonly cycleMonths: number
}

const STEP_DAYS = { daily: 1, weekly: 7, biweekly: 14 } as const

/** The n-th step of a frequency, counted from the anchor, never from the step before. */
const stepAt = (frequency: Frequency, anchor: number, n: number): number =>
  frequency === "monthly" ? addMonths(anchor, n) : anchor + n * STEP_DAYS[frequency] * DAY_MS

/** How many steps begin within a cycle. */
const countOf = (frequency: Frequency, anchor: number, end: number, cycleMonths: number): number =>
  frequency === "monthly" ? cycleMonths : Math.ceil((end - anchor) / (STEP_DAYS[frequency] * DAY_MS))

/** The schedule of a plan that begins at an instant: equal amounts in whole naira, the remainder on the last. */
export const scheduleOf = (
  { mode, frequency, targetKobo, cycleMonths }: Terms,
  at: number,
): Pick<Savings, "instalments" | "deadline"> => {
  const deadline = addMonths(at, cycleMonths)
  const made = (dueAt: number, amountKobo: number): Instalment => ({
    dueAt,
    amountKobo,
    status: "scheduled",
    paidAt: null,
  })
  if (mode === "flexible" || frequency === null) return { instalments: [made(deadline, targetKobo)], deadline }
  const count = countOf(frequency, at, deadline, cycleMonths)
  const equalKobo = Math.floor(targetKobo / KOBO_OF_NAIRA / count) * KOBO_OF_NAIRA
  const instalments = Array.from({ length: count }, (_, n) =>
    made(stepAt(frequency, at, n), n < count - 1 ? equalKobo : targetKobo - (count - 1) * equalKobo),
  )
  return { instalments, deadline }
}

export const isPaid = ({ status }: Instalment): boolean => status === "paid" || status === "paid_early"

/** What is paid of an instalment that is not paid up: the first of those. */
const partPaid = ({ instalments, paidKobo }: Savings): number =>
  instalments.reduce((rest, one) => (isPaid(one) ? rest - one.amountKobo : rest), paidKobo)

/** The first instalment that is not paid, by its place, with what is left of it; undefined where all are. */
export const nextOf = (savings: Savings) => {
  const index = savings.instalments.findIndex((one) => !isPaid(one))
  const next = savings.instalments[index]
  return next === undefined ? undefined : { ...next, index, restKobo: next.amountKobo - partPaid(savings) }
}

/** What is left to pay of the instalments that were missed. */
export const missedKobo = (savings: Savings): number => {
  const missed = savings.instalments.filter(({ status }) => status === "missed")
  const sum = missed.reduce((kobo, { amountKobo }) => kobo + amountKobo, 0)
  // Those that were missed are the oldest that are not paid.
  return missed.length === 0 ? 0 : sum - partPaid(savings)
}

/** What is left of the target. */
export const outstandingKobo = ({ targetKobo, paidKobo }: Savings): number => targetKobo - paidKobo

/** All that is to be paid: the rest, and the fees. */
export const payableKobo = (savings: Savings): number => outstandingKobo(savings) + savings.pendingFeeKobo

/** The most that can be paid at once. */
export const mostKobo = (savings: Savings): number => Math.min(payableKobo(savings), MAX_PAYMENT_KOBO)

/** What a payment has to come to at least (decisions L4, L8): all that was missed with its fees, else the next instalment. */
export const dueKobo = (mode: InstalmentMode, savings: Savings): number => {
  const late = missedKobo(savings)
  if (late > 0) return Math.min(late + savings.pendingFeeKobo, MAX_PAYMENT_KOBO)
  if (mode === "flexible") return Math.min(MIN_PAYMENT_KOBO, payableKobo(savings))
  return Math.min(savings.pendingFeeKobo + (nextOf(savings)?.restKobo ?? 0), MAX_PAYMENT_KOBO)
}

export const isPaidUp = (savings: Savings): boolean => payableKobo(savings) === 0

export const hasMissed = ({ instalments }: Savings): boolean => instalments.some(({ status }) => status === "missed")

/** A payment: what was missed first, then the fees, then the next instalments. */
export const pay = (savings: Savings, amountKobo: number, at: number): Savings => {
  const late = Math.min(amountKobo, missedKobo(savings))
  const fees = Math.min(amountKobo - late, savings.pendingFeeKobo)
  const paidKobo = savings.paidKobo + amountKobo - fees
  let filled = 0
  const instalments = savings.instalments.map((one): Instalment => {
    filled += one.amountKobo
    if (isPaid(one) || filled > paidKobo) return one
    return { ...one, status: dayOf(at) < dayOf(one.dueAt) ? "paid_early" : "paid", paidAt: at }
  })
  return {
    ...savings,
    instalments,
    paidKobo,
    feesPaidKobo: savings.feesPaidKobo + fees,
    pendingFeeKobo: savings.pendingFeeKobo - fees,
  }
}

/** When the next instalment is missed if nobody pays it; infinite where none can be. */
export const nextMissAt = ({ instalments }: Savings): number => {
  const next = instalments.find(({ status }) => status === "scheduled")
  return next === undefined ? Number.POSITIVE_INFINITY : next.dueAt + GRACE_MS
}

/** Instalments whose grace is over by `at` are missed, each with its fee. */
export const miss = (savings: Savings, at: number): Savings => {
  const isMissed = ({ status, dueAt }: Instalment) => status === "scheduled" && dueAt + GRACE_MS <= at
  const count = savings.instalments.filter(isMissed).length
  return {
    ...savings,
    instalments: savings.instalments.map((one) => (isMissed(one) ? { ...one, status: "missed" } : one)),
    pendingFeeKobo: savings.pendingFeeKobo + count * savings.lateFeeKobo,
  }
}

/** Everything that is not paid comes so much later; what was missed and lies ahead now is scheduled again (decision L7). */
export const extend = (savings: Savings, byMs: number, at: number): Savings => ({
  ...savings,
  deadline: savings.deadline + byMs,
  instalments: savings.instalments.map((one): Instalment => {
    if (isPaid(one)) return one
    const dueAt = one.dueAt + byMs
    return { ...one, dueAt, status: dueAt > at ? "scheduled" : one.status }
  }),
})

/** The days on which a buyer is reminded: before the next instalment, and after the oldest that was missed. */
const PRE_DUE_DAYS: ReadonlyArray<number> = [3, 1]
const POST_DUE_DAYS: ReadonlyArray<number> = [1, 3, 7]

/**
 * The first reminder after an instant; undefined where there is none. Before an instalment only days since the one before it
 * count: who pays daily is reminded of what was missed alone.
 */
export const nextReminder = ({ instalments }: Savings, after: number): Reminder | undefined => {
  const found: Array<Reminder> = []
  const next = instalments.findIndex(({ status }) => status === "scheduled")
  if (next !== -1) {
    const { dueAt } = instalments[next]!
    const before = instalments[next - 1]?.dueAt ?? Number.NEGATIVE_INFINITY
    for (const day of PRE_DUE_DAYS) {
      const at = dueAt - day * DAY_MS
      if (at > before) found.push({ rule: "pre_due", day, at })
    }
  }
  const missed = instalments.find(({ status }) => status === "missed")
  if (missed !== undefined)
    for (const day of POST_DUE_DAYS) found.push({ rule: "post_due", day, at: missed.dueAt + day * DAY_MS })
  return found.filter(({ at }) => at > after).sort((a, b) => a.at - b.at)[0]
}
