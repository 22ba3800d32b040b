/**
 * The delivery of one event to one webhook endpoint (decision I2): tried until it is answered with success or the schedule
 * is used up. There are too many deliveries to journal: what the last try brought is on the row. What waits for an endpoint that is
 * disabled or deleted is given up all at once, without a transition of each (src/outbound/webhook/housekeeping.ts).
 */
import { assign, setup } from "xstate"
import type { DelayEvent } from "./decide.ts"
import { HOUR_MS, MINUTE_MS, SECOND_MS } from "./time.ts"

export const DELIVERY_STATUSES = ["pending", "succeeded", "failed"] as const

/** From each try that failed to the next, before jitter. */
export const RETRY_AFTER_MS = [
  5 * SECOND_MS,
  5 * MINUTE_MS,
  30 * MINUTE_MS,
  2 * HOUR_MS,
  5 * HOUR_MS,
  10 * HOUR_MS,
  10 * HOUR_MS,
] as const
/** Retries are spread by this part of their delay, either way. */
export const JITTER = 0.1
/** What an endpoint asks for by Retry-After is granted up to the longest delay of the schedule. */
const MAX_WAIT_MS = Math.max(...RETRY_AFTER_MS)

export interface DeliveryContext {
  /** Tries made. */
  readonly attempt: number
  /** Sent once, whatever comes of it (decision I8). */
  readonly once: boolean
}

export type DeliveryEvent =
  | { readonly type: "try.succeeded"; readonly at: number }
  | {
      readonly type: "try.failed"
      readonly at: number
      /** From -1 to 1: where in the spread of jitter the retry falls. */
      readonly jitter: number
      /** What the endpoint asked for, from now. */
      readonly retryAfterMs: number | null
    }
  | DelayEvent<"nextTry", "delivery.waiting">

export const deliveryMachine = setup({
  types: {} as {
    context: DeliveryContext
    events: DeliveryEvent
    input: { readonly at: number; readonly once: boolean; readonly attempt: number }
  },
  actions: { tried: assign({ attempt: ({ context }) => context.attempt + 1 }) },
  delays: {
    nextTry: ({ context, event }) => {
      if (event.type !== "try.failed") return Number.POSITIVE_INFINITY
      const usual = RETRY_AFTER_MS[context.attempt - 1]! * (1 + JITTER * event.jitter)
      return Math.round(Math.max(usual, Math.min(event.retryAfterMs ?? 0, MAX_WAIT_MS)))
    },
  },
  guards: { wasLast: ({ context }) => context.once || context.attempt >= RETRY_AFTER_MS.length },
}).createMachine({
  id: "delivery",
  context: ({ input }) => ({ attempt: input.attempt, once: input.once }),
  initial: "due",
  states: {
    due: {
      on: {
        "try.succeeded": { target: "succeeded", actions: "tried" },
        "try.failed": [
          { guard: "wasLast", target: "failed", actions: "tried" },
          { target: "waiting", actions: "tried" },
        ],
      },
    },
    waiting: { after: { nextTry: "due" } },
    succeeded: {},
    failed: {},
  },
})
