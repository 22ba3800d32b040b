/** The retry schedule of an unpaid bill, as pure arithmetic (decisions E3, E6, E7). */
import { DAY_MS } from "./time.ts"

export const ESCALATION_RULES = ["pause_service", "restrict_access", "hold_delivery", "none"] as const
export type EscalationRule = (typeof ESCALATION_RULES)[number]
export const ESCALATION_ACTIONS = ["pause", "restrict", "hold", "none"] as const
export type EscalationAction = (typeof ESCALATION_ACTIONS)[number]

/** A plan's `retry_logic` when the payment first failed; it applies until the bill is settled (decision C3). */
export interface DunningPolicy {
  /** 0 if retries are disabled. */
  readonly maxAttempts: number
  readonly intervalsDays: ReadonlyArray<number>
  readonly escalation: EscalationRule
  /** null: never cancelled for non-payment. */
  readonly cancelAfterDays: number | null
}

export interface Dunning {
  readonly policy: DunningPolicy
  readonly firstFailedAt: number
  /** The number of automatic retries made or skipped. */
  readonly retriesMade: number
  /** null: no automatic retry is left. */
  readonly nextRetryAt: number | null
  /** The last failure was not retryable: remaining retries are skipped and the plan does not escalate. */
  readonly gaveUp: boolean
  /** The due time of the retry that was called off: a new method had a failure that is not retryable. */
  readonly calledOffRetryAt?: number
}

export const ESCALATIONS: Readonly<Record<EscalationRule, EscalationAction>> = {
  pause_service: "pause",
  restrict_access: "restrict",
  hold_delivery: "hold",
  none: "none",
}

/** Why an attempt was made: the bill came due, the retry schedule, a request, or a new payment method. */
export const ATTEMPT_ORIGINS = ["due", "schedule", "request", "method"] as const
export type AttemptOrigin = (typeof ATTEMPT_ORIGINS)[number]

interface Failure {
  readonly failedAt: number
  /** When the failed attempt was made: after an outage, later than its due time (decision E32). */
  readonly attemptedAt: number
  readonly retryable: boolean
  /** The rail takes no further attempt before this; null: no limit. */
  readonly retryNotBefore: number | null
  readonly origin: AttemptOrigin
}

/** Delays `at` to the earliest time that the rail allows. */
const notBefore = (at: number, { retryNotBefore }: Failure): number =>
  Math.max(at, retryNotBefore ?? Number.NEGATIVE_INFINITY)

/** The time of the next retry after `retriesMade` retries; null if none is left. */
const retryAfter = ({ maxAttempts, intervalsDays }: DunningPolicy, retriesMade: number, failure: Failure) => {
  const next = retriesMade + 1
  const intervalDays = intervalsDays[Math.min(next, intervalsDays.length) - 1]
  return failure.retryable && next <= maxAttempts && intervalDays !== undefined
    ? notBefore(failure.attemptedAt + intervalDays * DAY_MS, failure)
    : null
}

/**
 * The dunning state after one more failure. Retry k runs `intervalsDays[min(k, n) - 1]` days after the previous attempt. A failed attempt
 * by request does not change the schedule (decision E16).
 */
const afterAttempt = (before: Dunning | null, policy: DunningPolicy, failure: Failure): Dunning => {
  if (before !== null && failure.origin === "request") return before
  const current = before?.policy ?? policy
  const retriesMade = (before?.retriesMade ?? 0) + (failure.origin === "schedule" ? 1 : 0)
  return {
    policy: current,
    firstFailedAt: before?.firstFailedAt ?? failure.failedAt,
    retriesMade,
    nextRetryAt: retryAfter(current, retriesMade, failure),
    gaveUp: !failure.retryable,
  }
}

/**
 * The dunning state after a new payment method failed (decision E25). A scheduled retry keeps its time. A failure that is not retryable
 * calls it off. The next method that fails with a retryable failure restores it or, if its time has passed, schedules the retries left
 * after it.
 */
const afterNewMethod = ({ calledOffRetryAt, ...before }: Dunning, failure: Failure): Dunning => {
  const dueAt = before.nextRetryAt ?? calledOffRetryAt
  if (!failure.retryable)
    return { ...before, nextRetryAt: null, gaveUp: true, ...(dueAt === undefined ? {} : { calledOffRetryAt: dueAt }) }
  const isOver = before.nextRetryAt === null && dueAt !== undefined && dueAt <= failure.attemptedAt
  const retriesMade = before.retriesMade + (isOver ? 1 : 0)
  const nextRetryAt =
    dueAt === undefined || isOver ? retryAfter(before.policy, retriesMade, failure) : notBefore(dueAt, failure)
  return { ...before, retriesMade, nextRetryAt, gaveUp: false }
}

/** The dunning state after one more failure of any origin. */
export const afterFailure = (before: Dunning | null, policy: DunningPolicy, failure: Failure): Dunning =>
  before !== null && failure.origin === "method"
    ? afterNewMethod(before, failure)
    : afterAttempt(before, policy, failure)

/** When an unpaid bill ends the subscription; Infinity if the plan never cancels. */
export const unpaidDeadline = (dunning: Dunning): number =>
  dunning.policy.cancelAfterDays === null
    ? Number.POSITIVE_INFINITY
    : dunning.firstFailedAt + dunning.policy.cancelAfterDays * DAY_MS

/** When the last automatic retry of an unpaid bill is made, if all fail; null if none is left. */
export const lastRetryAt = ({ policy, retriesMade, nextRetryAt }: Dunning): number | null => {
  if (nextRetryAt === null) return null
  const { maxAttempts, intervalsDays } = policy
  let at = nextRetryAt
  for (let retry = retriesMade + 2; retry <= maxAttempts; retry++)
    at += intervalsDays[Math.min(retry, intervalsDays.length) - 1]! * DAY_MS
  return at
}
