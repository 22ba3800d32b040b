/** Ends suspense by hand: a person explains the balance that a settlement left there (decision Q9). */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { inNaira } from "../base/money.ts"
import { unitOfWork } from "../db/UnitOfWork.ts"
import { ownFromPaystack } from "../rails/rail/paystack/answers.ts"
import { entriesOf, postEntries } from "./ledger.ts"
import type { ExplanationAccount } from "./postings.ts"
import { aboutReference, lockSettlements, nth, type RailPayment, readTaken } from "./references.ts"

/** A person's explanation of the suspense of a reference. */
export interface ExplanationRequest {
  readonly account: string
  /** In the spelling of the books, or of Paystack. */
  readonly reference: string
  readonly as: ExplanationAccount
  readonly reason: string
}

interface ExplainedLine {
  readonly ledger_account: string
  readonly detail: string | null
  readonly amount_kobo: number
}

/** An entry that explains suspense. */
export interface Explained {
  readonly entry: string
  readonly event: "explained"
  readonly account: string
  readonly livemode: boolean
  readonly reference: string
  readonly as: ExplanationAccount
  readonly reason: string
  readonly occurred_on: string
  readonly effective_on: string
  /** The amount in suspense: above zero (debit) if the rail paid out too little. */
  readonly amount_kobo: number
  readonly amount_naira: string
  readonly lines: ReadonlyArray<ExplainedLine>
}

interface EntryRow {
  readonly id: string
  readonly reason: string
  readonly occurred_on: string
  readonly effective_on: string
  readonly lines: ReadonlyArray<ExplainedLine>
}

/** Reads the newest entry that explains a reference. */
const readExplained = Effect.fnUntraced(function* ({ account_id, livemode, reference }: RailPayment) {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<EntryRow>`
    SELECT e.id, e.reason, e.occurred_on::text AS occurred_on, e.effective_on::text AS effective_on, (
      SELECT jsonb_agg(jsonb_build_object('ledger_account', l.ledger_account, 'detail', l.detail, 'amount_kobo', l.amount_kobo) ORDER BY l.line_no)
      FROM ledger_line l WHERE (l.account_id, l.livemode, l.entry_id) = (e.account_id, e.livemode, e.id)
    ) AS lines
    FROM ledger_entry e
    WHERE (e.charge_id, e.account_id, e.livemode) = (${reference}, ${account_id}, ${livemode}) AND e.event = 'explained'
    ORDER BY e.posted_at DESC, e.id DESC LIMIT 1`
  if (row === undefined) return undefined
  const explanation = row.lines.find(({ ledger_account }) => ledger_account !== "suspense")!
  return {
    entry: row.id,
    event: "explained",
    account: account_id,
    livemode,
    reference,
    as: explanation.ledger_account as ExplanationAccount,
    reason: row.reason,
    occurred_on: row.occurred_on,
    effective_on: row.effective_on,
    amount_kobo: explanation.amount_kobo,
    amount_naira: inNaira(explanation.amount_kobo),
    lines: row.lines,
  } satisfies Explained
})

/** Makes the entry that moves a reference's suspense to the explaining account, on the day of its settlement. */
const entryOf = (taken: RailPayment, { as, reason }: ExplanationRequest) => {
  const settlement = taken.booked.findLast(({ suspenseKobo }) => suspenseKobo !== 0)!
  const about = { ...aboutReference(taken, settlement.day), reason }
  const facts = {
    as,
    amountKobo: taken.suspense_kobo,
    rail: taken.rail,
    payout: settlement.payout ?? taken.rail,
    customerId: taken.customer_id,
  }
  return entriesOf("explained", nth(taken.reference, taken.explained), about, facts)
}

/**
 * Books the suspense of a reference to the explaining account, and returns the entry. Repeating the same explanation books nothing and returns
 * the same entry. `unknown`: the account's books have no such reference. `nothing`: it has no suspense; `before` is the entry that explained it
 * differently, if one exists.
 */
export const explain = Effect.fn("ledger.explain")(function* (explaining: ExplanationRequest) {
  const sql = yield* SqlClient.SqlClient
  return yield* sql.withTransaction(explainHere(explaining))
})

/** Does the same in the running transaction. */
export const explainHere = Effect.fnUntraced(function* (explaining: ExplanationRequest) {
  const reference = ownFromPaystack(explaining.reference)
  yield* lockSettlements
  const taken = (yield* readTaken(new Set([reference]))).get(reference)
  if (taken === undefined || taken.account_id !== explaining.account) return { state: "unknown" } as const
  if (taken.suspense_kobo === 0) {
    const before = yield* readExplained(taken)
    return before?.as === explaining.as && before.reason === explaining.reason
      ? ({ state: "explained", explained: before } as const)
      : ({ state: "nothing", before } as const)
  }
  postEntries(yield* unitOfWork, entryOf(taken, explaining))
  return { state: "explained", explained: (yield* readExplained(taken))! } as const
})
