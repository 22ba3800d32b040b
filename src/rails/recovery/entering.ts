/** Enters the transactions of one customer, all or none, in the order of their creation (decision F9). */
import { Cause, Data, Effect } from "effect"
import { SqlClient } from "effect/sql"
import { sameForAll } from "../../base/time.ts"
import { charges } from "../../billing/charge/charge.ts"
import { customers } from "../../billing/customer/customer.ts"
import { interpret } from "../../billing/payments/railResult.ts"
import { applyInOrder } from "../../billing/payments/settle.ts"
import { refOf } from "../../db/tenant.ts"
import { retryingDeadlocks } from "../../postgres/deadlock.ts"
import type { RailAccount } from "../credential/credential.ts"
import type { RailTransaction } from "../rail/Rail.ts"
import { dropCalls } from "../rail_call/queue.ts"
import { type Open, type Unplaced, unplaced } from "./candidates.ts"
import type { FoundTransaction, Reason } from "./found.ts"
import { type EnteredCharge, place } from "./placing.ts"

/** Returns the results of a charge in order: if it was sent back, first the payment and then the reversal. */
const resultsOf = ({ transaction }: FoundTransaction): ReadonlyArray<RailTransaction> => {
  if (transaction.reversed !== true) return [transaction]
  const { reversed: _, ...paid } = { ...transaction, status: "succeeded" as const, code: null }
  return [paid, transaction]
}

/** Settles an entered charge. Returns the effects on other objects, to run later. */
const settleFound = Effect.fnUntraced(function* ({ charge, settledAt: at }: EnteredCharge, found: FoundTransaction) {
  const nowOf = sameForAll(at)
  if (charge.hosted && charge.page === null)
    yield* applyInOrder([{ charge, answer: { type: "rail.page" }, at: charge.created_at }], nowOf)
  const results = charge.purpose === "verification" ? resultsOf(found).slice(0, 1) : resultsOf(found)
  const following = []
  for (const result of results) {
    const meaning = interpret(charge, "ask", result, at)
    if (meaning !== undefined) following.push((yield* applyInOrder([{ ...meaning, charge, at }], nowOf)).following)
  }
  return following
})

export interface Entered {
  readonly recovered: number
  readonly unplaced: ReadonlyArray<Unplaced>
}

/** A listed transaction, with the rail's answer about it. */
export interface Candidate {
  readonly open: Open
  readonly found: FoundTransaction
}

const none = (of: RailAccount, all: ReadonlyArray<Candidate>, reason: Reason): Entered => ({
  recovered: 0,
  unplaced: all.flatMap(({ open, found }) =>
    open.isKnown ? [] : [unplaced(of, open.listed, reason, found.transaction)],
  ),
})

/** Ends a dry run by rolling the transaction back. */
class Undone extends Data.TaggedError("Undone")<{ readonly result: Entered }> {}

const enterAll = Effect.fnUntraced(function* (of: RailAccount, customer: string, all: ReadonlyArray<Candidate>) {
  const tenant = { account_id: of.account_id, livemode: true }
  const refused: Array<Unplaced> = []
  const [row] = yield* customers.lock([{ ...tenant, id: customer }], "NO KEY UPDATE")
  if (row === undefined) {
    const reason = `customer ${customer} is not in the database: it was made after the backup`
    return none(of, all, reason)
  }
  const existing = yield* charges.find(
    tenant,
    all.map(({ found }) => found.id),
  )
  const following = []
  let recovered = 0
  for (const { open, found } of all) {
    const charge = existing.get(found.id)
    if (charge !== undefined) {
      // If a call about it is in flight, the answer of that call counts. Later attempts follow once it is settled.
      const isSettledElsewhere = charge.status !== "pending" || (yield* dropCalls([refOf(charge)])).length > 0
      if (!isSettledElsewhere) following.push(...(yield* settleFound({ charge, settledAt: found.settledAt }, found)))
      continue
    }
    const placed = yield* place(found)
    if (typeof placed === "string") refused.push(unplaced(of, open.listed, placed, found.transaction))
    else {
      following.push(...(yield* settleFound(placed, found)))
      recovered++
    }
  }
  yield* Effect.all(following, { discard: true })
  return { recovered, unplaced: refused } satisfies Entered
})

/** Enters the transactions of one customer in one transaction. */
export const enter = Effect.fnUntraced(function* (
  of: RailAccount,
  customer: string,
  all: ReadonlyArray<Candidate>,
  dryRun: boolean,
) {
  const sql = yield* SqlClient.SqlClient
  const entering = enterAll(of, customer, all)
  const work = dryRun ? Effect.flatMap(entering, (result) => Effect.fail(new Undone({ result }))) : entering
  return yield* retryingDeadlocks(sql.withTransaction(work)).pipe(
    Effect.catchTag("Undone", ({ result }) => Effect.succeed(result)),
    Effect.catchCause((cause) => {
      if (Cause.hasInterruptsOnly(cause)) return Effect.failCause(cause)
      const reason = "it cannot be entered: the log says why"
      return Effect.as(
        Effect.logError("transactions of a rail cannot be entered", { customer }, cause),
        none(of, all, reason),
      )
    }),
  )
})
