/** Reads refusals by database constraints. */
import { Effect } from "effect"

/** The name of the constraint that refuses the write of `work`. "accepted" if none does. */
export const constraintOf = <A, E, R>(work: Effect.Effect<A, E, R>): Effect.Effect<string, never, R> =>
  Effect.match(work, {
    onFailure: (error) =>
      (error as { reason?: { cause?: { constraint?: string } } }).reason?.cause?.constraint ?? String(error),
    onSuccess: () => "accepted",
  })
