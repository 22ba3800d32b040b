/**
 * The payment schedule of an instalment plan (decisions L4 to L8), as pure arithmetic. Amounts are kobo, always whole naira; instants are
 * milliseconds since the epoch. A flexible plan has one instalment: the whole amount, by the deadline.
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
/** The smallest payment: rails refuse smaller amounts. */
export const MIN_PAYMENT_KOBO = 200 * KOBO_OF_NAIRA
/** The largest amount of one charge (decision B4). */
const MAX_PAYMENT_KOBO = Math.floor(MAX_AMOUNT_KOBO / KOBO_OF_NAIRA) * KOBO_OF_NAIRA
/** An instalment is missed if it is unpaid this long after its due time. */
export const GRACE_MS = DAY_MS

export interface Instalment {
  readonly dueAt: number
  readonly amountKobo: number
  readonly status: (typeof INSTALMENT_STATUSES)[number]
  readonly paidAt: number | null
}

/** The state of a buyer's payments. Payments fill the oldest instalments first, so that paid ones come first. */
export interface Savings {
  readonly targetKobo: number
  readonly lateFeeKobo: number
  readonly instalments: ReadonlyArray<Instalment>
  readonly deadline: number
  /** The paid part of the target. */
  readonly paidKobo: number
  readonly feesPaidKobo: number
  /** Unpaid late fees. */
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

/** How many steps start within a cycle. */
const countOf = (frequency: Frequency, anchor: number, end: number, cycleMonths: number): number =>
  frequency === "monthly" ? cycleMonths : Math.ceil((end - anchor) / (STEP_DAYS[frequency] * DAY_MS))

/** The schedule of a plan that starts at an instant: equal amounts in whole naira, the remainder in the last one. */
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

/** The paid part of the first instalment that is not fully paid. */
const partPaid = ({ instalments, paidKobo }: Savings): number =>
  instalments.reduce((rest, one) => (isPaid(one) ? rest - one.amountKobo : rest), paidKobo)

/** The first unpaid instalment, with its index and rest; undefined if all are paid. */
export const nextOf = (savings: Savings) => {
  const index = savings.instalments.findIndex((one) => !isPaid(one))
  const next = savings.instalments[index]
  return next === undefined ? undefined : { ...next, index, restKobo: next.amountKobo - partPaid(savings) }
}

/** The unpaid part of the missed instalments. */
export const missedKobo = (savings: Savings): number => {
  const missed = savings.instalments.filter(({ status }) => status === "missed")
  const sum = missed.reduce((kobo, { amountKobo }) => kobo + amountKobo, 0)
  // The missed instalments are the oldest unpaid ones.
  return missed.length === 0 ? 0 : sum - partPaid(savings)
}

/** The unpaid part of the target. */
export const outstandingKobo = ({ targetKobo, paidKobo }: Savings): number => targetKobo - paidKobo

/** The total to pay: the rest of the target, and the fees. */
export const payableKobo = (savings: Savings): number => outstandingKobo(savings) + savings.pendingFeeKobo

/** The largest amount that can be paid in one payment. */
export const mostKobo = (savings: Savings): number => Math.min(payableKobo(savings), MAX_PAYMENT_KOBO)

/** The smallest payment allowed (decisions L4, L8): everything missed with its fees, otherwise the next instalment. */
export const dueKobo = (mode: InstalmentMode, savings: Savings): number => {
  const late = missedKobo(savings)
  if (late > 0) return Math.min(late + savings.pendingFeeKobo, MAX_PAYMENT_KOBO)
  if (mode === "flexible") return Math.min(MIN_PAYMENT_KOBO, payableKobo(savings))
  return Math.min(savings.pendingFeeKobo + (nextOf(savings)?.restKobo ?? 0), MAX_PAYMENT_KOBO)
}

export const isPaidUp = (savings: Savings): boolean => payableKobo(savings) === 0

export const hasMissed = ({ instalments }: Savings): boolean => instalments.some(({ status }) => status === "missed")

/** Applies a payment: to missed instalments first, then to fees, then to the next instalments. */
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

/** When the next instalment is missed if it stays unpaid; infinite if none can be missed. */
export const nextMissAt = ({ instalments }: Savings): number => {
  const next = instalments.find(({ status }) => status === "scheduled")
  return next === undefined ? Number.POSITIVE_INFINITY : next.dueAt + GRACE_MS
}

/** Marks instalments as missed whose grace has ended by `at`, each with its fee. */
export const miss = (savings: Savings, at: number): Savings => {
  const isMissed = ({ status, dueAt }: Instalment) => status === "scheduled" && dueAt + GRACE_MS <= at
  const count = savings.instalments.filter(isMissed).length
  return {
    ...savings,
    instalments: savings.instalments.map((one) => (isMissed(one) ? { ...one, status: "missed" } : one)),
    pendingFeeKobo: savings.pendingFeeKobo + count * savings.lateFeeKobo,
  }
}

/** Moves all unpaid instalments later by so much; missed ones that are now in the future are scheduled again (decision L7). */
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
 * The first reminder after an instant; undefined if there is none. Reminders before an instalment must be later than the previous one: a
 * buyer who pays daily is reminded only of missed instalments.
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
