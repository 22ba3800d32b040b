/** What the database refuses by itself. */
import { Effect } from "effect"

/** The name of the constraint that refuses what `work` does; "accepted" where nothing does. */
export const constraintOf = <A, E, R>(work: Effect.Effect<A, E, R>): Effect.Effect<string, never, R> =>
  Effect.match(work, {
    onFailure: (error) =>
      (error as { reason?: { cause?: { constraint?: string } } }).reason?.cause?.constraint ?? String(error),
    onSuccess: () => "accepted",
  })
