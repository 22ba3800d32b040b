/** A service invoice (spec 2.15, decision K4): open until it is due, then overdue; paid or void in the end. */
import { assign, setup } from "xstate"

export interface InvoiceContext {
  readonly dueAt: number
  readonly paidAt: number | null
}

export type InvoiceEvent = {
  readonly type: "create" | "pay" | "void" | "xstate.after.due.invoice.open"
  readonly at: number
}

const post = (posting: "invoiced" | "invoice_paid" | "invoice_voided") =>
  ({ type: "post", params: { posting } }) as const

export const invoiceMachine = setup({
  types: {} as {
    context: InvoiceContext
    events: InvoiceEvent
    input: { readonly at: number; readonly dueAt: number }
  },
  actions: {
    /** In the service's own books. */
    post: (_, _params: { readonly posting: "invoiced" | "invoice_paid" | "invoice_voided" }) => {},
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
