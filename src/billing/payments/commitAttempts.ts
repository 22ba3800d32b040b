/** Commits charges that are about to be sent: then they are in flight in this process, or in the queue of their rail. */
import { Effect } from "effect"
import { refOf } from "../../db/tenant.ts"
import { unitOfWork } from "../../db/UnitOfWork.ts"
import { onRollback } from "../../postgres/transaction.ts"
import { markInFlight, release } from "../../process/lease.ts"
import { ProcessLease } from "../../process/ProcessLease.ts"
import { isOutside } from "../../rails/rail/Rail.ts"
import { type Call, queueCalls } from "../../rails/rail_call/queue.ts"
import { commit } from "../../runtime/commit.ts"
import type { Outcome } from "../../runtime/outcome.ts"
import { type ChargeRow, chargeLease, isQueued } from "../charge/charge.ts"

/** The rail call that sends a charge; empty if the charge is not queued. */
export const callOf = (charge: ChargeRow): ReadonlyArray<Call> =>
  isOutside(charge.rail) && isQueued(charge)
    ? [{ ...refOf(charge), rail: charge.rail, kind: charge.hosted ? "open_page" : "charge" }]
    : []

/**
 * Commits outcomes that create charges to attempt. Charges that are not queued are in flight before their rows exist; the others join their
 * rail's queue. `urgent`: a request waits for them.
 */
export const commitAttempts = Effect.fnUntraced(function* (
  outcomes: ReadonlyArray<Outcome>,
  attempts: ReadonlyArray<ChargeRow>,
  { urgent = true }: { readonly urgent?: boolean } = {},
) {
  const direct = attempts.filter((charge) => !isQueued(charge))
  yield* markInFlight(chargeLease, direct)
  // If the result of the commit is unknown, the recovery takes the charges, since they are not in flight any more.
  yield* onRollback(Effect.provideService(release(chargeLease, direct), ProcessLease, yield* ProcessLease))
  yield* commit(outcomes)
  queueCalls(yield* unitOfWork, attempts.flatMap(callOf), urgent)
})
