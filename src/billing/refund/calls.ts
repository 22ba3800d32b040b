/**
 * Handles refunds at outside rails (decision P8): prepares each queued call, interprets its result, and handles the refunds' timers.
 * src/rails/rail_call makes the calls.
 */
import { Effect, Result } from "effect"
import { SqlClient } from "effect/sql"
import { hasEffect, type TimedEvent } from "../../../machines/decide.ts"
import type { RefundEvent, refundMachine } from "../../../machines/refund.ts"
import { dayOf } from "../../base/time.ts"
import { currentTime } from "../../base/wallClock.ts"
import { REF_COLUMNS, rowsAsTable } from "../../db/rows.ts"
import { type Ref, refOf } from "../../db/tenant.ts"
import { unitOfWork } from "../../db/UnitOfWork.ts"
import { entriesOf, type NewEntry } from "../../ledger/ledger.ts"
import { RailCredentials, railAccountKey } from "../../rails/credential/RailCredentials.ts"
import type { RailResult } from "../../rails/rail/Rail.ts"
import { Rails } from "../../rails/rail/Rails.ts"
import type { TakenCall } from "../../rails/rail_call/queue.ts"
import type { AnsweredCall, Prepared } from "../../rails/rail_call/worker.ts"
import { commit } from "../../runtime/commit.ts"
import { type Due, timerHandler } from "../../runtime/fire.ts"
import { advance, rowAfter, type Transition } from "../../runtime/lifecycle.ts"
import { transitioned } from "../../runtime/outcome.ts"
import { queueRefundCalls, type RefundRow, refundLifecycle, refunds } from "./refund.ts"

type RefundTransition = Transition<typeof refundMachine, RefundRow>

/** A refund with the rail's own number of the transaction to refund. */
interface Subject extends RefundRow {
  readonly rail_id: string | null
}

const readSubjects = Effect.fnUntraced(function* (calls: ReadonlyArray<TakenCall>) {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<Subject>`
    SELECT f.*, c.rail_id FROM ${rowsAsTable(calls.map(refOf), REF_COLUMNS)} r
    CROSS JOIN LATERAL (SELECT * FROM refund WHERE (account_id, livemode, id) = (r.account_id, r.livemode, r.id) OFFSET 0) f
    CROSS JOIN LATERAL (
      SELECT rail_id FROM charge WHERE (account_id, livemode, id) = (f.account_id, f.livemode, f.charge_id) OFFSET 0
    ) c`
  return new Map(rows.map((row) => [row.id, row]))
})

/** A result from which the refund's outcome stays unknown. */
const unclear = (message: string): RailResult => ({ kind: "unclear", message, reached: true })

const prepare = Effect.fnUntraced(function* (calls: ReadonlyArray<TakenCall>) {
  const subjects = yield* readSubjects(calls)
  const credentials = yield* (yield* RailCredentials).find(calls)
  const rails = yield* Rails
  return calls.map((call): Prepared => {
    const { charge_id: reference, rail_id: railId, amount_kobo: amountKobo, rail_refund_id } = subjects.get(call.id)!
    const found = credentials.get(railAccountKey(call))
    if (call.was_sent_at !== null)
      return { call, talk: Effect.succeed(unclear("The process that made the call died.")) }
    if (found === undefined || Result.isFailure(found))
      return { call, talk: Effect.succeed(unclear("The merchant is not connected to the rail of this payment.")) }
    const rail = rails.of(call.rail)
    const ask: Effect.Effect<RailResult> =
      rail_refund_id === null ? rail.ask(reference, found.success) : rail.askRefund(rail_refund_id, found.success)
    const talk = call.kind === "refund" ? rail.refund({ reference, railId, amountKobo }, found.success) : ask
    return { call, talk }
  })
})

type EventWithoutTime = RefundEvent extends infer E ? (E extends unknown ? Omit<E, "at"> : never) : never

/** Returns the event that a rail's result means; undefined: the call was never made and must still be made. */
const interpret = (
  { charge_id }: RefundRow,
  { call: { kind }, result }: AnsweredCall,
): EventWithoutTime | undefined => {
  switch (result.kind) {
    case "refund":
      if (result.status === "returned") return { type: "rail.returned" }
      return result.status === "failed"
        ? { type: "rail.failed", message: result.message }
        : { type: "rail.accepted", refundId: result.refundId }
    // The answer about the charge's transaction, asked for because the refund has no number yet.
    case "transaction":
      return { type: result.reversed === true && result.reference === charge_id ? "rail.returned" : "rail.unclear" }
    case "unknown_reference":
      return { type: "rail.not_found" }
    case "refused":
      return kind === "refund" ? { type: "rail.failed", message: result.message } : { type: "rail.unclear" }
    case "not_sent":
      return kind === "refund" ? undefined : { type: "rail.unclear" }
    default:
      return { type: "rail.unclear" }
  }
}

const entriesFor = (refund: RefundRow, at: number): ReadonlyArray<NewEntry> => {
  const about = {
    account_id: refund.account_id,
    livemode: refund.livemode,
    customerId: refund.customer_id,
    chargeId: refund.charge_id,
    testClockId: null,
    day: dayOf(at),
  }
  const money = { amountKobo: refund.amount_kobo, rail: refund.rail, customerId: refund.customer_id }
  return entriesOf("refunded", refund.id, about, money)
}

const outcomeOf = (transition: RefundTransition) => {
  const { at }: TimedEvent = transition.event
  const isReturned = hasEffect(transition.decision, "returned")
  const row = rowAfter(refundLifecycle, transition)
  const after: RefundRow = isReturned ? { ...row, returned_at: at } : row
  return transitioned(refundLifecycle, transition, after, { entries: isReturned ? entriesFor(after, at) : [] })
}

/** Commits transitions and queues the rail calls that they ask for, in the running transaction. */
const writeCalls = Effect.fnUntraced(function* (transitions: ReadonlyArray<RefundTransition>) {
  yield* commit(transitions.map(outcomeOf))
  const rowsWith = (effect: "request" | "ask") =>
    transitions.filter(({ decision }) => hasEffect(decision, effect)).map(({ row }) => row)
  queueRefundCalls(yield* unitOfWork, rowsWith("request"), "refund")
  queueRefundCalls(yield* unitOfWork, rowsWith("ask"), "ask_refund")
})

const write = Effect.fnUntraced(function* (all: ReadonlyArray<AnsweredCall>) {
  const rows = new Map((yield* refunds.lock(all.map(({ call }) => refOf(call)))).map((row) => [row.id, row]))
  const again: Array<TakenCall> = []
  const commands = all.flatMap((answered) => {
    const row = rows.get(answered.call.id)
    if (row === undefined) return []
    const event = interpret(row, answered)
    if (event !== undefined) return [{ row, event: { ...event, at: answered.endedAt } }]
    again.push(answered.call)
    return []
  })
  yield* commit(advance(refundLifecycle, commands).map(outcomeOf))
  return { again, later: [], after: Effect.void }
})

/** Queues status checks of refunds, in the running transaction. */
export const askAboutRefunds = Effect.fnUntraced(function* (refs: ReadonlyArray<Ref>) {
  const now = currentTime()
  const rows = yield* refunds.lock(refs)
  yield* writeCalls(
    advance(
      refundLifecycle,
      rows.map((row) => ({ row, event: { type: "rail.ask", at: now } })),
    ),
  )
})

/** Handles the rail calls about refunds. */
export const railRefunds = { kinds: ["refund", "ask_refund"] as const, prepare, write, askAgain: askAboutRefunds }

/** Asks rails about refunds in progress, and requests failed refunds again. */
export const refundTimers = timerHandler(
  refundLifecycle,
  Effect.fnUntraced(function* (due: ReadonlyArray<Due<typeof refundMachine, RefundRow>>) {
    yield* writeCalls(advance(refundLifecycle, due))
    return Effect.void
  }),
)
