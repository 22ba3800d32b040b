/**
 * What rails say comes back in, in one transaction with all that follows from it: the books, what the rail saved, what cannot be right
 * about the answer.
 */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { newId } from "../../base/ids.ts"
import type { NowOf } from "../../base/time.ts"
import { names, REF_COLUMNS, rowsAsTable } from "../../db/rows.ts"
import { refOf } from "../../db/tenant.ts"
import { retryingDeadlocks } from "../../postgres/deadlock.ts"
import { setLockTimeout } from "../../postgres/lockWait.ts"
import { PIPELINED } from "../../postgres/pipelining.ts"
import type { Outcome } from "../../runtime/outcome.ts"
import { type ChargeRow, charges } from "../charge/charge.ts"
import { customers } from "../customer/customer.ts"
import { newRefund, requestRefunds } from "../refund/refund.ts"
import { commitAttempts } from "./commitAttempts.ts"
import { type ChargeResult, decide, type Facts } from "./decide.ts"
import { type Answered, PaymentSubjects } from "./PaymentSubjects.ts"
import type { RailException } from "./railResult.ts"

/**
 * Locks customers who may get a payment method by the answer, then what charges are for, each by its owner, then the charges. Whoever
 * locks in one go does it in one with the charges' own locks, which come behind.
 */
const lockAnswered = Effect.fnUntraced(function* (answers: ReadonlyArray<ChargeResult>) {
  const of = answers.map(({ charge }) => charge)
  yield* customers.lock(
    answers.flatMap(({ charge, saved }) => (saved == null ? [] : [{ ...refOf(charge), id: charge.customer_id }])),
    "NO KEY UPDATE",
  )
  const subjects = (yield* PaymentSubjects).flatMap(({ handles, lock, locksAtOnce }) => {
    const its = of.filter(handles)
    return its.length === 0 ? [] : [{ locksAtOnce, locking: Effect.map(lock(its), (settle) => ({ handles, settle })) }]
  })
  const lockings = (atOnce: boolean) =>
    subjects.flatMap(({ locksAtOnce, locking }) => (locksAtOnce === atOnce ? [locking] : []))
  const before = yield* Effect.all(lockings(false))
  const [together, rows] = yield* Effect.all(
    [Effect.all(lockings(true), PIPELINED), charges.lock(of.map(refOf))],
    PIPELINED,
  )
  return { rows, subjects: [...before, ...together] } satisfies Facts
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
  all: ReadonlyArray<{ readonly charge: ChargeRow; readonly exception: RailException; readonly at: number }>,
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
    INSERT INTO rail_exception (${names(EXCEPTION)}) SELECT * FROM ${rowsAsTable(rows, EXCEPTION)} r
    ON CONFLICT (charge_id, kind, account_id, livemode) DO NOTHING`
})

/** What was written of answers, and the charges that are to be attempted next. */
interface Settled {
  readonly outcomes: ReadonlyArray<Outcome>
  readonly attempts: ReadonlyArray<ChargeRow>
  readonly following: ReadonlyArray<ChargeRow>
  /** Charges whose call is to be made again. */
  readonly sentAgain: ReadonlyArray<ChargeRow>
}

/** Whether an answer is the first to say that the rail took the money: of what is pending, or of what had failed (decision P10). */
const isTaken = ({ before, after }: Answered): boolean =>
  before.status === "pending"
    ? after.status === "succeeded"
    : before.status === "failed" && after.contradictions.length > before.contradictions.length

/** Writes answers; what follows for actors that none of them is about is returned, to be carried out behind it. */
const writeAnswers = Effect.fnUntraced(function* (locked: Facts, answers: ReadonlyArray<ChargeResult>, nowOf: NowOf) {
  const { answered, settlements, outcomes, attempts, sentAgain } = yield* decide(locked, answers, nowOf)
  const isLocked = new Set(locked.rows.map(({ id }) => id))
  const takenKobo = new Map(answers.map((answer) => [answer.charge.id, answer.takenKobo]))
  yield* commitAttempts(outcomes, attempts)
  yield* noteExceptions(
    answers.flatMap(({ charge, exception, at }) =>
      exception === undefined || !isLocked.has(charge.id) ? [] : [{ charge, exception, at }],
    ),
  )
  // What was taken to save a card goes back at once (decision P8), all of it: of a part, a second request that seems to be
  // needed would send back another one. So it does where that had been given up.
  const returned = requestRefunds(
    answered.flatMap((one) =>
      one.after.purpose === "verification" && isTaken(one)
        ? [newRefund(one.after, takenKobo.get(one.after.id) ?? one.after.amount_kobo, nowOf(one.after))]
        : [],
    ),
  )
  const afterwards = Effect.forEach(settlements, ({ afterwards }) => afterwards ?? Effect.succeed([]))
  const following = Effect.map(Effect.zip(afterwards, returned), ([charges]) => charges.flat())
  return { outcomes, attempts, sentAgain, following }
})

const applyTo = Effect.fnUntraced(function* (locked: Facts, answers: ReadonlyArray<ChargeResult>, nowOf: NowOf) {
  const { following, ...written } = yield* writeAnswers(locked, answers, nowOf)
  return { ...written, following: yield* following } satisfies Settled
})

/**
 * Applies answers in the running transaction: charges settle or wait, and what they are for moves on. Answers to charges
 * that are settled already change nothing but are kept where they contradict. Returns what was written of them, and the charges
 * that are to be attempted next; `following` are of actors that changed again once that was written.
 */
export const applyAnswers = (answers: ReadonlyArray<ChargeResult>, nowOf: NowOf) =>
  Effect.flatMap(lockAnswered(answers), (locked) => applyTo(locked, answers, nowOf))

/**
 * The same of answers that others follow in the same transaction: what follows for actors that none is about is `following`, to be carried
 * out behind all of them.
 */
export const applyInOrder = (answers: ReadonlyArray<ChargeResult>, nowOf: NowOf) =>
  Effect.flatMap(lockAnswered(answers), (locked) => writeAnswers(locked, answers, nowOf))

/** Applies answers in a transaction of its own. `waitsMs`: the longest wait for a lock. */
export const settle = Effect.fnUntraced(function* (
  answers: ReadonlyArray<ChargeResult>,
  nowOf: NowOf,
  waitsMs?: number,
) {
  const sql = yield* SqlClient.SqlClient
  const work = applyAnswers(answers, nowOf)
  const limited = waitsMs === undefined ? work : Effect.andThen(setLockTimeout(waitsMs), work)
  return yield* retryingDeadlocks(sql.withTransaction(limited))
})
