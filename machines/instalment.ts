/**
 * The lifecycle of an instalment plan (decisions L4 to L8): a buyer pays for goods in parts, and gets them when all is paid. At most one
 * payment is in progress at a time. A payment that succeeds after the end is owed back.
 */
import { assign, setup } from "xstate"
import type { DelayEvent } from "./decide.ts"
import {
  extend,
  type Frequency,
  hasMissed,
  type InstalmentMode,
  isPaidUp,
  miss,
  nextMissAt,
  nextReminder,
  pay,
  type Savings,
  scheduleOf,
  type Terms,
} from "./instalment_schedule.ts"
import type { Reminder } from "./reminders.ts"
import { DAY_MS } from "./time.ts"

export const INSTALMENT_PLAN_STATUSES = [
  "pending",
  "active",
  "overdue",
  "completed",
  "shipped",
  "delivered",
  "cancelled",
] as const
export type InstalmentPlanStatus = (typeof INSTALMENT_PLAN_STATUSES)[number]

export const INSTALMENT_EVENT_TYPES = [
  "savings_plan.created",
  "savings_plan.activated",
  "savings_plan.payment_received",
  "savings_plan.overdue",
  "savings_plan.completed",
  "savings_plan.shipped",
  "savings_plan.delivered",
  "savings_plan.cancelled",
  "savings_plan.extended",
] as const
export type InstalmentEventType = (typeof INSTALMENT_EVENT_TYPES)[number]

export interface InstalmentContext extends Savings {
  readonly mode: InstalmentMode
  readonly frequency: Frequency | null
  readonly refundWindowDays: number
  /** The charge in progress; null: none. */
  readonly paying: string | null
  /** The number of payments. */
  readonly payments: number
  /** All reminders up to this instant were sent. */
  readonly remindedAt: number
  readonly completedAt: number | null
  readonly shippedAt: number | null
  readonly deliveredAt: number | null
  readonly refundWindowEndsAt: number | null
  readonly cancelledAt: number | null
}

export interface InstalmentInput extends Terms {
  readonly at: number
  readonly lateFeeKobo: number
  readonly refundWindowDays: number
}

type Timed<T extends string> = { readonly type: T; readonly at: number }

export type InstalmentEvent =
  /** Carries the machine's input. */
  | ({ readonly type: "create" } & InstalmentInput)
  /** A payment was sent to a rail. */
  | (Timed<"payment.begun"> & { readonly chargeId: string })
  | (Timed<"payment.succeeded"> & { readonly chargeId: string; readonly amountKobo: number })
  | (Timed<"payment.failed"> & { readonly chargeId: string })
  | (Timed<"extend"> & { readonly byMs: number })
  | Timed<"cancel">
  | Timed<"ship">
  | Timed<"deliver">
  | DelayEvent<"expiry", "instalment.pending">
  | DelayEvent<"missed" | "reminder", "instalment.active">
  | DelayEvent<"missed" | "reminder", "instalment.overdue">

/** A plan without a payment after so long is cancelled. */
export const PENDING_MS = DAY_MS

/** When to check again, if a payment was in progress at the expiry. */
const LOOK_AGAIN_MS = 10 * 60_000

/** The states are the API's statuses. */
export const instalmentStatusOf = (state: string): InstalmentPlanStatus =>
  INSTALMENT_PLAN_STATUSES.find((status) => status === state) ?? "pending"

/** Whether a plan accepts payments and can be cancelled. */
export const isSaving = (state: string): boolean => state === "pending" || state === "active" || state === "overdue"

const emit = (type: InstalmentEventType) => ({ type: "emit", params: { type } }) as const

/** The next reminder after those already sent. */
const reminderAfter = (context: InstalmentContext, at: number): Reminder | undefined =>
  nextReminder(context, Math.max(context.remindedAt, at - 1))

const amountOf = (event: InstalmentEvent): number => (event.type === "payment.succeeded" ? event.amountKobo : 0)
const isUnderWay = ({ paying }: InstalmentContext, event: InstalmentEvent): boolean =>
  "chargeId" in event && event.chargeId === paying
const paidBy = (context: InstalmentContext, event: InstalmentEvent): Savings => pay(context, amountOf(event), event.at)

const instalmentSetup = setup({
  types: {} as { context: InstalmentContext; events: InstalmentEvent; input: InstalmentInput },
  actions: {
    // Effects: carried out by src/buying/instalment.
    emit: (_, _params: { readonly type: InstalmentEventType }) => {},
    /** Posts to the books, with the plan before this transition. */
    post: (
      _,
      _params: { readonly posting: "deposit_paid" | "goods_delivered" | "deposit_cancelled" | "refund_due" },
    ) => {},
    remind: (_, _params: Pick<Reminder, "rule" | "day">) => {},
    // Context.
    begin: assign({ paying: ({ event }) => (event.type === "payment.begun" ? event.chargeId : null) }),
    end: assign({ paying: null }),
    pay: assign(({ context, event }) => ({
      ...paidBy(context, event),
      paying: null,
      payments: context.payments + 1,
    })),
    miss: assign(({ context, event }) => miss(context, event.at)),
    extend: assign(({ context, event }) => (event.type === "extend" ? extend(context, event.byMs, event.at) : {})),
    noteReminder: assign(({ event }) => ({ remindedAt: event.at })),
    complete: assign({ completedAt: ({ event }) => event.at }),
    cancel: assign({ cancelledAt: ({ event }) => event.at }),
    ship: assign({ shippedAt: ({ event }) => event.at }),
    deliver: assign({
      deliveredAt: ({ event }) => event.at,
      refundWindowEndsAt: ({ context, event }) => event.at + context.refundWindowDays * DAY_MS,
    }),
  },
  guards: {
    isFree: ({ context }) => context.paying === null,
    /** Each charge counts once; a later, contradicting answer of the rail changes nothing here. */
    isUnderWay: ({ context, event }) => isUnderWay(context, event),
    paysAll: ({ context, event }) => isUnderWay(context, event) && isPaidUp(paidBy(context, event)),
    leavesMissed: ({ context, event }) => isUnderWay(context, event) && hasMissed(paidBy(context, event)),
    staysLate: ({ context, event }) => event.type === "extend" && hasMissed(extend(context, event.byMs, event.at)),
  },
  delays: {
    // While a payment is in progress the plan waits for its result.
    expiry: ({ event }) => (event.type === "create" ? PENDING_MS : LOOK_AGAIN_MS),
    missed: ({ context, event }) => nextMissAt(context) - event.at,
    reminder: ({ context, event }) => (reminderAfter(context, event.at)?.at ?? Number.POSITIVE_INFINITY) - event.at,
  },
})

/** The reminder that was due at the instant of the event. */
const remind = {
  type: "remind",
  params: ({ context, event }: { context: InstalmentContext; event: InstalmentEvent }) => {
    const { rule, day } = nextReminder(context, event.at - 1)!
    return { rule, day }
  },
} as const

const cancelled = {
  target: "#instalment.cancelled",
  actions: ["cancel", { type: "post", params: { posting: "deposit_cancelled" } }, emit("savings_plan.cancelled")],
} as const

const post = { type: "post", params: { posting: "deposit_paid" } } as const
const received = emit("savings_plan.payment_received")

/** The transitions of payments. `first`: events that only the first payment emits. */
const payment = <const First extends ReadonlyArray<ReturnType<typeof emit>>>(first: First) =>
  ({
    "payment.begun": { guard: "isFree", actions: "begin" },
    "payment.failed": { guard: "isUnderWay", actions: "end" },
    "payment.succeeded": [
      {
        guard: "paysAll",
        target: "#instalment.completed",
        actions: ["pay", "complete", post, ...first, received, emit("savings_plan.completed")],
      },
      {
        guard: "leavesMissed",
        target: "#instalment.overdue",
        reenter: true,
        actions: ["pay", post, ...first, received],
      },
      { guard: "isUnderWay", target: "#instalment.active", reenter: true, actions: ["pay", post, ...first, received] },
    ],
    cancel: cancelled,
  }) as const

/** A started plan: every change of its timers enters `state` again. */
const saving = <const State extends "active" | "overdue">(state: State) =>
  ({
    on: {
      ...payment([]),
      extend: [
        {
          guard: "staysLate",
          target: "#instalment.overdue",
          reenter: true,
          actions: ["extend", emit("savings_plan.extended")],
        },
        {
          target: "#instalment.active",
          reenter: true,
          actions: ["extend", emit("savings_plan.extended")],
        },
      ],
    },
    after: {
      missed: {
        target: "#instalment.overdue",
        reenter: true,
        actions: ["miss", emit("savings_plan.overdue")],
      },
      reminder: { target: `#instalment.${state}`, reenter: true, actions: [remind, "noteReminder"] },
    },
  }) as const

/** After the end no payment counts: a late one is owed back. */
const late = {
  "payment.succeeded": {
    guard: "isUnderWay",
    actions: ["end", { type: "post", params: { posting: "refund_due" } }],
  },
  "payment.failed": { guard: "isUnderWay", actions: "end" },
} as const

export const instalmentMachine = instalmentSetup.createMachine({
  id: "instalment",
  context: ({ input }) => ({
    mode: input.mode,
    frequency: input.frequency,
    targetKobo: input.targetKobo,
    lateFeeKobo: input.lateFeeKobo,
    refundWindowDays: input.refundWindowDays,
    ...scheduleOf(input, input.at),
    paidKobo: 0,
    feesPaidKobo: 0,
    pendingFeeKobo: 0,
    paying: null,
    payments: 0,
    remindedAt: input.at,
    completedAt: null,
    shippedAt: null,
    deliveredAt: null,
    refundWindowEndsAt: null,
    cancelledAt: null,
  }),
  initial: "created",
  states: {
    created: { on: { create: { target: "pending", actions: emit("savings_plan.created") } } },
    pending: {
      on: payment([emit("savings_plan.activated")]),
      after: {
        expiry: [
          { guard: "isFree", ...cancelled },
          { target: "pending", reenter: true },
        ],
      },
    },
    active: saving("active"),
    overdue: saving("overdue"),
    completed: {
      on: { ...late, ship: { target: "shipped", actions: ["ship", emit("savings_plan.shipped")] } },
    },
    shipped: {
      on: {
        ...late,
        deliver: {
          target: "delivered",
          actions: [
            "deliver",
            { type: "post", params: { posting: "goods_delivered" } },
            emit("savings_plan.delivered"),
          ],
        },
      },
    },
    delivered: { on: late },
    cancelled: { on: late },
  },
})
