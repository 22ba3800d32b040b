/** The retry schedule of an unpaid bill, as pure arithmetic (decisions E3, E6, E7). */
import { DAY_MS } from "./time.ts"

export const ESCALATION_RULES = ["pause_service", "restrict_access", "hold_delivery", "none"] as const
export type EscalationRule = (typeof ESCALATION_RULES)[number]
export const ESCALATION_ACTIONS = ["pause", "restrict", "hold", "none"] as const
export type EscalationAction = (typeof ESCALATION_ACTIONS)[number]

/** A plan's `retry_logic` as it stood when the payment first failed; it holds until the bill is settled (decision C3). */
export interface DunningPolicy {
  /** 0 where retries are disabled. */
  readonly maxAttempts: number
  readonly intervalsDays: ReadonlyArray<number>
  readonly escalation: EscalationRule
  /** null: never cancelled for non-payment. */
  readonly cancelAfterDays: number | null
}

export interface Dunning {
  readonly policy: DunningPolicy
  readonly firstFailedAt: number
  /** Automatic retries already made. */
  readonly retriesMade: number
  /** null: no automatic retry is left. */
  readonly nextRetryAt: number | null
  /** The last failure was not retryable: remaining retries are skipped and no escalation is taken. */
  readonly gaveUp: boolean
}

export const ESCALATIONS: Readonly<Record<EscalationRule, EscalationAction>> = {
  pause_service: "pause",
  restrict_access: "restrict",
  hold_delivery: "hold",
  none: "none",
}

/** Why an attempt was made: the bill came due, the schedule's turn, at somebody's request, or for a new payment method. */
export const ATTEMPT_ORIGINS = ["due", "schedule", "request", "method"] as const
export type AttemptOrigin = (typeof ATTEMPT_ORIGINS)[number]

interface Failure {
  readonly failedAt: number
  /** When the failed attempt was made: after an outage that is later than it was due (decision E32). */
  readonly attemptedAt: number
  readonly retryable: boolean
  /** The rail takes no further attempt before; null: it says nothing of the kind. */
  readonly retryNotBefore: number | null
  readonly origin: AttemptOrigin
}

/**
 * Dunning after one more failure. Retry k runs `intervalsDays[min(k, n) - 1]` days after the previous attempt. A failure
 * at somebody's request moves nothing (decision E16); one of a new payment method uses up no retry either, and says
 * whether going on with that one makes sense (decision E25).
 */
export const afterFailure = (before: Dunning | null, policy: DunningPolicy, failure: Failure): Dunning => {
  if (before !== null && failure.origin === "request") return before
  const held = before?.policy ?? policy
  const retriesMade = (before?.retriesMade ?? 0) + (failure.origin === "schedule" ? 1 : 0)
  const next = retriesMade + 1
  const intervalDays = held.intervalsDays[Math.min(next, held.intervalsDays.length) - 1]
  const retry = failure.retryable && next <= held.maxAttempts && intervalDays !== undefined
  return {
    policy: held,
    firstFailedAt: before?.firstFailedAt ?? failure.failedAt,
    retriesMade,
    nextRetryAt: retry
      ? Math.max(failure.attemptedAt + intervalDays * DAY_MS, failure.retryNotBefore ?? Number.NEGATIVE_INFINITY)
      : null,
    gaveUp: !failure.retryable,
  }
}

/** When an unpaid bill ends the subscription; Infinity where the plan never cancels. */
export const unpaidDeadline = (dunning: Dunning): number =>
  dunning.policy.cancelAfterDays === null
    ? Number.POSITIVE_INFINITY
    : dunning.firstFailedAt + dunning.policy.cancelAfterDays * DAY_MS

/** When the last automatic retry of an unpaid bill is made, should all fail; null where none is left. */
export const lastRetryAt = ({ policy, retriesMade, nextRetryAt }: Dunning): number | null => {
  if (nextRetryAt === null) return null
  const { maxAttempts, intervalsDays } = policy
  let at = nextRetryAt
  for (let retry = retriesMade + 2; retry <= maxAttempts; retry++)
    at += intervalsDays[Math.min(retry, intervalsDays.length) - 1]! * DAY_MS
  return at
}
