/** Writes that buyers make on pages: in their merchant's name, unless its sandbox is being reset (decision M2). */
import { Effect } from "effect"
import { problem } from "../problem.ts"

const RESETTING = problem("reset_in_progress", "The sandbox is being reset: try again in a moment.")

/** For `TenantDatabase.writing`. */
export const openForWriting =
  <A, E, R>(work: Effect.Effect<A, E, R>) =>
  (open: boolean) =>
    open ? work : Effect.fail(RESETTING)
