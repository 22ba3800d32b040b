/** What rails' answers come to: the next event of each charge, and of what it is for. */
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

/** A rail's answer to a charge, with what else is known by it. */
export interface ChargeResult extends Particulars {
  readonly charge: ChargeRow
  readonly answer: AnswerWithoutTime
  /** When the answer counts from: the attempt's own instant where the rail answered it at once, else now. */
  readonly at: number
}

/** The charge's row after a transition; nobody has it in hand any more. */
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

/** Charges that are answered, and what that means to what they are for, by their owners: locked, or as they are known. */
export interface Facts {
  readonly rows: ReadonlyArray<ChargeRow>
  readonly subjects: ReadonlyArray<{ readonly handles: PaymentSubject["handles"]; readonly settle: Settle }>
}

/** Whether it was noted before that the rail says it was paid after all: the money is booked once. */
const isKnown = ({ status, contradictions }: ChargeRow, answer: AnswerWithoutTime): boolean =>
  status === "failed" && answer.type === "rail.succeeded" && contradictions.some(({ answer }) => answer === "succeeded")

/** A charge as an answer leaves it, with what the rail saved of a payment on its page. */
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

/** The event about what a rail received in place of what was asked for, once for each that differs. The API shows no verification. */
const attentionEvents = ({ before, after }: Answered, now: number): ReadonlyArray<NewEvent> => {
  const isShown = after.purpose !== "verification" && after.attention !== null
  if (!isShown || isDeepStrictEqual(before.attention, after.attention)) return []
  const object = renderCharge(after)
  const { account_id, livemode, test_clock_id } = after
  const previous = previousAttributes(renderCharge(before), object)
  return [{ account_id, livemode, type: "charge.attention_required", object, previous, test_clock_id, at: now }]
}

/** What answers come to. */
interface Decided {
  readonly answered: ReadonlyArray<Answered>
  readonly settlements: ReadonlyArray<Settlement>
  readonly outcomes: ReadonlyArray<Outcome>
  readonly attempts: ReadonlyArray<ChargeRow>
  /** Charges whose call is to be made again. */
  readonly sentAgain: ReadonlyArray<ChargeRow>
}

/** Decides on charges as they stand; what it takes to know beside them is read as it decides. */
export const decide = Effect.fnUntraced(function* (
  standing: Facts,
  answers: ReadonlyArray<ChargeResult>,
  nowOf: NowOf,
) {
  const rows = new Map(standing.rows.map((row) => [row.id, row]))
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
  const settlements = yield* Effect.forEach(standing.subjects, ({ handles, settle }) =>
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
    const told = [...events, ...attentionEvents(answered[index]!, nowOf(after))]
    outcomes.push(transitioned(chargeLifecycle, transition, row, { entries: [...entries, ...books], events: told }))
  }
  const attempts = settlements.flatMap((settlement) => settlement.attempts)
  const sentAgain = transitions.flatMap(({ row, decision }) => (hasEffect(decision, "sendAgain") ? [row] : []))
  return { answered, settlements, outcomes, attempts, sentAgain } satisfies Decided
})
