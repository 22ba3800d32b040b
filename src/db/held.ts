/** Rows that somebody else holds. */
import { Context } from "effect"
import { problem } from "../problem.ts"
import { sqlStateOf } from "./sqlState.ts"

/**
 * What a request comes to that cannot have what it needs. Row-level security shows it its own account's rows only, so nobody else's
 * are what it waits for.
 */
export const HELD = problem(
  "lock_timeout",
  "Another request of this account has been holding what this one needs: try again once that is through.",
)

/** Whether a transaction gave up because of a row that somebody else held for longer than it waits. */
export const isLockTimeout = (error: unknown): boolean => sqlStateOf(error) === "55P03"

/** Whether what somebody else holds is waited for: not by many who would all wait for what one of them needs. */
export const MayWait = Context.Reference<boolean>("billing/db/MayWait", { defaultValue: () => true })
