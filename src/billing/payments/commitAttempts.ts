/** Charges that are about to be sent: committed first, then in the hand of this process, or in the queue of their rail. */
import { Effect } from "effect"
import { refOf } from "../../db/tenant.ts"
import { unitOfWork } from "../../db/UnitOfWork.ts"
import { onRollback } from "../../postgres/transaction.ts"
import { hold, release } from "../../process/lease.ts"
import { ProcessLease } from "../../process/ProcessLease.ts"
import { isOutside } from "../../rails/rail/Rail.ts"
import { type Call, queueCalls } from "../../rails/rail_call/queue.ts"
import { commit } from "../../runtime/commit.ts"
import type { Outcome } from "../../runtime/outcome.ts"
import { type ChargeRow, chargeLease, isQueued } from "../charge/charge.ts"

/** The call that a charge goes out by. */
export const callOf = (charge: ChargeRow): ReadonlyArray<Call> =>
  isOutside(charge.rail) && isQueued(charge)
    ? [{ ...refOf(charge), rail: charge.rail, kind: charge.hosted ? "open_page" : "charge" }]
    : []

/**
 * Commits outcomes that create charges to attempt. Charges that go at once are in flight before their rows say so, the others queue for
 * their turn. `urgent`: a request waits for them.
 */
export const commitAttempts = Effect.fnUntraced(function* (
  outcomes: ReadonlyArray<Outcome>,
  attempts: ReadonlyArray<ChargeRow>,
  { urgent = true }: { readonly urgent?: boolean } = {},
) {
  const going = attempts.filter((charge) => !isQueued(charge))
  yield* hold(chargeLease, going)
  // Where it is unknown whether they were committed, the recovery looks: it takes what is not in flight.
  yield* onRollback(Effect.provideService(release(chargeLease, going), ProcessLease, yield* ProcessLease))
  yield* commit(outcomes)
  queueCalls(yield* unitOfWork, attempts.flatMap(callOf), urgent)
})
