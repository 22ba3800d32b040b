/** A service invoice (decision K4): open until its due time, then overdue; finally paid or void. */
import { assign, setup } from "xstate"
import type { DelayEvent } from "./decide.ts"

export const INVOICE_STATUSES = ["open", "paid", "overdue", "void"] as const
export type InvoiceStatus = (typeof INVOICE_STATUSES)[number]
export type InvoicePosting = "invoiced" | "invoice_paid" | "invoice_voided"

export interface InvoiceContext {
  readonly dueAt: number
  readonly paidAt: number | null
}

export type InvoiceEvent =
  | { readonly type: "create"; readonly at: number; readonly dueAt: number }
  | { readonly type: "pay"; readonly at: number }
  | { readonly type: "void"; readonly at: number }
  | DelayEvent<"due", "invoice.open">

const post = (posting: InvoicePosting) => ({ type: "post", params: { posting } }) as const

export const invoiceMachine = setup({
  types: {} as {
    context: InvoiceContext
    events: InvoiceEvent
    input: { readonly at: number; readonly dueAt: number }
  },
  actions: {
    /** Posts to the service's own books. */
    post: (_, _params: { readonly posting: InvoicePosting }) => {},
    pay: assign({ paidAt: ({ event }) => event.at }),
  },
  delays: { due: ({ context, event }) => context.dueAt - event.at },
}).createMachine({
  id: "invoice",
  context: ({ input }) => ({ dueAt: input.dueAt, paidAt: null }),
  initial: "drafted",
  states: {
    drafted: { on: { create: { target: "open", actions: post("invoiced") } } },
    open: {
      after: { due: "overdue" },
      on: {
        pay: { target: "paid", actions: ["pay", post("invoice_paid")] },
        void: { target: "void", actions: post("invoice_voided") },
      },
    },
    overdue: {
      on: {
        pay: { target: "paid", actions: ["pay", post("invoice_paid")] },
        void: { target: "void", actions: post("invoice_voided") },
      },
    },
    paid: {},
    void: {},
  },
})
