/** A test clock (decision M1): stopped, moving to a target timer by timer, failed, or being deleted. */
import { assign, setup } from "xstate"

/** The statuses of a clock in the API. */
export const CLOCK_STATUSES = ["ready", "advancing", "internal_failure"] as const
export type ClockStatus = (typeof CLOCK_STATUSES)[number]

/** The API no longer shows a clock that is being deleted. */
export const CLOCK_STATES = [...CLOCK_STATUSES, "deleting"] as const
export type ClockState = (typeof CLOCK_STATES)[number]

export interface ClockContext {
  /** The target of an advance; null while stopped. */
  readonly targetAt: number | null
  readonly failedSteps: number
}

export type ClockEvent =
  | { readonly type: "advance"; readonly at: number; readonly targetAt: number }
  | { readonly type: "arrived"; readonly at: number }
  | { readonly type: "step.failed"; readonly at: number }
  /** A failed step succeeded on a retry. */
  | { readonly type: "step.recovered"; readonly at: number }
  /** By request, at the end of its lifetime, or by a reset of the sandbox; only the reset deletes a moving clock. */
  | { readonly type: "delete"; readonly at: number }

/** A step that fails this often leaves the clock in `internal_failure`. */
const MAX_FAILED_STEPS = 3

export const clockMachine = setup({
  types: {} as { context: ClockContext; events: ClockEvent; input: { readonly at: number } },
  actions: { emit: (_, _params: { readonly type: "test_clock.ready" }) => {} },
  guards: { lastChance: ({ context }) => context.failedSteps + 1 >= MAX_FAILED_STEPS },
}).createMachine({
  id: "clock",
  context: { targetAt: null, failedSteps: 0 },
  initial: "ready",
  states: {
    ready: {
      on: {
        advance: {
          target: "advancing",
          actions: assign({ targetAt: ({ event }) => event.targetAt, failedSteps: 0 }),
        },
        delete: { target: "deleting" },
      },
    },
    advancing: {
      on: {
        arrived: {
          target: "ready",
          actions: [assign({ targetAt: null, failedSteps: 0 }), { type: "emit", params: { type: "test_clock.ready" } }],
        },
        "step.recovered": { actions: assign({ failedSteps: 0 }) },
        "step.failed": [
          { guard: "lastChance", target: "internal_failure", actions: assign({ failedSteps: MAX_FAILED_STEPS }) },
          { actions: assign({ failedSteps: ({ context }) => context.failedSteps + 1 }) },
        ],
        delete: { target: "deleting" },
      },
    },
    internal_failure: { on: { delete: { target: "deleting" } } },
    deleting: {},
  },
})
