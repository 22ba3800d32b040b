/**
 * What rails say comes back in as the next event of each charge and of what it is for, in one transaction with all that
 * follows from it: the books, what the rail saved, what cannot be right about the answer.
 */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { paramsOf } from "../../machines/decide.ts"
import { type ChargeRow, chargeLease, chargeLifecycle, charges, isQueued } from "../charge/charge.ts"
import { customers } from "../customer/customer.ts"
import { retryingDeadlocks } from "../db/deadlock.ts"
import { IN_ONE_GO, readingFirst, sent } from "../db/pipelining.ts"
import { names, REF_COLUMNS, records } from "../db/records.ts"
import { refOf } from "../db/tenant.ts"
import { newId } from "../ids.ts"
import { hold } from "../process/lease.ts"
import { isOutside } from "../rail/Rail.ts"
import { type Call, queueCalls } from "../rail_call/queue.ts"
import { newRefund, requestRefunds } from "../refund/refund.ts"
import { commit } from "../runtime/commit.ts"
import { advance } from "../runtime/lifecycle.ts"
import { moved, type Outcome } from "../runtime/outcome.ts"
import { formatInstant, type NowOf } from "../time.ts"
import { booksOf, type ChargeTransition } from "./books.ts"
import { type Answered, type ChargeOwner, ChargeOwners, type Settle } from "./ChargeOwners.ts"
import type { AnswerWithoutTime, HeardException, Particulars } from "./heard.ts"
import { saveMethod } from "./saving.ts"

/** A rail's answer to a charge, with what else is known by it. */
export interface Answer extends Particulars {
  readonly charge: ChargeRow
  readonly answer: AnswerWithoutTime
  /** When the answer counts from: the attempt's own instant where the rail answered it at once, else now. */
  readonly at: number
}

/** The charge's row after a transition; nobody has it in hand any more. */
export const rowAfter = ({ row, to, version, decision }: ChargeTransition, now: number): ChargeRow => {
  const settled = paramsOf(decision, "settled")
  const contradicted = paramsOf(decision, "contradicted")
  return {
    ...charges.withSnapshot(row, to, decision.snapshot.context),
    version,
    runner: null,
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

/** The call that a charge goes out by. */
const callOf = (charge: ChargeRow): ReadonlyArray<Call> =>
  isOutside(charge.rail) && isQueued(charge)
    ? [{ ...refOf(charge), rail: charge.rail, kind: charge.hosted ? "open_page" : "charge" }]
    : []

/**
 * Commits outcomes that bring about charges to attempt. Those that go at once are in hand before their rows say so, the
 * others queue for their turn; `urgent`: somebody waits for them.
 */
export const commitAttempts = Effect.fnUntraced(function* (
  outcomes: ReadonlyArray<Outcome>,
  attempts: ReadonlyArray<ChargeRow>,
  urgent = true,
) {
  yield* hold(
    chargeLease,
    attempts.filter((charge) => !isQueued(charge)),
  )
  yield* commit(outcomes)
  yield* queueCalls(attempts.flatMap(callOf), urgent)
})

/** Charges that are answered, and what they are for, locked by its owners. */
interface Locked {
  readonly rows: ReadonlyArray<ChargeRow>
  readonly owners: ReadonlyArray<{ readonly owns: ChargeOwner["owns"]; readonly settle: Settle }>
}

/**
 * Locks customers who may get a payment method by the answer, then what charges are for, each by its owner, then the charges. Whoever
 * locks in one go does it in one with the charges' own locks, which come behind.
 */
const lockAnswered = Effect.fnUntraced(function* (answers: ReadonlyArray<Answer>) {
  const of = answers.map(({ charge }) => charge)
  yield* customers.lock(
    answers.flatMap(({ charge, saved }) => (saved == null ? [] : [{ ...refOf(charge), id: charge.customer_id }])),
    "NO KEY UPDATE",
  )
  const owning = (yield* ChargeOwners).flatMap(({ owns, lock, locksAtOnce }) => {
    const its = of.filter(owns)
    return its.length === 0 ? [] : [{ locksAtOnce, locking: Effect.map(lock(its), (settle) => ({ owns, settle })) }]
  })
  const lockings = (atOnce: boolean) =>
    owning.flatMap(({ locksAtOnce, locking }) => (locksAtOnce === atOnce ? [locking] : []))
  const before = yield* Effect.all(lockings(false))
  const [owners, rows] = yield* Effect.all(
    [Effect.all(lockings(true), IN_ONE_GO), charges.lock(of.map(refOf))],
    IN_ONE_GO,
  )
  return { rows, owners: [...before, ...owners] } satisfies Locked
})

/** Whether it was noted before that the rail says it was paid after all: the money is booked once. */
const isKnown = ({ status, contradictions }: ChargeRow, answer: AnswerWithoutTime): boolean =>
  status === "failed" && answer.type === "rail.succeeded" && contradictions.some(({ answer }) => answer === "succeeded")

/** A charge as an answer leaves it, with what the rail saved of a payment on its page. */
const answeredBy = Effect.fnUntraced(function* (
  transition: ChargeTransition,
  { pageUrl, railId, saved, retryAt }: Particulars,
  now: number,
) {
  const { row: before, event } = transition
  const changed = rowAfter(transition, now)
  const isPaidOnPage = before.hosted && before.status === "pending" && changed.status === "succeeded"
  const method = isPaidOnPage && saved != null ? yield* saveMethod(before, saved, now) : null
  const after: ChargeRow = {
    ...changed,
    page_url: pageUrl ?? changed.page_url,
    rail_id: railId ?? changed.rail_id,
    payment_method: method ?? changed.payment_method,
  }
  return {
    before,
    after,
    at: event.at,
    ...(isPaidOnPage ? { methodId: method?.id ?? null } : {}),
    ...(retryAt == null ? {} : { retryNotBefore: retryAt }),
  } satisfies Answered
})

const EXCEPTION = {
  ...REF_COLUMNS,
  charge_id: "text",
  kind: "text",
  heard_reference: "text",
  heard_kobo: "bigint",
  heard_currency: "text",
  at: "timestamptz",
} as const

/** Notes what cannot be right, of each kind once about a charge. */
const noteExceptions = Effect.fnUntraced(function* (
  all: ReadonlyArray<{ readonly charge: ChargeRow; readonly exception: HeardException; readonly at: number }>,
) {
  if (all.length === 0) return
  const sql = yield* SqlClient.SqlClient
  const rows = all.map(({ charge: { account_id, livemode, id }, exception, at }) => ({
    account_id,
    livemode,
    id: newId("rail_exception"),
    charge_id: id,
    ...exception,
    at,
  }))
  yield* sql`
    INSERT INTO rail_exception (${names(sql, EXCEPTION)}) SELECT * FROM ${records(sql, rows, EXCEPTION)} r
    ON CONFLICT (charge_id, kind, account_id, livemode) DO NOTHING`
})

const applyTo = Effect.fnUntraced(function* (locked: Locked, answers: ReadonlyArray<Answer>, nowOf: NowOf) {
  const rows = new Map(locked.rows.map((row) => [row.id, row]))
  const byCharge = new Map(answers.map((answer) => [answer.charge.id, answer]))
  const transitions = advance(
    chargeLifecycle,
    answers.flatMap(({ charge, answer, at }) => {
      const row = rows.get(charge.id)
      return row === undefined || isKnown(row, answer) ? [] : [{ row, event: { ...answer, at } }]
    }),
  )
  const answered = yield* Effect.forEach(transitions, (transition) =>
    answeredBy(transition, byCharge.get(transition.row.id)!, nowOf(transition.row)),
  )
  const settlements = yield* Effect.forEach(locked.owners, ({ owns, settle }) =>
    settle(
      answered.filter(({ before }) => owns(before)),
      nowOf,
    ),
  )
  const outcomes = settlements.flatMap((settlement) => settlement.outcomes)
  const attempts = settlements.flatMap((settlement) => settlement.attempts)
  const settled = new Map(settlements.flatMap((settlement) => [...settlement.charges]))
  for (const [index, transition] of transitions.entries()) {
    const { after } = answered[index]!
    const { row = after, entries = [], events } = settled.get(after.id) ?? {}
    const books = booksOf(transition, byCharge.get(after.id)!.takenKobo)
    outcomes.push(moved(chargeLifecycle, transition, row, { entries: [...entries, ...books], events: events ?? [] }))
  }
  yield* commitAttempts(outcomes, attempts)
  yield* noteExceptions(
    answers.flatMap(({ charge, exception, at }) =>
      exception === undefined || !rows.has(charge.id) ? [] : [{ charge, exception, at }],
    ),
  )
  const following = yield* Effect.forEach(settlements, ({ afterwards }) => afterwards ?? Effect.succeed([]))
  // What was taken to save a card goes back at once (decision P8), all of it: of a part, a second request that seems to be
  // needed would send back another one.
  yield* requestRefunds(
    answered.flatMap(({ before, after }) =>
      after.purpose === "verification" && before.status === "pending" && after.status === "succeeded"
        ? [newRefund(after, byCharge.get(after.id)!.takenKobo ?? after.amount_kobo, nowOf(after))]
        : [],
    ),
  )
  return { outcomes, attempts, following: following.flat() }
})

/**
 * Applies answers in the running transaction: charges settle or wait, and what they are for moves on. Answers to charges
 * that are settled already change nothing but are kept where they contradict. Returns what was written of them, and the charges
 * that are to be attempted next; `following` are of actors that changed again once that was written.
 */
export const applyAnswers = (answers: ReadonlyArray<Answer>, nowOf: NowOf) =>
  Effect.flatMap(lockAnswered(answers), (locked) => applyTo(locked, answers, nowOf))

const limitWaiting = (waitsMs: number) =>
  Effect.flatMap(SqlClient.SqlClient, (sql) => sent(sql`SELECT set_config('lock_timeout', ${String(waitsMs)}, true)`))

/** Applies answers in a transaction of their own, which waits for `waitsMs` at most for each thing that somebody else holds, where that is said. */
export const settle = (answers: ReadonlyArray<Answer>, nowOf: NowOf, waitsMs?: number) => {
  const locking = lockAnswered(answers)
  const reads = waitsMs === undefined ? locking : Effect.andThen(limitWaiting(waitsMs), locking)
  return retryingDeadlocks(readingFirst(reads, (locked) => applyTo(locked, answers, nowOf)))
}
