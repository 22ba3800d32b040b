/**
 * Attempts is the simulator's store of its attempts; src/sandbox/attempts.ts implements it in Postgres. It survives restarts. A crash
 * of Postgres may lose the last attempts and all later commits.
 */
import { Context, type Effect } from "effect"
import type { FailureCode, RailCharge } from "../PaymentRail.ts"

export interface Attempt {
  readonly outcome: "succeeded" | "failed" | "not_found"
  readonly code: FailureCode | null
  /** When the simulated bank decides, in the customer's clock (ms since the epoch); null: immediately. */
  readonly knownAt: number | null
}

export class Attempts extends Context.Service<
  Attempts,
  {
    /** Counts each customer's earlier charges with the method, in the order of `charges`. Only for counted methods. */
    readonly uses: (charges: ReadonlyArray<RailCharge>) => Effect.Effect<ReadonlyArray<number>>
    /** Runs `work` while no other process counts or notes attempts of these customers with these methods. */
    readonly alone: <A>(charges: ReadonlyArray<RailCharge>, work: Effect.Effect<A>) => Effect.Effect<A>
    /** Stores attempts by reference. A repeated attempt increases its count and keeps its first outcome. */
    readonly note: (
      attempts: ReadonlyArray<{ readonly charge: RailCharge; readonly attempt: Attempt }>,
    ) => Effect.Effect<void>
    /** Returns the attempts of these references; undefined for an unknown one. */
    readonly find: (charges: ReadonlyArray<RailCharge>) => Effect.Effect<ReadonlyArray<Attempt | undefined>>
  }
>()("billing/rails/rail/simulator/Attempts") {}
