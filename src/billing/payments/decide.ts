/** Decides what rails' answers mean: the next event of each charge and of its subject. */
import { isDeepStrictEqual } from "node:util"
import { Effect } from "effect"
import { hasEffect, paramsOf } from "../../../machines/decide.ts"
import { formatInstant, type NowOf } from "../../base/time.ts"
import { type NewEvent, previousAttributes } from "../../outbound/event/events.ts"
import { advance, rowAfter } from "../../runtime/lifecycle.ts"
import { type Outcome, transitioned } from "../../runtime/outcome.ts"
import { type ChargeRow, chargeLifecycle, renderCharge } from "../charge/charge.ts"
import type { Answered, PaymentSubject, Settle, Settlement } from "./PaymentSubjects.ts"
import { booksOf, type ChargeTransition } from "./postings.ts"
import type { AnswerWithoutTime, Particulars } from "./railResult.ts"
import { saveMethod } from "./saveMethod.ts"

/** A rail's answer to a charge, with the details that came with it. */
export interface ChargeResult extends Particulars {
  readonly charge: ChargeRow
  readonly answer: AnswerWithoutTime
  /** The instant from which the answer counts: the attempt's own if the rail answered it immediately, else now. */
  readonly at: number
}

/** Returns the charge's row after a transition; no process has it in flight any more. */
export const chargeAfter = (transition: ChargeTransition, now: number): ChargeRow => {
  const { row, decision } = transition
  const settled = paramsOf(decision, "settled")
  const contradicted = paramsOf(decision, "contradicted")
  return {
    ...rowAfter(chargeLifecycle, transition),
    runner: null,
    status: settled?.status ?? row.status,
    failure_code: settled?.code ?? row.failure_code,
    failure_message: settled?.message ?? row.failure_message,
    paid_at: settled?.status === "succeeded" ? now : row.paid_at,
    attention: settled === undefined ? row.attention : null,
    contradictions:
      contradicted === undefined
        ? row.contradictions
        : [...row.contradictions, { ...contradicted, at: formatInstant(contradicted.at) }],
  }
}

/** The answered charges, locked, and the functions by which their subjects settle them. */
export interface Facts {
  readonly rows: ReadonlyArray<ChargeRow>
  readonly subjects: ReadonlyArray<{ readonly handles: PaymentSubject["handles"]; readonly settle: Settle }>
}

/** Whether the row already notes that the rail reported the charge paid after all: the money is booked once. */
const isNotedAsPaid = ({ status, contradictions }: ChargeRow, answer: AnswerWithoutTime): boolean =>
  status === "failed" && answer.type === "rail.succeeded" && contradictions.some(({ answer }) => answer === "succeeded")

/** Returns a charge as an answer leaves it, and saves the payment method of a payment on the rail's page. */
const answeredBy = Effect.fnUntraced(function* (
  transition: ChargeTransition,
  { pageUrl, railId, saved, retryAt, attention }: Particulars,
  now: number,
) {
  const { row: before, event } = transition
  const changed = chargeAfter(transition, now)
  const isPaidOnPage = before.hosted && before.status === "pending" && changed.status === "succeeded"
  const method = isPaidOnPage && saved != null ? yield* saveMethod(before, saved, now) : null
  const after: ChargeRow = {
    ...changed,
    page_url: pageUrl ?? changed.page_url,
    rail_id: railId ?? changed.rail_id,
    payment_method: method ?? changed.payment_method,
    attention: changed.status === "pending" ? (attention ?? changed.attention) : null,
  }
  return {
    before,
    after,
    at: event.at,
    ...(isPaidOnPage ? { methodId: method?.id ?? null } : {}),
    ...(retryAt == null ? {} : { retryNotBefore: retryAt }),
  } satisfies Answered
})

/** The event about a payment that differs from the requested one, once for each difference. The API shows no verification. */
const attentionEvents = ({ before, after }: Answered, now: number): ReadonlyArray<NewEvent> => {
  const isShown = after.purpose !== "verification" && after.attention !== null
  if (!isShown || isDeepStrictEqual(before.attention, after.attention)) return []
  const object = renderCharge(after)
  const { account_id, livemode, test_clock_id } = after
  const previous = previousAttributes(renderCharge(before), object)
  return [{ account_id, livemode, type: "charge.attention_required", object, previous, test_clock_id, at: now }]
}

/** The decisions on answers. */
interface Decided {
  readonly answered: ReadonlyArray<Answered>
  readonly settlements: ReadonlyArray<Settlement>
  readonly outcomes: ReadonlyArray<Outcome>
  readonly attempts: ReadonlyArray<ChargeRow>
  /** Charges whose call must be made again. */
  readonly sentAgain: ReadonlyArray<ChargeRow>
}

/** Decides on charges in their current state; reads other facts that it needs. */
export const decide = Effect.fnUntraced(function* (facts: Facts, answers: ReadonlyArray<ChargeResult>, nowOf: NowOf) {
  const rows = new Map(facts.rows.map((row) => [row.id, row]))
  const byCharge = new Map(answers.map((answer) => [answer.charge.id, answer]))
  const transitions = advance(
    chargeLifecycle,
    answers.flatMap(({ charge, answer, at }) => {
      const row = rows.get(charge.id)
      return row === undefined || isNotedAsPaid(row, answer) ? [] : [{ row, event: { ...answer, at } }]
    }),
  )
  const answered = yield* Effect.forEach(transitions, (transition) =>
    answeredBy(transition, byCharge.get(transition.row.id)!, nowOf(transition.row)),
  )
  const settlements = yield* Effect.forEach(facts.subjects, ({ handles, settle }) =>
    settle(
      answered.filter(({ before }) => handles(before)),
      nowOf,
    ),
  )
  const outcomes = settlements.flatMap((settlement) => settlement.outcomes)
  const settled = new Map(settlements.flatMap((settlement) => [...settlement.charges]))
  for (const [index, transition] of transitions.entries()) {
    const { after } = answered[index]!
    const { row = after, entries = [], events = [] } = settled.get(after.id) ?? {}
    const books = booksOf(transition, byCharge.get(after.id)!.takenKobo)
    const allEvents = [...events, ...attentionEvents(answered[index]!, nowOf(after))]
    outcomes.push(
      transitioned(chargeLifecycle, transition, row, { entries: [...entries, ...books], events: allEvents }),
    )
  }
  const attempts = settlements.flatMap((settlement) => settlement.attempts)
  const sentAgain = transitions.flatMap(({ row, decision }) => (hasEffect(decision, "sendAgain") ? [row] : []))
  return { answered, settlements, outcomes, attempts, sentAgain } satisfies Decided
})
