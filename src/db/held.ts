/** Rows that somebody else holds. */
import { Context } from "effect"
import { problem } from "../problem.ts"

/**
 * What a request comes to that cannot have what it needs. Row-level security shows it its own account's rows only, so nobody else's
 * are what it waits for.
 */
export const HELD = problem(
  "lock_timeout",
  "Another request of this account has been holding what this one needs: try again once that is through.",
)

/** Whether what somebody else holds is waited for: not by many who would all wait for what one of them needs. */
export const MayWait = Context.Reference<boolean>("billing/db/MayWait", { defaultValue: () => true })
