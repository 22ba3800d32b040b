/** Charges that are about to be sent: committed first, then in the hand of this process, or in the queue of their rail. */
import { Effect } from "effect"
import { type ChargeRow, chargeLease, isQueued } from "../charge/charge.ts"
import type { Check } from "../db/known.ts"
import { refOf } from "../db/tenant.ts"
import { ifItFails } from "../db/transactions.ts"
import { hold, release } from "../process/lease.ts"
import { Runner } from "../process/Runner.ts"
import { isOutside } from "../rail/Rail.ts"
import { type Call, queueCalls } from "../rail_call/queue.ts"
import { commit } from "../runtime/commit.ts"
import type { ActorRow } from "../runtime/lifecycle.ts"
import type { Outcome } from "../runtime/outcome.ts"

/** The call that a charge goes out by. */
export const callOf = (charge: ChargeRow): ReadonlyArray<Call> =>
  isOutside(charge.rail) && isQueued(charge)
    ? [{ ...refOf(charge), rail: charge.rail, kind: charge.hosted ? "open_page" : "charge" }]
    : []

/**
 * Charges that this process has committed to send them, each with the actor that brought it about, as it was committed with it; null: none
 * did. Forgotten with the charges.
 */
const parents = new WeakMap<ChargeRow, ActorRow | null>()

const noteParents = (outcomes: ReadonlyArray<Outcome>, attempts: ReadonlyArray<ChargeRow>): void => {
  const byChild = new Map<ActorRow, ActorRow>(
    outcomes.flatMap(({ row, born }) => born.map((child) => [child.row, row])),
  )
  for (const attempt of attempts) parents.set(attempt, byChild.get(attempt) ?? null)
}

/**
 * Commits outcomes that bring about charges to attempt. Those that go at once are in hand before their rows say so, the
 * others queue for their turn; `urgent`: somebody waits for them. `checks`: what the outcomes go by that was remembered.
 */
export const commitAttempts = Effect.fnUntraced(function* (
  outcomes: ReadonlyArray<Outcome>,
  attempts: ReadonlyArray<ChargeRow>,
  { urgent = true, checks = [] }: { readonly urgent?: boolean; readonly checks?: ReadonlyArray<Check> } = {},
) {
  const going = attempts.filter((charge) => !isQueued(charge))
  yield* hold(chargeLease, going)
  // Where nobody knows whether they were committed, the recovery looks: it takes what nobody has in hand.
  yield* ifItFails(Effect.provideService(release(chargeLease, going), Runner, yield* Runner))
  yield* commit(outcomes, checks)
  noteParents(outcomes, attempts)
  yield* queueCalls(attempts.flatMap(callOf), urgent)
})

/** The actor that brought about a charge which this process has committed; null: none did; undefined: it has not. */
export const parentOf = (charge: ChargeRow): ActorRow | null | undefined => parents.get(charge)
