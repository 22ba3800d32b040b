/**
 * The delivery of one event to one webhook endpoint (decision I2): tried until the endpoint answers with success or the schedule ends.
 * There are too many deliveries to journal: the row has the result of the last try. Deliveries to an endpoint that is disabled or deleted are
 * given up together, without a transition of each (src/outbound/webhook/housekeeping.ts).
 */
import { assign, setup } from "xstate"
import type { DelayEvent } from "./decide.ts"
import { HOUR_MS, MINUTE_MS, SECOND_MS } from "./time.ts"

export const DELIVERY_STATUSES = ["pending", "succeeded", "failed"] as const

/** The delay after each failed try, before jitter. */
export const DELIVERY_DELAYS_MS = [
  5 * SECOND_MS,
  5 * MINUTE_MS,
  30 * MINUTE_MS,
  2 * HOUR_MS,
  5 * HOUR_MS,
  10 * HOUR_MS,
  10 * HOUR_MS,
] as const
/** Retries are spread by this part of their delay, in both directions. */
export const JITTER = 0.1
/** A Retry-After of the endpoint is respected up to the longest delay of the schedule. */
const MAX_WAIT_MS = Math.max(...DELIVERY_DELAYS_MS)

export interface DeliveryContext {
  /** The number of tries made. */
  readonly attempt: number
  /** Sent only once, with any result (decision I8). */
  readonly once: boolean
}

export type DeliveryEvent =
  | { readonly type: "try.succeeded"; readonly at: number }
  | {
      readonly type: "try.failed"
      readonly at: number
      /** From -1 to 1: the position of the retry in the jitter range. */
      readonly jitter: number
      /** The delay that the endpoint asked for, from now. */
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
      const usual = DELIVERY_DELAYS_MS[context.attempt - 1]! * (1 + JITTER * event.jitter)
      return Math.round(Math.max(usual, Math.min(event.retryAfterMs ?? 0, MAX_WAIT_MS)))
    },
  },
  guards: { wasLast: ({ context }) => context.once || context.attempt >= DELIVERY_DELAYS_MS.length },
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
