/**
 * Getting paid by the rail within, which answers at once: committed charges go to it outside any transaction, and its answers
 * come back in (settle.ts). Charges of the rails outside wait for their turn in a queue (railCharges.ts); here they are passed
 * over.
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
import { movesElsewhere, standingAt } from "../clock/clocks.ts"
import { commitAttempts } from "./commitAttempts.ts"
import { type ChargeResult, chargeAfter } from "./decide.ts"
import { settle } from "./settle.ts"
import { insertStatusChecks } from "./statusChecks.ts"

/** Dropped charges finished in one go: a crash leaves at most a few batches. */
const MAX_RECOVERED = 500

/** An attempt can lead to another at once, with a payment method that was set meanwhile; more in a row are left to the recovery. */
const MAX_ROUNDS = 10

/** The one-time codes that buyers typed, by charge. They are never kept: what a crash cuts short goes on without. */
export type Codes = ReadonlyMap<string, string>

export const NO_CODES: Codes = new Map()

/** For how long what somebody else holds is waited for once that was in vain. */
const LAST_PATIENCE_MS = 10

/** For how long who asks for charges waits for those that somebody is settling already, and how often it looks. */
const IN_HAND_MS = 5_000
const LOOK_AGAIN = Schedule.spaced(20)

/** What is told of charges that are collected. */
export interface Answered {
  /** Those that could not be settled, by ID, with what went wrong. */
  readonly unsettled: Map<string, { readonly charge: ChargeRow; readonly cause: Cause.Cause<SqlError.SqlError> }>
  /** Rows as their settlements have left them, where somebody asks for those. */
  readonly rows?: NewestRows
}

/** Whether all that went wrong is that somebody else holds what is needed. */
export const isLocked = (cause: Cause.Cause<SqlError.SqlError>): boolean =>
  cause.reasons.every((reason) => Cause.isFailReason(reason) && isLockTimeout(reason.error))

const toRail = (charge: ChargeRow, now: number, codes = NO_CODES): RailCharge => ({
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

const NO_METHOD: RailAnswer = {
  type: "rail.failed",
  code: "payment_method_inactive",
  message: "The customer has no payment method.",
}

/**
 * Settles answers in one transaction; where that fails, each in one of its own, so that one which cannot be settled holds
 * nobody else's up: it stays in hand, and is tried again by the recovery. `told` is told of those; without it, one answer that
 * cannot be settled, where it may wait, is a failure. What somebody else holds is not waited for by several for long, nor by one
 * that may not wait. Returns the charges to attempt next.
 */
const settleEach = Effect.fnUntraced(function* (answers: ReadonlyArray<ChargeResult>, nowOf: NowOf, told?: Answered) {
  const waits = yield* WaitForLocks
  const only = waits ? undefined : LOCK_TIMEOUT_MS
  const settling = (of: ReadonlyArray<ChargeResult>, waitsMs: number | undefined) =>
    Effect.map(settle(of, nowOf, waitsMs), ({ outcomes, attempts, following }) => {
      told?.rows?.note(outcomes)
      for (const { subscription_id } of following) if (subscription_id !== null) told?.rows?.forget(subscription_id)
      return [...attempts, ...following]
    })
  if (answers.length < 2 && told === undefined && waits) return yield* settling(answers, only)
  const alone = (answer: ChargeResult, waitsMs: number | undefined) =>
    Effect.catchCause(settling([answer], waitsMs), (cause) => {
      const { charge } = answer
      told?.unsettled.set(charge.id, { charge, cause })
      const log = !waits && isLocked(cause) ? Effect.logDebug : Effect.logError
      return Effect.as(log("a charge cannot be settled", { charge: charge.id }, cause), [])
    })
  const eachAlone = (waitsMs: number | undefined) =>
    Effect.map(
      Effect.forEach(answers, (answer) => alone(answer, waitsMs)),
      (attempts) => attempts.flat(),
    )
  if (answers.length < 2) return yield* eachAlone(only)
  return yield* Effect.catchCause(settling(answers, LOCK_TIMEOUT_MS), () =>
    eachAlone(waits ? undefined : LAST_PATIENCE_MS),
  )
})

/** An answer is never older than its question, which may be sent later than it was due. */
const heardAt = (charge: ChargeRow, nowOf: NowOf): number => Math.max(charge.sent_at, nowOf(charge))

/** Sends committed charges to the rail and applies its answers; returns the charges to attempt next. */
const attempt = Effect.fnUntraced(function* (
  of: ReadonlyArray<ChargeRow>,
  nowOf: NowOf,
  codes: Codes,
  told: Answered | undefined,
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
      at: heardAt(charge, nowOf),
    })),
    nowOf,
    told,
  )
})

/** Fails with what went wrong first, if anything. */
const failOf = (told: Answered | undefined) => {
  const [first] = told?.unsettled.values() ?? []
  return first === undefined ? Effect.void : Effect.failCause(first.cause)
}

/**
 * Attempts committed charges that go at once, and those that follow from them, round after round. On a test clock one that cannot
 * be settled is a failure once the others are: the clock does not go on without it (decision M5).
 */
export const collect = Effect.fn("charge.collect")(function* (
  of: ReadonlyArray<ChargeRow>,
  nowOf: NowOf,
  { codes = NO_CODES, told }: { readonly codes?: Codes; readonly told?: Answered } = {},
) {
  const isOnClock = of.some(({ test_clock_id }) => test_clock_id !== null)
  const noted: Answered | undefined = told ?? (isOnClock ? { unsettled: new Map() } : undefined)
  let next: ReadonlyArray<ChargeRow> = of.filter((charge) => !isQueued(charge))
  for (let round = 0; next.length > 0; round++) {
    if (round === MAX_ROUNDS) {
      yield* Effect.logWarning("charges are left to the recovery", { charges: next.length })
      return yield* releasing(chargeLease, next, Effect.void)
    }
    const following = yield* releasing(chargeLease, next, attempt(next, nowOf, codes, noted))
    next = following.filter((charge) => !isQueued(charge))
  }
  if (told === undefined) yield* failOf(noted)
})

export type CollectServices = Effect.Services<ReturnType<typeof collect>>

/** Asks the rail what became of charges and applies its answers. */
const ask = Effect.fn("charge.ask")(function* (of: ReadonlyArray<ChargeRow>, nowOf: NowOf) {
  if (of.length === 0) return
  const rail = yield* PaymentRail
  const asking = Effect.flatMap(rail.ask(of.map((charge) => toRail(charge, nowOf(charge)))), (answers) =>
    settleEach(
      of.map((charge, index) => ({ charge, answer: answers[index]!, at: nowOf(charge) })),
      nowOf,
    ),
  )
  yield* collect(yield* releasing(chargeLease, of, asking), nowOf)
})

/** Asks about dropped charges; one that the rail has never heard of is sent, under the same reference. */
const finish = Effect.fnUntraced(function* (of: ReadonlyArray<ChargeRow>, nowOf: NowOf, told: Answered) {
  const rail = yield* PaymentRail
  const payable = of.filter(({ payment_method }) => payment_method !== null)
  const known = yield* rail.ask(payable.map((charge) => toRail(charge, nowOf(charge))))
  const answers = new Map(payable.map((charge, index) => [charge.id, known[index]!]))
  const isUnheard = ({ id, asks }: ChargeRow) =>
    asks === 0 && (answers.get(id)?.type ?? "rail.not_found") === "rail.not_found"
  const heard = of.filter((charge) => !isUnheard(charge))
  if (heard.length > 0) {
    const answered = heard.map((charge) => {
      const answer = answers.get(charge.id) ?? NO_METHOD
      return { charge, answer, at: heardAt(charge, nowOf) }
    })
    yield* collect(yield* releasing(chargeLease, heard, settleEach(answered, nowOf, told)), nowOf, { told })
  }
  yield* collect(of.filter(isUnheard), nowOf, { told })
})

/** Whose charges are meant; all of them where nothing is given. */
export interface Recovered {
  readonly chargeId?: string
  readonly subscriptionId?: string
  readonly customerId?: string
  readonly testClockId?: string
}

/**
 * Finishes what processes that died, or lost their database, were saying to the rail. Narrowed where `only` says so;
 * otherwise everything but what belongs to a moving clock, whose own worker sees to it, or to a broken one. What this process
 * dropped on a clock that another one moves is finished here: to that one it looks as if it were in hand, and it waits.
 */
export const recoverCharges = Effect.fn("charge.recover")(function* (only: Recovered) {
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
        SELECT c.account_id, c.livemode, c.id, ${standingAt(sql, "c", "k")} AS clock_at
        FROM charge c LEFT JOIN test_clock k ON (k.account_id, k.livemode, k.id) = (c.account_id, c.livemode, c.test_clock_id)
        WHERE c.runner IS NOT NULL AND ${narrowed(runner)} AND ${isDropped("c")} AND ${staysHere(sql, "c")}
        ORDER BY c.id LIMIT ${MAX_RECOVERED} FOR UPDATE OF c SKIP LOCKED
      ) dropped
      WHERE (charge.account_id, charge.livemode, charge.id) = (dropped.account_id, dropped.livemode, dropped.id)
      RETURNING charge.*, dropped.clock_at`,
  )
  const told: Answered = { unsettled: new Map() }
  const finishing = (its: typeof dropped) => {
    const now = currentTime()
    const clockOf = new Map(its.map(({ customer_id, clock_at }) => [customer_id, clock_at]))
    // What is not settled may be taken again.
    return releasing(
      chargeLease,
      its,
      finish(its, ({ customer_id }) => clockOf.get(customer_id!) ?? now, told),
    )
  }
  const groups = [...Map.groupBy(dropped, ({ test_clock_id }) => test_clock_id).values()]
  // Who asks for some waits for them: a clock does not go on as long as one of its charges cannot be settled.
  if (conditions.length > 0) {
    yield* Effect.forEach(groups, finishing, { discard: true })
    yield* failOf(told)
    // The recovery may have been faster: then they are in its hands for a moment longer.
    const inHand = sql`SELECT FROM charge c WHERE c.runner IS NOT NULL AND ${sql.and(conditions)} LIMIT 1`
    const settled = Effect.repeat(inHand, { until: (rows) => rows.length === 0, schedule: LOOK_AGAIN })
    if (only.testClockId === undefined) yield* Effect.timeoutOption(settled, IN_HAND_MS)
    return
  }
  const finished = yield* Effect.forEach(groups, (group) => Effect.exit(finishing(group)))
  const left = [...told.unsettled.values()]
  const held = left.flatMap(({ charge, cause }) => (isLocked(cause) ? [charge.id] : []))
  if (held.length > 0) yield* Effect.logWarning("somebody holds what charges need that are to be settled", { held })
  yield* finished.find(Exit.isFailure) ?? Effect.void
  const broken = left.find(({ cause }) => !isLocked(cause))
  if (broken !== undefined) return yield* Effect.failCause(broken.cause)
})

/** Finishes whatever was dropped: what somebody holds keeps nothing else from it, and is tried again the next time. */
export const recoverAll = Effect.provideService(recoverCharges({}), WaitForLocks, false)

/** The rail is asked about charges that it has not decided. */
export const chargeTimers = timerHandler(
  chargeLifecycle,
  Effect.fnUntraced(function* (due: ReadonlyArray<Due<typeof chargeMachine, ChargeRow>>, nowOf: NowOf) {
    const transitions = advance(chargeLifecycle, due)
    const { id: runner } = yield* ProcessLease
    const asking = transitions.map((transition) => {
      const row = chargeAfter(transition, nowOf(transition.row))
      return isQueued(row) ? row : { ...row, runner }
    })
    const atOnce = asking.filter((charge) => !isQueued(charge))
    yield* commitAttempts(
      transitions.map((transition, index) => transitioned(chargeLifecycle, transition, asking[index]!)),
      atOnce,
    )
    insertStatusChecks(yield* unitOfWork, asking.filter(isQueued), false)
    return ask(atOnce, nowOf)
  }),
)
