/** A sandbox that is being reset takes nothing (decision M2). */
import { Effect } from "effect"
import { problem } from "../problem.ts"

const RESETTING = problem("reset_in_progress", "The sandbox is being reset: try again in a moment.")

/** For `TenantDatabase.writing`, which says whether the tenant may write just now. */
export const unlessResetting =
  <A, E, R>(work: Effect.Effect<A, E, R>) =>
  (open: boolean) =>
    open ? work : Effect.fail(RESETTING)
