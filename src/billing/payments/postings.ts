/** Computes the ledger entries of rails' answers beside those of payment subjects: money to refund (decisions P8, P10). Pure. */
import type { chargeMachine } from "../../../machines/charge.ts"
import { paramsOf } from "../../../machines/decide.ts"
import { dayOf } from "../../base/time.ts"
import { type About, entriesOf, type NewEntry } from "../../ledger/ledger.ts"
import type { Transition } from "../../runtime/lifecycle.ts"
import type { ChargeRow } from "../charge/charge.ts"

export type ChargeTransition = Transition<typeof chargeMachine, ChargeRow>

/** The references of a ledger entry about a charge. */
export const aboutCharge = (charge: ChargeRow, day: number): About => ({
  account_id: charge.account_id,
  livemode: charge.livemode,
  customerId: charge.customer_id,
  subscriptionId: charge.subscription_id,
  chargeId: charge.id,
  billNo: charge.bill_no,
  testClockId: charge.test_clock_id,
  day,
})

const owedBack = (
  event: "contradicted" | "excess" | "verification",
  charge: ChargeRow,
  amountKobo: number,
  at: number,
): ReadonlyArray<NewEntry> =>
  entriesOf(event, charge.id, aboutCharge(charge, dayOf(at)), {
    amountKobo,
    rail: charge.rail,
    customerId: charge.customer_id,
  })

/** Whether a transition reports that a failed charge was paid after all. */
const isPaidAfterAll = ({ decision }: ChargeTransition): boolean =>
  paramsOf(decision, "contradicted")?.answer === "succeeded"

/** The ledger entries of a charge's transition. `takenKobo`: the amount that the rail took; undefined: the requested amount. */
export const booksOf = (transition: ChargeTransition, takenKobo: number | undefined): ReadonlyArray<NewEntry> => {
  const { row, event, decision } = transition
  const taken = takenKobo ?? row.amount_kobo
  if (isPaidAfterAll(transition)) return owedBack("contradicted", row, taken, event.at)
  if (paramsOf(decision, "settled")?.status !== "succeeded") return []
  const excess = taken - row.amount_kobo
  return [
    ...(row.purpose === "verification" ? owedBack("verification", row, row.amount_kobo, event.at) : []),
    ...(excess > 0 ? owedBack("excess", row, excess, event.at) : []),
  ]
}
