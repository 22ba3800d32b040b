/** A merchant's access to the live environment (decision J4): requested, approved, or suspended. */
import { setup } from "xstate"

export const LIVE_ACCESS = ["not_requested", "pending_review", "approved", "rejected", "suspended"] as const
export type LiveAccess = (typeof LIVE_ACCESS)[number]

export const LIVE_ACCESS_MOVES = ["request", "approve", "reject", "suspend", "reinstate"] as const
export type LiveAccessMove = (typeof LIVE_ACCESS_MOVES)[number]

export type LiveAccessEvent = { readonly type: LiveAccessMove; readonly at: number }

export const liveAccessMachine = setup({
  types: {} as { events: LiveAccessEvent; input: { readonly at: number } },
}).createMachine({
  id: "live_access",
  initial: "not_requested",
  states: {
    not_requested: { on: { request: "pending_review" } },
    pending_review: { on: { approve: "approved", reject: "rejected" } },
    approved: { on: { suspend: "suspended" } },
    rejected: { on: { request: "pending_review" } },
    suspended: { on: { reinstate: "approved" } },
  },
})
