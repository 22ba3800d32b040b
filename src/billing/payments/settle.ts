/** Applies rails' answers, in one transaction with all that follows from them: ledger entries, saved payment methods, exceptions. */
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
 * Locks customers who may get a payment method, then the subjects of the charges, then the charges. Subjects whose locks can be pipelined
 * are locked in one pipeline with the charges, before them.
 */
const lockAnswered = Effect.fnUntraced(function* (answers: ReadonlyArray<ChargeResult>) {
  const of = answers.map(({ charge }) => charge)
  yield* customers.lock(
    answers.flatMap(({ charge, saved }) => (saved == null ? [] : [{ ...refOf(charge), id: charge.customer_id }])),
    "NO KEY UPDATE",
  )
  const subjects = (yield* PaymentSubjects).flatMap(({ handles, lock, locksAtOnce }) => {
    const subjectCharges = of.filter(handles)
    return subjectCharges.length === 0
      ? []
      : [{ locksAtOnce, locking: Effect.map(lock(subjectCharges), (settle) => ({ handles, settle })) }]
  })
  const lockings = (pipelined: boolean) =>
    subjects.flatMap(({ locksAtOnce, locking }) => (locksAtOnce === pipelined ? [locking] : []))
  const firstSubjects = yield* Effect.all(lockings(false))
  const [pipelinedSubjects, rows] = yield* Effect.all(
    [Effect.all(lockings(true), PIPELINED), charges.lock(of.map(refOf))],
    PIPELINED,
  )
  return { rows, subjects: [...firstSubjects, ...pipelinedSubjects] } satisfies Facts
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

/** Records statements of rails that cannot be right, once for each charge and kind. */
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

/** The written outcomes of answers, and the charges to attempt next. */
interface Settled {
  readonly outcomes: ReadonlyArray<Outcome>
  readonly attempts: ReadonlyArray<ChargeRow>
  readonly following: ReadonlyArray<ChargeRow>
  /** Charges whose call must be made again. */
  readonly sentAgain: ReadonlyArray<ChargeRow>
}

/** Whether an answer is the first to report that the rail took the money, for a pending or a failed charge (decision P10). */
const isTaken = ({ before, after }: Answered): boolean =>
  before.status === "pending"
    ? after.status === "succeeded"
    : before.status === "failed" && after.contradictions.length > before.contradictions.length

/** Writes answers. Returns the effects on actors that no answer is about as `following`, to be run afterwards. */
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
  // A verification is refunded immediately and in full (decision P8): if only a part were refunded, a repeated request could refund a
  // second part. This includes a verification that was given up.
  const requestingRefunds = requestRefunds(
    answered.flatMap((one) =>
      one.after.purpose === "verification" && isTaken(one)
        ? [newRefund(one.after, takenKobo.get(one.after.id) ?? one.after.amount_kobo, nowOf(one.after))]
        : [],
    ),
  )
  const afterwards = Effect.forEach(settlements, ({ afterwards }) => afterwards ?? Effect.succeed([]))
  const following = Effect.map(Effect.zip(afterwards, requestingRefunds), ([charges]) => charges.flat())
  return { outcomes, attempts, sentAgain, following }
})

const applyTo = Effect.fnUntraced(function* (locked: Facts, answers: ReadonlyArray<ChargeResult>, nowOf: NowOf) {
  const { following, ...written } = yield* writeAnswers(locked, answers, nowOf)
  return { ...written, following: yield* following } satisfies Settled
})

/**
 * Applies answers in the running transaction: charges settle or wait, and their subjects move on. An answer to a settled charge changes
 * nothing; if it contradicts, it is recorded. Returns what was written and the charges to attempt next; those in `following` are of actors
 * that changed again afterwards.
 */
export const applyAnswers = (answers: ReadonlyArray<ChargeResult>, nowOf: NowOf) =>
  Effect.flatMap(lockAnswered(answers), (locked) => applyTo(locked, answers, nowOf))

/**
 * Like {@link applyAnswers}, for answers that others follow in the same transaction. Returns `following` as an effect, to be run after all
 * of them.
 */
export const applyInOrder = (answers: ReadonlyArray<ChargeResult>, nowOf: NowOf) =>
  Effect.flatMap(lockAnswered(answers), (locked) => writeAnswers(locked, answers, nowOf))

/** Applies answers in a new transaction. `waitsMs`: the longest wait for a lock. */
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
