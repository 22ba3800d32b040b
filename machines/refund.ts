/**
 * A refund is money that a rail is asked to send back (decision P8). It is always the whole amount of a charge, which no rail sends back
 * more than once: so a request without an answer may be repeated.
 */
import { assign, setup } from "xstate"
import type { DelayEvent } from "./decide.ts"
import { DAY_MS, HOUR_MS, MINUTE_MS } from "./time.ts"

export const REFUND_STATUSES = ["pending", "returned", "failed"] as const
export type RefundStatus = (typeof REFUND_STATUSES)[number]

export interface RefundContext {
  /** The first request since the last failure: the times of questions count from it. */
  readonly requestedAt: number
  /** How often it failed. */
  readonly failures: number
  /** How many questions, or repeated requests without an answer, were made since then. */
  readonly asks: number
  /** Whether the rail has accepted the request; until that is known, the request is repeated. */
  readonly accepted: boolean
  /** The rail's own ID of it; null: unknown, so the rail is asked about the charge. */
  readonly refundId: string | null
  /** The reason of the last failure, in the rail's words. */
  readonly message: string | null
}

export type RefundEvent =
  /** The rail is working on it. */
  | { readonly type: "rail.accepted"; readonly at: number; readonly refundId: string | null }
  | { readonly type: "rail.returned"; readonly at: number }
  | { readonly type: "rail.failed"; readonly at: number; readonly message: string | null }
  /** The result of the question or request is unknown. */
  | { readonly type: "rail.unclear"; readonly at: number }
  /** The rail knows no such refund. */
  | { readonly type: "rail.not_found"; readonly at: number }
  /** Ask the rail now: a callback arrived. */
  | { readonly type: "rail.ask"; readonly at: number }
  | DelayEvent<"ask", "refund.pending.waiting">
  | DelayEvent<"again", "refund.failed.waiting">

/** Ask after these times, then hourly. */
const ASK_AFTER_MS: ReadonlyArray<number> = [MINUTE_MS, 10 * MINUTE_MS]
/** A failed refund is requested again every day, for a week. */
export const REFUND_AGAIN_AFTER_MS = DAY_MS
export const MAX_REFUND_FAILURES = 8

export const refundStatusOf = (state: string): RefundStatus => {
  if (state === "returned") return "returned"
  return state.startsWith("failed") ? "failed" : "pending"
}

const nextAskAt = ({ requestedAt, asks }: RefundContext, now: number): number => {
  const usual = requestedAt + (ASK_AFTER_MS[asks] ?? (asks - ASK_AFTER_MS.length + 1) * HOUR_MS)
  return usual > now ? usual : now + HOUR_MS
}

export const refundMachine = setup({
  types: {} as { context: RefundContext; events: RefundEvent; input: { readonly at: number } },
  actions: {
    // Effects: carried out by src/billing/refund.
    request: () => {},
    ask: () => {},
    /** The money is back with the customer. */
    returned: () => {},
    // Context.
    countFailure: assign({
      failures: ({ context }) => context.failures + 1,
      message: ({ event }) => (event.type === "rail.failed" ? event.message : null),
    }),
    countAsk: assign({ asks: ({ context }) => context.asks + 1 }),
    requestAgain: assign(({ event }) => ({ requestedAt: event.at, asks: 0, accepted: false, refundId: null })),
  },
  delays: {
    ask: ({ context, event }) => nextAskAt(context, event.at) - event.at,
    again: REFUND_AGAIN_AFTER_MS,
  },
  guards: {
    isNotAccepted: ({ context }) => !context.accepted,
    isLastTry: ({ context }) => context.failures + 1 >= MAX_REFUND_FAILURES,
  },
}).createMachine({
  id: "refund",
  context: ({ input }) => ({
    requestedAt: input.at,
    failures: 0,
    asks: 0,
    accepted: false,
    refundId: null,
    message: null,
  }),
  initial: "pending",
  states: {
    pending: {
      initial: "requesting",
      on: {
        "rail.returned": "returned",
        "rail.failed": [
          { guard: "isLastTry", target: "failed.given_up", actions: "countFailure" },
          { target: "failed.waiting", actions: "countFailure" },
        ],
        "rail.accepted": {
          target: ".waiting",
          actions: assign({
            accepted: true,
            refundId: ({ context, event }) => event.refundId ?? context.refundId,
          }),
        },
        "rail.unclear": ".waiting",
        "rail.not_found": { target: ".waiting", actions: assign({ accepted: false, refundId: null }) },
      },
      states: {
        requesting: { entry: "request" },
        waiting: {
          after: {
            ask: [
              { guard: "isNotAccepted", target: "requesting", actions: "countAsk" },
              { target: "asking", actions: "countAsk" },
            ],
          },
          on: {
            "rail.ask": { target: "asking", actions: "countAsk" },
          },
        },
        asking: { entry: "ask" },
      },
    },
    returned: { entry: "returned", type: "final" },
    failed: {
      initial: "waiting",
      states: {
        waiting: {
          after: { again: { target: "#refund.pending.requesting", actions: "requestAgain" } },
        },
        given_up: {},
      },
    },
  },
})
