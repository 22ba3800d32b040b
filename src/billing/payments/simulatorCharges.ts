/**
 * Collects payments by the built-in simulator, which answers immediately: sends committed charges to it outside any transaction, and
 * applies its answers (settle.ts). Skips charges of outside rails, which wait in a queue (railCharges.ts).
 */
import { Cause, Effect, Exit, Schedule } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import type { chargeMachine } from "../../../machines/charge.ts"
import type { NowOf } from "../../base/time.ts"
import { currentTime } from "../../base/wallClock.ts"
import { staysHere } from "../../db/tenant.ts"
import { unitOfWork } from "../../db/UnitOfWork.ts"
import { isLockTimeout, LOCK_TIMEOUT_MS, WaitForLocks } from "../../postgres/lockWait.ts"
import { releasing, takeDropped } from "../../process/lease.ts"
import { ProcessLease } from "../../process/ProcessLease.ts"
import { PaymentRail, type RailAnswer, type RailCharge } from "../../rails/rail/PaymentRail.ts"
import { type Due, timerHandler } from "../../runtime/fire.ts"
import { advance } from "../../runtime/lifecycle.ts"
import { type NewestRows, transitioned } from "../../runtime/outcome.ts"
import { type ChargeRow, chargeLease, chargeLifecycle, isQueued } from "../charge/charge.ts"
import { clockTimeSql, movesElsewhere } from "../clock/clocks.ts"
import { commitAttempts } from "./commitAttempts.ts"
import { type ChargeResult, chargeAfter } from "./decide.ts"
import { settle } from "./settle.ts"
import { insertStatusChecks } from "./statusChecks.ts"

/** Limit of dropped charges finished in one run: a crash leaves at most a few batches. */
const MAX_RECOVERED = 500

/** Limit of rounds: an attempt can lead to another one, with a newly set payment method. The rest is left to the recovery. */
export const MAX_ROUNDS = 10

/** The one-time codes that buyers typed, by charge ID. They are never stored: after a crash the charge continues without one. */
export type Codes = ReadonlyMap<string, string>

export const NO_CODES: Codes = new Map()

/** Lock timeout of a single answer after its batch failed, if it may not wait. */
const LAST_LOCK_WAIT_MS = 10

/** How long a narrowed recovery waits for charges that another process is settling, and how often it looks. */
const IN_FLIGHT_WAIT_MS = 5_000
const LOOK_AGAIN = Schedule.spaced(20)

/** The report on collected charges. */
export interface SettlementReport {
  /** The charges that could not be settled, by ID, with the cause. */
  readonly unsettled: Map<string, { readonly charge: ChargeRow; readonly cause: Cause.Cause<SqlError.SqlError> }>
  /** Rows as their settlements left them, if the caller needs them. */
  readonly rows?: NewestRows
}

/** Whether the only cause is a row that another transaction has locked. */
export const isLocked = (cause: Cause.Cause<SqlError.SqlError>): boolean =>
  cause.reasons.every((reason) => Cause.isFailReason(reason) && isLockTimeout(reason.error))

export const toRail = (charge: ChargeRow, now: number, codes = NO_CODES): RailCharge => ({
  account_id: charge.account_id,
  livemode: charge.livemode,
  reference: charge.id,
  customerId: charge.customer_id,
  testClockId: charge.test_clock_id,
  paymentMethod: charge.payment_method!,
  amountKobo: charge.amount_kobo,
  attemptNumber: charge.attempt_number,
  at: now,
  code: codes.get(charge.id) ?? null,
})

export const NO_METHOD: RailAnswer = {
  type: "rail.failed",
  code: "payment_method_inactive",
  message: "The customer has no payment method.",
}

/**
 * Settles answers in one transaction. If that fails, settles each in its own, so that one that cannot be settled does not block the others:
 * it stays in flight, and the recovery retries it. Such failures go into `report`; without `report`, a single answer that may wait for
 * locks fails. Waits for locks only briefly in a batch (`batchWaitMs`), or if waiting is not allowed. Returns the charges to attempt next.
 */
const settleEach = Effect.fnUntraced(function* (
  answers: ReadonlyArray<ChargeResult>,
  nowOf: NowOf,
  report?: SettlementReport,
  batchWaitMs = LOCK_TIMEOUT_MS,
) {
  const waits = yield* WaitForLocks
  const singleWaitMs = waits ? undefined : LOCK_TIMEOUT_MS
  const settling = (of: ReadonlyArray<ChargeResult>, waitsMs: number | undefined) =>
    Effect.map(settle(of, nowOf, waitsMs), ({ outcomes, attempts, following }) => {
      report?.rows?.note(outcomes)
      for (const { subscription_id } of following) if (subscription_id !== null) report?.rows?.forget(subscription_id)
      return [...attempts, ...following]
    })
  if (answers.length < 2 && report === undefined && waits) return yield* settling(answers, singleWaitMs)
  const alone = (answer: ChargeResult, waitsMs: number | undefined) =>
    Effect.catchCause(settling([answer], waitsMs), (cause) => {
      const { charge } = answer
      report?.unsettled.set(charge.id, { charge, cause })
      const log = !waits && isLocked(cause) ? Effect.logDebug : Effect.logError
      return Effect.as(log("a charge cannot be settled", { charge: charge.id }, cause), [])
    })
  const eachAlone = (waitsMs: number | undefined) =>
    Effect.map(
      Effect.forEach(answers, (answer) => alone(answer, waitsMs)),
      (attempts) => attempts.flat(),
    )
  if (answers.length < 2) return yield* eachAlone(singleWaitMs)
  return yield* Effect.catchCause(settling(answers, batchWaitMs), () =>
    eachAlone(waits ? undefined : LAST_LOCK_WAIT_MS),
  )
})

/** The time of an answer: never before its question, which may be sent later than it was due. */
export const answeredAt = (charge: ChargeRow, nowOf: NowOf): number => Math.max(charge.sent_at, nowOf(charge))

/** Sends committed charges to the rail and applies its answers; returns the charges to attempt next. */
const attempt = Effect.fnUntraced(function* (
  of: ReadonlyArray<ChargeRow>,
  nowOf: NowOf,
  codes: Codes,
  report: SettlementReport | undefined,
  batchWaitMs: number | undefined,
) {
  const rail = yield* PaymentRail
  const payable = of.filter(({ payment_method }) => payment_method !== null)
  const answers =
    payable.length === 0 ? [] : yield* rail.charge(payable.map((charge) => toRail(charge, nowOf(charge), codes)))
  const byReference = new Map(payable.map((charge, index) => [charge.id, answers[index]!]))
  return yield* settleEach(
    of.map((charge) => ({
      charge,
      answer: byReference.get(charge.id) ?? NO_METHOD,
      at: answeredAt(charge, nowOf),
    })),
    nowOf,
    report,
    batchWaitMs,
  )
})

/** Fails with the first failure, if any. */
const failOf = (report: SettlementReport | undefined) => {
  const [first] = report?.unsettled.values() ?? []
  return first === undefined ? Effect.void : Effect.failCause(first.cause)
}

/**
 * Attempts committed charges that are not queued, and those that follow from them, round after round. If a charge on a test clock cannot be
 * settled, fails after the others are settled: the clock does not advance without it (decision M5).
 */
export const collect = Effect.fn("charge.collect")(function* (
  of: ReadonlyArray<ChargeRow>,
  nowOf: NowOf,
  {
    codes = NO_CODES,
    report,
    batchWaitMs,
  }: { readonly codes?: Codes; readonly report?: SettlementReport; readonly batchWaitMs?: number } = {},
) {
  const isOnClock = of.some(({ test_clock_id }) => test_clock_id !== null)
  const effectiveReport: SettlementReport | undefined = report ?? (isOnClock ? { unsettled: new Map() } : undefined)
  let next: ReadonlyArray<ChargeRow> = of.filter((charge) => !isQueued(charge))
  for (let round = 0; next.length > 0; round++) {
    if (round === MAX_ROUNDS) {
      yield* Effect.logWarning("charges are left to the recovery", { charges: next.length })
      return yield* releasing(chargeLease, next, Effect.void)
    }
    const following = yield* releasing(chargeLease, next, attempt(next, nowOf, codes, effectiveReport, batchWaitMs))
    next = following.filter((charge) => !isQueued(charge))
  }
  if (report === undefined) yield* failOf(effectiveReport)
})

export type CollectServices = Effect.Services<ReturnType<typeof collect>>

/** Asks the rail about charges and applies its answers. */
const ask = Effect.fn("charge.ask")(function* (of: ReadonlyArray<ChargeRow>, nowOf: NowOf) {
  if (of.length === 0) return
  const rail = yield* PaymentRail
  const checking = Effect.flatMap(rail.ask(of.map((charge) => toRail(charge, nowOf(charge)))), (answers) =>
    settleEach(
      of.map((charge, index) => ({ charge, answer: answers[index]!, at: nowOf(charge) })),
      nowOf,
    ),
  )
  yield* collect(yield* releasing(chargeLease, of, checking), nowOf)
})

/** Asks about dropped charges; sends a charge that the rail does not have, under the same reference. */
const finish = Effect.fnUntraced(function* (of: ReadonlyArray<ChargeRow>, nowOf: NowOf, report: SettlementReport) {
  const rail = yield* PaymentRail
  const payable = of.filter(({ payment_method }) => payment_method !== null)
  const statuses = yield* rail.ask(payable.map((charge) => toRail(charge, nowOf(charge))))
  const answers = new Map(payable.map((charge, index) => [charge.id, statuses[index]!]))
  const isUnsent = ({ id, asks }: ChargeRow) =>
    asks === 0 && (answers.get(id)?.type ?? "rail.not_found") === "rail.not_found"
  const sent = of.filter((charge) => !isUnsent(charge))
  if (sent.length > 0) {
    const answered = sent.map((charge) => {
      const answer = answers.get(charge.id) ?? NO_METHOD
      return { charge, answer, at: answeredAt(charge, nowOf) }
    })
    yield* collect(yield* releasing(chargeLease, sent, settleEach(answered, nowOf, report)), nowOf, { report })
  }
  yield* collect(of.filter(isUnsent), nowOf, { report })
})

/** Selects the charges to recover; all of them if no field is given. */
export interface RecoveryFilter {
  readonly chargeId?: string
  readonly subscriptionId?: string
  readonly customerId?: string
  readonly testClockId?: string
}

/**
 * Finishes charges that were in flight in processes that died or lost their database. `only` narrows them. Otherwise skips charges of an
 * advancing clock, which its own worker finishes, and of a failed one. Includes charges that this process dropped on a clock that another
 * one advances: to that one they look in flight, and it waits.
 */
export const recoverCharges = Effect.fn("charge.recover")(function* (only: RecoveryFilter) {
  const sql = yield* SqlClient.SqlClient
  const conditions = [
    ...(only.chargeId === undefined ? [] : [sql`c.id = ${only.chargeId}`]),
    ...(only.subscriptionId === undefined ? [] : [sql`c.subscription_id = ${only.subscriptionId}`]),
    ...(only.customerId === undefined ? [] : [sql`c.customer_id = ${only.customerId}`]),
    ...(only.testClockId === undefined ? [] : [sql`c.test_clock_id = ${only.testClockId}`]),
  ]
  const narrowed = (runner: number) =>
    conditions.length > 0
      ? sql.and(conditions)
      : sql`(coalesce(k.state, 'ready') = 'ready' OR (c.runner = ${runner} AND ${movesElsewhere(sql, "k", runner)}))`
  const dropped = yield* takeDropped(
    chargeLease,
    ({ runner, isDropped }) => sql<ChargeRow & { clock_at: number | null }>`
      UPDATE charge SET runner = ${runner}
      FROM (
        SELECT c.account_id, c.livemode, c.id, ${clockTimeSql(sql, "c", "k")} AS clock_at
        FROM charge c LEFT JOIN test_clock k ON (k.account_id, k.livemode, k.id) = (c.account_id, c.livemode, c.test_clock_id)
        WHERE c.runner IS NOT NULL AND ${narrowed(runner)} AND ${isDropped("c")} AND ${staysHere(sql, "c")}
        ORDER BY c.id LIMIT ${MAX_RECOVERED} FOR UPDATE OF c SKIP LOCKED
      ) dropped
      WHERE (charge.account_id, charge.livemode, charge.id) = (dropped.account_id, dropped.livemode, dropped.id)
      RETURNING charge.*, dropped.clock_at`,
  )
  const report: SettlementReport = { unsettled: new Map() }
  const finishing = (group: typeof dropped) => {
    const now = currentTime()
    const clockOf = new Map(group.map(({ customer_id, clock_at }) => [customer_id, clock_at]))
    // Releases unsettled charges too: they can be taken again.
    return releasing(
      chargeLease,
      group,
      finish(group, ({ customer_id }) => clockOf.get(customer_id!) ?? now, report),
    )
  }
  const groups = [...Map.groupBy(dropped, ({ test_clock_id }) => test_clock_id).values()]
  // A narrowed recovery waits for its charges: a clock does not advance while one of its charges cannot be settled.
  if (conditions.length > 0) {
    yield* Effect.forEach(groups, finishing, { discard: true })
    yield* failOf(report)
    // The general recovery may have taken them first: wait until it is done.
    const inFlight = sql`SELECT FROM charge c WHERE c.runner IS NOT NULL AND ${sql.and(conditions)} LIMIT 1`
    const settled = Effect.repeat(inFlight, { until: (rows) => rows.length === 0, schedule: LOOK_AGAIN })
    if (only.testClockId === undefined) yield* Effect.timeoutOption(settled, IN_FLIGHT_WAIT_MS)
    return
  }
  const finished = yield* Effect.forEach(groups, (group) => Effect.exit(finishing(group)))
  const unsettled = [...report.unsettled.values()]
  const lockedIds = unsettled.flatMap(({ charge, cause }) => (isLocked(cause) ? [charge.id] : []))
  if (lockedIds.length > 0)
    yield* Effect.logWarning("charges wait for rows that another transaction has locked", { charges: lockedIds })
  yield* finished.find(Exit.isFailure) ?? Effect.void
  const failed = unsettled.find(({ cause }) => !isLocked(cause))
  if (failed !== undefined) return yield* Effect.failCause(failed.cause)
})

/** Finishes all dropped charges: locked ones do not delay the others, and are retried by the next run. */
export const recoverAll = Effect.provideService(recoverCharges({}), WaitForLocks, false)

/** Asks rails about charges that they have not decided. */
export const chargeTimers = timerHandler(
  chargeLifecycle,
  Effect.fnUntraced(function* (due: ReadonlyArray<Due<typeof chargeMachine, ChargeRow>>, nowOf: NowOf) {
    const transitions = advance(chargeLifecycle, due)
    const { id: runner } = yield* ProcessLease
    const checked = transitions.map((transition) => {
      const row = chargeAfter(transition, nowOf(transition.row))
      return isQueued(row) ? row : { ...row, runner }
    })
    const direct = checked.filter((charge) => !isQueued(charge))
    yield* commitAttempts(
      transitions.map((transition, index) => transitioned(chargeLifecycle, transition, checked[index]!)),
      direct,
    )
    insertStatusChecks(yield* unitOfWork, checked.filter(isQueued), false)
    return ask(direct, nowOf)
  }),
)
