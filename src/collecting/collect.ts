/**
 * Getting paid by the rail within, which answers at once: committed charges go to it outside any transaction, and its answers
 * come back in (settle.ts). Charges of the rails outside wait for their turn in a queue (railCharges.ts); here they are passed
 * over.
 */
import { type Cause, Effect } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import type { chargeMachine } from "../../machines/charge.ts"
import { type ChargeRow, chargeLease, chargeLifecycle, isQueued } from "../charge/charge.ts"
import { staysHere } from "../db/tenant.ts"
import { releasing, take } from "../process/lease.ts"
import { Runner } from "../process/Runner.ts"
import { PaymentRail, type RailAnswer, type RailCharge } from "../rail/PaymentRail.ts"
import { type Due, timerHandler } from "../runtime/fire.ts"
import { advance } from "../runtime/lifecycle.ts"
import { moved } from "../runtime/outcome.ts"
import { queueAsks } from "./asking.ts"
import { type Answer, commitAttempts, rowAfter, settle } from "./settle.ts"

/** Dropped charges finished in one go: a crash leaves at most a few batches. */
const MAX_RECOVERED = 500

/** An attempt can lead to another at once, with a payment method that was set meanwhile; more in a row are left to the recovery. */
const MAX_ROUNDS = 10

/** The one-time codes that buyers typed, by charge. They are never kept: what a crash cuts short goes on without. */
export type Codes = ReadonlyMap<string, string>

const NO_CODES: Codes = new Map()

/** Charges that could not be settled, with what went wrong. */
export type Unsettled = Map<string, Cause.Cause<SqlError.SqlError>>

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
 * nobody else's up: it stays in hand, and is tried again by the recovery. `unsettled` is told of those; without it, one answer that
 * cannot be settled is a failure.
 */
const settleEach = Effect.fnUntraced(function* (answers: ReadonlyArray<Answer>, now: number, unsettled?: Unsettled) {
  if (answers.length < 2 && unsettled === undefined) return yield* settle(answers, now)
  const alone = (answer: Answer) =>
    Effect.catchCause(settle([answer], now), (cause) => {
      unsettled?.set(answer.charge.id, cause)
      return Effect.as(Effect.logError("a charge cannot be settled", { charge: answer.charge.id }, cause), [])
    })
  const eachAlone = Effect.map(Effect.forEach(answers, alone), (attempts) => attempts.flat())
  return yield* answers.length < 2 ? eachAlone : Effect.catchCause(settle(answers, now), () => eachAlone)
})

/** Sends committed charges to the rail and applies its answers; returns the charges to attempt next. */
const attempt = Effect.fnUntraced(function* (
  of: ReadonlyArray<ChargeRow>,
  now: number,
  codes: Codes,
  unsettled: Unsettled | undefined,
) {
  const rail = yield* PaymentRail
  const payable = of.filter(({ payment_method }) => payment_method !== null)
  const answers = payable.length === 0 ? [] : yield* rail.charge(payable.map((charge) => toRail(charge, now, codes)))
  const byReference = new Map(payable.map((charge, index) => [charge.id, answers[index]!]))
  return yield* settleEach(
    of.map((charge) => ({ charge, answer: byReference.get(charge.id) ?? NO_METHOD, at: charge.sent_at })),
    now,
    unsettled,
  )
})

/** Attempts committed charges that go at once, and those that follow from them, round after round. */
export const collect = Effect.fn("charge.collect")(function* (
  of: ReadonlyArray<ChargeRow>,
  now: number,
  { codes = NO_CODES, unsettled }: { readonly codes?: Codes; readonly unsettled?: Unsettled } = {},
) {
  let next: ReadonlyArray<ChargeRow> = of.filter((charge) => !isQueued(charge))
  for (let round = 0; next.length > 0; round++) {
    if (round === MAX_ROUNDS) {
      yield* Effect.logWarning("charges are left to the recovery", { charges: next.length })
      return yield* releasing(chargeLease, next, Effect.void)
    }
    const following = yield* releasing(chargeLease, next, attempt(next, now, codes, unsettled))
    next = following.filter((charge) => !isQueued(charge))
  }
})

export type CollectServices = Effect.Services<ReturnType<typeof collect>>

/** Asks the rail what became of charges and applies its answers. */
const ask = Effect.fn("charge.ask")(function* (of: ReadonlyArray<ChargeRow>, now: number) {
  if (of.length === 0) return
  const rail = yield* PaymentRail
  const asking = Effect.flatMap(rail.ask(of.map((charge) => toRail(charge, now))), (answers) =>
    settleEach(
      of.map((charge, index) => ({ charge, answer: answers[index]!, at: now })),
      now,
    ),
  )
  yield* collect(yield* releasing(chargeLease, of, asking), now)
})

/** Asks about dropped charges; one that the rail has never heard of is sent, under the same reference. */
const finish = Effect.fnUntraced(function* (of: ReadonlyArray<ChargeRow>, now: number) {
  const rail = yield* PaymentRail
  const payable = of.filter(({ payment_method }) => payment_method !== null)
  const known = yield* rail.ask(payable.map((charge) => toRail(charge, now)))
  const answers = new Map(payable.map((charge, index) => [charge.id, known[index]!]))
  const isUnheard = ({ id, asks }: ChargeRow) =>
    asks === 0 && (answers.get(id)?.type ?? "rail.not_found") === "rail.not_found"
  const heard = of.filter((charge) => !isUnheard(charge))
  if (heard.length > 0) {
    const answered = heard.map((charge) => {
      const answer = answers.get(charge.id) ?? NO_METHOD
      return { charge, answer, at: Math.max(charge.sent_at, now) }
    })
    yield* collect(yield* releasing(chargeLease, heard, settleEach(answered, now)), now)
  }
  yield* collect(of.filter(isUnheard), now)
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
 * otherwise everything but what belongs to a moving clock, whose own worker sees to it, or to a broken one.
 */
export const recoverCharges = Effect.fn("charge.recover")(function* (only: Recovered) {
  const sql = yield* SqlClient.SqlClient
  const conditions = [
    ...(only.chargeId === undefined ? [] : [sql`c.id = ${only.chargeId}`]),
    ...(only.subscriptionId === undefined ? [] : [sql`c.subscription_id = ${only.subscriptionId}`]),
    ...(only.customerId === undefined ? [] : [sql`c.customer_id = ${only.customerId}`]),
    ...(only.testClockId === undefined ? [] : [sql`c.test_clock_id = ${only.testClockId}`]),
  ]
  const narrowed = conditions.length === 0 ? sql`coalesce(k.state, 'ready') = 'ready'` : sql.and(conditions)
  const dropped = yield* take(
    chargeLease,
    ({ runner, isDropped }) => sql<ChargeRow & { clock_at: number | null }>`
      UPDATE charge SET runner = ${runner}
      FROM (
        SELECT c.account_id, c.livemode, c.id, k.frozen_at AS clock_at
        FROM charge c LEFT JOIN test_clock k ON (k.account_id, k.livemode, k.id) = (c.account_id, c.livemode, c.test_clock_id)
        WHERE c.runner IS NOT NULL AND ${narrowed} AND ${isDropped("c")} AND ${staysHere(sql, "c")}
        ORDER BY c.id LIMIT ${MAX_RECOVERED} FOR UPDATE OF c SKIP LOCKED
      ) dropped
      WHERE (charge.account_id, charge.livemode, charge.id) = (dropped.account_id, dropped.livemode, dropped.id)
      RETURNING charge.*, dropped.clock_at`,
  )
  const finishing = ([clockAt, its]: readonly [number | null, ReadonlyArray<ChargeRow>]) =>
    finish(its, clockAt ?? Date.now())
  const groups = [...Map.groupBy(dropped, ({ clock_at }) => clock_at)]
  if (groups.length < 2) return yield* Effect.forEach(groups, finishing, { discard: true })
  yield* Effect.forEach(
    groups,
    (group) => Effect.catchCause(finishing(group), (cause) => Effect.logError("charges cannot be finished", cause)),
    { discard: true },
  )
})

/** The rail is asked about charges that it has not decided. */
export const chargeTimers = timerHandler(
  chargeLifecycle,
  Effect.fnUntraced(function* (due: ReadonlyArray<Due<typeof chargeMachine, ChargeRow>>, now: number) {
    const transitions = advance(chargeLifecycle, due)
    const { id: runner } = yield* Runner
    const asking = transitions.map((transition) => {
      const row = rowAfter(transition, now)
      return isQueued(row) ? row : { ...row, runner }
    })
    const atOnce = asking.filter((charge) => !isQueued(charge))
    yield* commitAttempts(
      transitions.map((transition, index) => moved(chargeLifecycle, transition, asking[index]!)),
      atOnce,
    )
    yield* queueAsks(asking.filter(isQueued), false)
    return ask(atOnce, now)
  }),
)
