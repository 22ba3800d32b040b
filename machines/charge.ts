/**
 * One attempt at a rail (decisions F1, F2): pending until the rail's word is known, then succeeded or failed, once.
 * A rail that does not answer is asked about the reference again and again; it is never sent a second attempt.
 */
import { assign, setup } from "xstate"
import type { DelayEvent } from "./decide.ts"

export const CHARGE_STATUSES = ["pending", "succeeded", "failed"] as const
export type ChargeStatus = (typeof CHARGE_STATUSES)[number]

export interface ChargeContext {
  /** When the attempt went out: questions are timed from it. */
  readonly sentAt: number
  readonly asks: number
  /** How often the rail said that it knows no such reference. */
  readonly notFound: number
  /** When the rail said it would know; null: the usual question times. */
  readonly knownAt: number | null
}

export type ChargeAnswer =
  | { readonly type: "rail.succeeded"; readonly at: number }
  | { readonly type: "rail.failed"; readonly at: number; readonly code: string; readonly message: string | null }
  /** Still working on it, or silent. */
  | { readonly type: "rail.unsettled"; readonly at: number; readonly knownAt: number | null }
  | { readonly type: "rail.not_found"; readonly at: number }

const SECOND_MS = 1000
const MINUTE_MS = 60 * SECOND_MS
const HOUR_MS = 60 * MINUTE_MS

/** Ask after these times, then hourly: most answers come at once, a bank's within the hour. */
const ASK_AFTER_MS = [10 * SECOND_MS, MINUTE_MS, 5 * MINUTE_MS] as const
/** A reference that the rail does not know this often, this long after the send, was never charged. */
export const MAX_NOT_FOUND_ASKS = 3
export const NOT_FOUND_AFTER_MS = 10 * MINUTE_MS

/** When to ask next, counted from the send. */
export const nextAskAt = (context: ChargeContext): number => {
  const usual = ASK_AFTER_MS[context.asks] ?? (context.asks - ASK_AFTER_MS.length + 1) * HOUR_MS
  return context.knownAt ?? context.sentAt + usual
}

export const chargeMachine = setup({
  types: {} as {
    context: ChargeContext
    events: ChargeAnswer | DelayEvent<"ask", "charge.pending.waiting">
    input: { readonly at: number }
  },
  actions: {
    /** Ask the rail about the reference. */
    ask: () => {},
    /** The rail has decided: its owner goes on. */
    settled: (
      _,
      _params: {
        readonly status: "succeeded" | "failed"
        readonly code: string | null
        readonly message: string | null
      },
    ) => {},
    /** The rail contradicts what it said before: keep its word, change nothing (decision F2). */
    contradicted: (
      _,
      _params: { readonly answer: "succeeded" | "failed"; readonly code: string | null; readonly at: number },
    ) => {},
  },
  delays: { ask: ({ context, event }) => nextAskAt(context) - event.at },
  guards: {
    neverCharged: ({ context, event }) =>
      context.notFound + 1 >= MAX_NOT_FOUND_ASKS && event.at - context.sentAt >= NOT_FOUND_AFTER_MS,
  },
}).createMachine({
  id: "charge",
  context: ({ input }) => ({ sentAt: input.at, asks: 0, notFound: 0, knownAt: null }),
  initial: "pending",
  states: {
    pending: {
      initial: "sending",
      on: {
        "rail.succeeded": {
          target: "succeeded",
          actions: { type: "settled", params: { status: "succeeded", code: null, message: null } },
        },
        "rail.failed": {
          target: "failed",
          actions: {
            type: "settled",
            params: ({ event }) => ({ status: "failed", code: event.code, message: event.message }),
          },
        },
        "rail.unsettled": { target: ".waiting", actions: assign({ knownAt: ({ event }) => event.knownAt }) },
        "rail.not_found": [
          {
            guard: "neverCharged",
            target: "failed",
            actions: {
              type: "settled",
              params: { status: "failed", code: "processor_error", message: "The rail knows no such reference." },
            },
          },
          { target: ".waiting", actions: assign({ notFound: ({ context }) => context.notFound + 1, knownAt: null }) },
        ],
      },
      states: {
        sending: {},
        waiting: {
          after: { ask: { target: "asking", actions: assign({ asks: ({ context }) => context.asks + 1 }) } },
        },
        asking: { entry: "ask" },
      },
    },
    succeeded: {
      on: {
        "rail.failed": {
          target: "contradicted",
          actions: {
            type: "contradicted",
            params: ({ event }) => ({ answer: "failed" as const, code: event.code, at: event.at }),
          },
        },
      },
    },
    failed: {
      on: {
        "rail.succeeded": {
          target: "contradicted",
          actions: {
            type: "contradicted",
            params: ({ event }) => ({ answer: "succeeded" as const, code: null, at: event.at }),
          },
        },
      },
    },
    /** Settled as it first was; somebody has to look at it (the reconciliation exceptions of the books). */
    contradicted: {},
  },
})
