/**
 * Getting paid: committed charges go to the rail outside any transaction, and what the rail says comes back in as the
 * next event of the charge and of its subscription, in one transaction.
 */
import { Effect } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import type { chargeMachine } from "../../machines/charge.ts"
import type { DunningPolicy } from "../../machines/dunning.ts"
import { chargeLifecycle } from "../charge/Charge.ts"
import { settleOneOffs } from "../charge/oneOff.ts"
import { type ChargeRow, lockCharges, updateCharges } from "../charge/rows.ts"
import { type Ref, refOf } from "../db/tenant.ts"
import { advance, type Transition } from "../lifecycle/advance.ts"
import { recordTransitions } from "../lifecycle/commit.ts"
import { isDead, Runner } from "../lifecycle/Runner.ts"
import type { Nudging } from "../nudge/Nudging.ts"
import { type FailureCode, PaymentRail, type RailAnswer, type RailCharge, RETRYABLE } from "../rail/PaymentRail.ts"
import { formatInstant } from "../time.ts"
import type { Wakeups } from "../timers/Wakeups.ts"
import { commitSubscriptions, type Settled } from "./commit.ts"
import { lockSubscriptions, readTerms, type SubscriptionRow, type Terms } from "./rows.ts"
import { subscriptionLifecycle } from "./Subscription.ts"

type ChargeTransition = Transition<typeof chargeMachine, ChargeRow>

interface Answered {
  readonly charge: ChargeRow
  readonly answer: RailAnswer
  /** When the answer counts from: the attempt's own instant where the rail answered it at once, else now. */
  readonly at: number
}

/** The subscription that a charge is for. */
const ownerOf = (charge: ChargeRow): ReadonlyArray<Ref> =>
  charge.subscription_id === null ? [] : [{ ...refOf(charge), id: charge.subscription_id }]

/** Orphans recovered in one go: a crash leaves at most a few batches. */
const RECOVERY_BATCH = 500

const policyOf = ({ retry_logic: rules }: Terms): DunningPolicy => ({
  maxAttempts: rules.enabled ? rules.max_attempts : 0,
  intervalsDays: rules.retry_intervals_days,
  escalation: rules.escalation_on_failure,
  cancelAfterDays: rules.cancel_after_days_unpaid,
})

const toRail = (charge: ChargeRow, now: number): RailCharge => ({
  account_id: charge.account_id,
  livemode: charge.livemode,
  reference: charge.id,
  customerId: charge.customer_id,
  testClockId: charge.test_clock_id,
  paymentMethod: charge.payment_method!,
  amountKobo: charge.amount_kobo,
  attemptNumber: charge.attempt_number,
  at: now,
})

const NO_METHOD: RailAnswer = {
  type: "rail.failed",
  code: "payment_method_inactive",
  message: "The customer has no payment method.",
}

/** The charge's row after an answer. */
const answeredRow = ({ row, to, version, decision }: ChargeTransition, now: number): ChargeRow => {
  const { asks, notFound, knownAt } = decision.snapshot.context
  const settled = decision.effects.find(({ type }) => type === "settled")?.params as
    | { readonly status: "succeeded" | "failed"; readonly code: string | null; readonly message: string | null }
    | undefined
  const contradicted = decision.effects.find(({ type }) => type === "contradicted")?.params as
    | { readonly answer: "succeeded" | "failed"; readonly code: string | null; readonly at: number }
    | undefined
  return {
    ...row,
    state: to,
    version,
    asks,
    not_found: notFound,
    known_at: knownAt,
    sender: null,
    status: settled?.status ?? row.status,
    failure_code: settled?.code ?? row.failure_code,
    failure_message: settled?.message ?? row.failure_message,
    paid_at: settled?.status === "succeeded" ? now : row.paid_at,
    contradictions:
      contradicted === undefined
        ? row.contradictions
        : [...row.contradictions, { ...contradicted, at: formatInstant(contradicted.at) }],
  }
}

/** What an answer means to the charge's subscription, if anything. */
const subscriptionEvent = (
  subscription: SubscriptionRow,
  before: ChargeRow,
  after: ChargeRow,
  at: number,
  terms: Terms | undefined,
) => {
  if (before.status !== "pending") return undefined
  if (after.status === "succeeded") return { type: "charge.succeeded", at }
  if (after.status === "pending") return subscription.state === "opening" ? { type: "charge.unsettled", at } : undefined
  return {
    type: "charge.failed",
    at,
    retryable: RETRYABLE[after.failure_code as FailureCode],
    policy: policyOf(terms!),
  }
}

/**
 * Applies the rail's answers: charges settle or wait, subscriptions move on. One transaction; answers to charges that
 * are settled already change nothing but are kept where they contradict. `now` is the actors' own clock. Answers the
 * charges that are to be attempted next.
 */
export const settle = (answered: ReadonlyArray<Answered>, now: number) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    return yield* sql.withTransaction(
      Effect.gen(function* () {
        const owners = answered.flatMap(({ charge }) => ownerOf(charge))
        const subscriptions = new Map((yield* lockSubscriptions(owners)).map((row) => [row.id, row]))
        const rows = new Map(
          (yield* lockCharges(answered.map(({ charge }) => refOf(charge)))).map((row) => [row.id, row]),
        )
        const transitions = advance(
          chargeLifecycle,
          answered.flatMap(({ charge, answer, at }) => {
            const row = rows.get(charge.id)
            return row === undefined ? [] : [{ row, event: { ...answer, at } }]
          }),
        )
        const moved = transitions.map((transition) => ({
          before: transition.row,
          after: answeredRow(transition, now),
          at: transition.event.at,
        }))
        const failedOwners = moved.flatMap(({ after }) => (after.status === "failed" ? ownerOf(after) : []))
        const terms = failedOwners.length === 0 ? new Map<string, Terms>() : yield* readTerms(failedOwners)
        const settled = new Map<string, Settled>()
        const commands = moved.flatMap(({ before, after, at }) => {
          const row = after.subscription_id === null ? undefined : subscriptions.get(after.subscription_id)
          const event = row === undefined ? undefined : subscriptionEvent(row, before, after, at, terms.get(row.id))
          if (row === undefined || event === undefined) return []
          settled.set(row.id, { before, after })
          return [{ row, event }]
        })
        const decided = yield* commitSubscriptions(advance(subscriptionLifecycle, commands), { now, terms, settled })
        const written = new Set(decided.settled.map(({ id }) => id))
        yield* updateCharges(moved.flatMap(({ after }) => (written.has(after.id) ? [] : [after])))
        yield* recordTransitions(chargeLifecycle, transitions)
        yield* settleOneOffs(
          moved.filter(({ before, after }) => after.subscription_id === null && before.status !== after.status),
          now,
        )
        return decided.attempts
      }),
    )
  })

/** Lets go of charges once `work` on them has ended, however it ended: what it left undone is recovered. */
const handling = <A, E, R>(charges: ReadonlyArray<ChargeRow>, work: Effect.Effect<A, E, R>) =>
  Effect.gen(function* () {
    const { inFlight } = yield* Runner
    return yield* Effect.ensuring(
      work,
      Effect.sync(() => {
        inFlight.done(charges)
      }),
    )
  })

type Work = Effect.Effect<void, SqlError.SqlError, SqlClient.SqlClient | PaymentRail | Runner | Wakeups | Nudging>

/** Sends committed charges to the rail and applies its answers; attempts that follow from them at once are made too. */
export const collect = (charges: ReadonlyArray<ChargeRow>, now: number): Work =>
  Effect.gen(function* () {
    if (charges.length === 0) return
    const rail = yield* PaymentRail
    const payable = charges.filter(({ payment_method }) => payment_method !== null)
    const answers = payable.length === 0 ? [] : yield* rail.charge(payable.map((charge) => toRail(charge, now)))
    const byReference = new Map(payable.map((charge, index) => [charge.id, answers[index]!]))
    const next = yield* settle(
      charges.map((charge) => ({ charge, answer: byReference.get(charge.id) ?? NO_METHOD, at: charge.sent_at })),
      now,
    )
    yield* collect(next, now)
  }).pipe((work) => handling(charges, work))

/** Asks the rail what became of charges and applies its answers. */
export const ask = (charges: ReadonlyArray<ChargeRow>, now: number) =>
  Effect.gen(function* () {
    if (charges.length === 0) return
    const rail = yield* PaymentRail
    const answers = yield* rail.ask(charges.map((charge) => toRail(charge, now)))
    const next = yield* settle(
      charges.map((charge, index) => ({ charge, answer: answers[index]!, at: now })),
      now,
    )
    yield* collect(next, now)
  }).pipe((work) => handling(charges, work))

/** Asks about dropped charges; one that the rail has never heard of is sent, under the same reference. */
const resume = (charges: ReadonlyArray<ChargeRow>, now: number) =>
  Effect.gen(function* () {
    const rail = yield* PaymentRail
    const payable = charges.filter(({ payment_method }) => payment_method !== null)
    const known = yield* rail.ask(payable.map((charge) => toRail(charge, now)))
    const answers = new Map(payable.map((charge, index) => [charge.id, known[index]!]))
    const isUnheard = ({ id, asks }: ChargeRow) =>
      asks === 0 && (answers.get(id)?.type ?? "rail.not_found") === "rail.not_found"
    const heard = charges.filter((charge) => !isUnheard(charge))
    if (heard.length > 0) {
      const answered = heard.map((charge) => {
        const answer = answers.get(charge.id) ?? NO_METHOD
        return { charge, answer, at: Math.max(charge.sent_at, now) }
      })
      yield* collect(yield* handling(heard, settle(answered, now)), now)
    }
    yield* collect(charges.filter(isUnheard), now)
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
 * otherwise everything but what belongs to a moving clock, whose own worker sees to it.
 */
export const recoverCharges = (only: Recovered) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const { id: runner, inFlight, taking } = yield* Runner
    const conditions = [
      ...(only.chargeId === undefined ? [] : [sql`c.id = ${only.chargeId}`]),
      ...(only.subscriptionId === undefined ? [] : [sql`c.subscription_id = ${only.subscriptionId}`]),
      ...(only.customerId === undefined ? [] : [sql`c.customer_id = ${only.customerId}`]),
      ...(only.testClockId === undefined ? [] : [sql`c.test_clock_id = ${only.testClockId}`]),
    ]
    const narrowed = conditions.length === 0 ? sql`k.state IS DISTINCT FROM 'advancing'` : sql.and(conditions)
    const orphaned = Effect.suspend(
      () => sql<ChargeRow & { clock_at: number | null }>`
      UPDATE charge SET sender = ${runner}
      FROM (
        SELECT c.account_id, c.livemode, c.id, k.frozen_at AS clock_at
        FROM charge c LEFT JOIN test_clock k ON (k.account_id, k.livemode, k.id) = (c.account_id, c.livemode, c.test_clock_id)
        WHERE c.sender IS NOT NULL AND ${narrowed}
          AND CASE WHEN c.sender = ${runner} THEN NOT c.id = ANY(${inFlight.current()}::text[]) ELSE ${isDead(sql, "c.sender", runner)} END
        ORDER BY c.id LIMIT ${RECOVERY_BATCH} FOR UPDATE OF c SKIP LOCKED
      ) orphan
      WHERE (charge.account_id, charge.livemode, charge.id) = (orphan.account_id, orphan.livemode, orphan.id)
      RETURNING charge.*, orphan.clock_at`,
    )
    const orphans = yield* taking(Effect.tap(orphaned, (rows) => Effect.sync(() => inFlight.add(rows))))
    for (const [clockAt, charges] of Map.groupBy(orphans, ({ clock_at }) => clock_at)) {
      yield* resume(charges, clockAt ?? Date.now())
    }
  })

/** Marks charges as being asked about by this process. */
export const startAsking = (transitions: ReadonlyArray<ChargeTransition>, now: number) =>
  Effect.gen(function* () {
    const { id: sender, inFlight } = yield* Runner
    const rows = transitions.map((transition) => ({ ...answeredRow(transition, now), sender }))
    inFlight.add(rows)
    yield* updateCharges(rows)
    yield* recordTransitions(chargeLifecycle, transitions)
    return rows
  })
