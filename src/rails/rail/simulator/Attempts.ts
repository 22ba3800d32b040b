/** What the simulator remembers of its attempts; it survives restarts, though a crash of Postgres may take the last moments of it, with all that came after. Kept in Postgres by src/sandbox/attempts.ts. */
import { Context, type Effect } from "effect"
import type { FailureCode, RailCharge } from "../PaymentRail.ts"

export interface Attempt {
  readonly outcome: "succeeded" | "failed" | "not_found"
  readonly code: FailureCode | null
  /** When the simulated bank decides, in the customer's clock; null: at once. */
  readonly knownAt: number | null
}

export class Attempts extends Context.Service<
  Attempts,
  {
    /** How many charges each customer has made with the method before, in the order of `charges`; of methods that are counted. */
    readonly uses: (charges: ReadonlyArray<RailCharge>) => Effect.Effect<ReadonlyArray<number>>
    /** Runs `work` while nobody else's attempts with these methods of these customers are counted or noted. */
    readonly alone: <A>(charges: ReadonlyArray<RailCharge>, work: Effect.Effect<A>) => Effect.Effect<A>
    /** Notes attempts by reference; one that was noted before counts up and keeps its first outcome. */
    readonly note: (
      attempts: ReadonlyArray<{ readonly charge: RailCharge; readonly attempt: Attempt }>,
    ) => Effect.Effect<void>
    /** The attempts of these references, undefined where there was none. */
    readonly find: (charges: ReadonlyArray<RailCharge>) => Effect.Effect<ReadonlyArray<Attempt | undefined>>
  }
>()("billing/rail/simulator/Attempts") {}
