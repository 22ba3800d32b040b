/**
 * The lifecycle of a hosted checkout session: open until the buyer completes it, or until it expires by time or by request
 * (decisions G2, G3). While a payment is in progress at the rail, no second one is accepted.
 */
import { assign, setup } from "xstate"
import type { DelayEvent } from "./decide.ts"

export const CHECKOUT_MODES = ["subscription", "setup"] as const

export const CHECKOUT_STATUSES = ["open", "completed", "expired"] as const
export type CheckoutStatus = (typeof CHECKOUT_STATUSES)[number]

export const CHECKOUT_EVENT_TYPES = ["checkout_session.completed", "checkout_session.expired"] as const
export type CheckoutEventType = (typeof CHECKOUT_EVENT_TYPES)[number]

export interface CheckoutContext {
  readonly expiresAt: number
  readonly completedAt: number | null
}

type Timed<T extends string> = { readonly type: T; readonly at: number }

export type CheckoutEvent =
  /** Carries the machine's input. */
  | (Timed<"create"> & { readonly expiresAt: number })
  /** A payment is in progress at the rail. */
  | Timed<"pay">
  /** It was declined: the buyer may try again. */
  | Timed<"decline">
  /** It succeeded, or nothing was due. */
  | Timed<"complete">
  | Timed<"expire">
  | DelayEvent<"expiry", "checkout.open">

/** The API's status. `state` is the machine's state as one word. */
export const checkoutStatusOf = (state: string): CheckoutStatus =>
  state === "completed" || state === "expired" ? state : "open"

const emit = (type: CheckoutEventType) => ({ type: "emit", params: { type } }) as const
const completed = { target: "#checkout.completed", actions: ["complete", emit("checkout_session.completed")] } as const
const expired = { target: "#checkout.expired", actions: emit("checkout_session.expired") } as const

export const checkoutMachine = setup({
  types: {} as {
    context: CheckoutContext
    events: CheckoutEvent
    input: { readonly at: number; readonly expiresAt: number }
  },
  actions: {
    emit: (_, _params: { readonly type: CheckoutEventType }) => {},
    complete: assign({ completedAt: ({ event }) => event.at }),
  },
  delays: { expiry: ({ context, event }) => context.expiresAt - event.at },
}).createMachine({
  id: "checkout",
  context: ({ input }) => ({ expiresAt: input.expiresAt, completedAt: null }),
  initial: "created",
  states: {
    created: { on: { create: "open" } },
    open: {
      initial: "waiting",
      on: { expire: expired },
      after: { expiry: expired },
      states: {
        waiting: { on: { pay: "paying", complete: completed } },
        /** A payment at the rail, on its own page or not. Its result decides, unless the session expires first. */
        paying: { on: { complete: completed, decline: "waiting" } },
      },
    },
    completed: {},
    expired: {},
  },
})
