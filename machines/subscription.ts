/**
 * The life of a subscription (spec 3.1, decisions D and E): trial, first payment, renewals, dunning, cancellation.
 *
 * Pure: every event says when it happens (`at`) and brings the facts that the decision needs (machines/events.ts); every
 * effect is a named action with parameters. What it knows is in machines/periods.ts, what the API shows of it follows
 * from the state by machines/status.ts.
 */
import { and, assign, not, type SnapshotFrom, setup, stateIn } from "xstate"
import { NO_USAGE, type Usage } from "./billing.ts"
import { boundary, DAY_MS } from "./calendar.ts"
import { afterFailure, type Dunning, ESCALATIONS, unpaidDeadline } from "./dunning.ts"
import type { Posting, Settlement, SubscriptionEvent, SubscriptionEventType, SubscriptionInput } from "./events.ts"
import {
  type Bill,
  billFor,
  firstPeriod,
  isShortTrial,
  nextPeriod,
  recoveredPeriod,
  SETTLED,
  type SubscriptionContext,
  TRIAL_NOTICE_MS,
} from "./periods.ts"

const usageOf = (context: SubscriptionContext, event: SubscriptionEvent): Usage => ({
  units: context.units,
  unitKobo: "unitKobo" in event ? (event.unitKobo ?? 0) : 0,
})

const failureOf = (context: SubscriptionContext, event: SubscriptionEvent): Dunning => {
  if (event.type !== "charge.failed") throw new Error(`Not a failure: ${event.type}`)
  const { attemptedAt, automaticRetry } = context.bill!
  const failure = { failedAt: event.at, attemptedAt, automaticRetry, retryable: event.retryable }
  return afterFailure(context.dunning, event.policy, failure)
}

/** An attempt under way may still save the subscription: its failure decides (decision E19). */
const noAttemptUnderWay = not(stateIn({ overdue: "charging" }))

const machine = setup({
  types: {} as { context: SubscriptionContext; events: SubscriptionEvent; input: SubscriptionInput },
  actions: {
    // Effects: named here, carried out by src/subscription.
    attemptCharge: (_, _params: Bill) => {},
    settleCharge: (_, _params: Settlement) => {},
    emit: (_, _params: { readonly type: SubscriptionEventType }) => {},
    post: (_, _params: { readonly posting: Posting; readonly bill: Bill }) => {},
    // Context.
    billFirst: assign(({ context }) => ({
      ...firstPeriod(context, context.startAt),
      periodNo: -1,
      bill: billFor({ ...context, anchorAt: context.startAt, periodNo: -1 }, "first", context.startAt, NO_USAGE),
      billsMade: context.billsMade + 1,
    })),
    billTrialEnd: assign(({ context }) => ({
      anchorAt: context.trialEnd!,
      periodNo: -1,
      // Units reported during a trial are free (decision E1).
      bill: billFor(
        { ...context, anchorAt: context.trialEnd!, periodNo: -1 },
        "trial_end",
        context.trialEnd!,
        NO_USAGE,
      ),
      billsMade: context.billsMade + 1,
      units: 0,
    })),
    billRenewal: assign(({ context, event }) => ({
      bill: billFor(context, "renewal", context.periodEnd, usageOf(context, event)),
      billsMade: context.billsMade + 1,
      units: 0,
    })),
    countUnits: assign(({ context, event }) => {
      if (event.type !== "units") return {}
      return { units: event.action === "set" ? event.quantity : context.units + event.quantity }
    }),
    billAgain: assign(({ context }) => ({
      bill: {
        ...context.bill!,
        attempt: context.bill!.attempt + 1,
        attemptedAt: context.dunning!.nextRetryAt!,
        automaticRetry: true,
      },
      dunning: { ...context.dunning!, nextRetryAt: null },
    })),
    advancePeriod: assign(({ context }) => ({ ...nextPeriod(context), ...SETTLED })),
    recoverPeriod: assign(({ context, event }) => ({ ...recoveredPeriod(context, event.at), ...SETTLED })),
    recordFailure: assign(({ context, event }) => ({ dunning: failureOf(context, event) })),
    escalate: assign(({ context, event }) => ({
      escalation: { action: ESCALATIONS[context.dunning!.policy.escalation], triggeredAt: event.at },
    })),
    cancelLater: assign(({ event }) => ({
      cancelAtPeriodEnd: true,
      cancelReason: event.type === "cancel" ? event.reason : null,
    })),
    keep: assign({ cancelAtPeriodEnd: false, cancelReason: null }),
    cancelNow: assign(({ context, event }) => ({
      cancelledAt: event.at,
      cancellationReason: event.type === "cancel" ? event.reason : context.cancelReason,
      bill: null,
      dunning: null,
    })),
    cancelUnpaid: assign(({ event }) => ({
      cancelledAt: event.at,
      cancellationReason: "nonpayment" as const,
      bill: null,
      dunning: null,
    })),
  },
  delays: {
    start: ({ context, event }) => context.startAt - event.at,
    trialWillEnd: ({ context, event }) =>
      isShortTrial(context) ? Number.POSITIVE_INFINITY : context.trialEnd! - TRIAL_NOTICE_MS - event.at,
    trialEnd: ({ context, event }) => context.trialEnd! - event.at,
    periodEnd: ({ context, event }) =>
      context.billingCycle === "per_delivery" ? Number.POSITIVE_INFINITY : context.periodEnd - event.at,
    nextRetry: ({ context, event }) => context.dunning!.nextRetryAt! - event.at,
    billPeriodEnd: ({ context, event }) => context.bill!.periodEnd - event.at,
    unpaidTooLong: ({ context, event }) => unpaidDeadline(context.dunning!) - event.at,
  },
  guards: {
    startsLater: ({ context, event }) => context.startAt > event.at,
    hasTrial: ({ context }) => context.trialEnd !== null,
    hasShortTrial: ({ context }) => context.trialEnd !== null && isShortTrial(context),
    cancelling: ({ context }) => context.cancelAtPeriodEnd && context.cancelledAt === null,
    retryDue: ({ context }) => context.dunning!.nextRetryAt !== null,
    gaveUp: ({ context }) => context.dunning!.gaveUp,
    escalated: ({ context }) => context.escalation !== null,
    pauses: ({ context }) => context.dunning!.policy.escalation === "pause_service",
    escalatesSilently: ({ context }) => context.dunning!.policy.escalation === "none",
    pausedByEscalation: ({ context }) => context.escalation?.action === "pause",
    inService: ({ context }) => context.escalation?.action !== "pause",
    unpaidTooLong: ({ context, event }) => event.at >= unpaidDeadline(context.dunning!),
    cancelsNow: ({ context, event }) => event.type === "cancel" && !event.atPeriodEnd && context.cancelledAt === null,
    cancelsLater: ({ context }) => !context.cancelAtPeriodEnd && context.cancelledAt === null,
    billPeriodIsOver: ({ context, event }) =>
      context.bill!.periodEnd <= event.at || context.escalation?.action === "pause",
    cancellingAndBillPeriodIsOver: ({ context, event }) =>
      context.cancelAtPeriodEnd && context.bill!.periodEnd <= event.at,
    noAttemptUnderWay,
    cancellingAndNoAttemptUnderWay: and(["cancelling", noAttemptUnderWay]),
  },
})

const emit = (type: SubscriptionEventType) => ({ type: "emit", params: { type } }) as const
const settle = (refundDue = false) =>
  ({
    type: "settleCharge",
    params: ({ context }: { context: SubscriptionContext }): Settlement => ({
      willRetry: (context.dunning?.nextRetryAt ?? null) !== null,
      nextRetryAt: context.dunning?.nextRetryAt ?? null,
      refundDue,
    }),
  }) as const
const post = (posting: Posting) =>
  ({
    type: "post",
    params: ({ context }: { context: SubscriptionContext }) => ({ posting, bill: context.bill! }),
  }) as const
const attempt = {
  type: "attemptCharge",
  params: ({ context }: { context: SubscriptionContext }) => context.bill!,
} as const

const paid = [settle(), post("paid"), emit("charge.succeeded")] as const
const cancelled = [emit("subscription.cancelled")] as const
/** A trial shorter than the notice: it is given at once. */
const shortTrial = [emit("subscription.trial_will_end")] as const
/** A payment of the first bill that fails ends the subscription (decision D5). */
const neverStarted = [settle(), emit("charge.failed"), "cancelUnpaid", ...cancelled] as const
/** The first failure of a bill: it is owed from now on. */
const fallOverdue = [
  "recordFailure",
  settle(),
  post("owed"),
  emit("charge.failed"),
  emit("subscription.past_due"),
] as const
/** Immediate cancellation, or at a period end that has come. */
const cancelOwing = [post("written_off"), "cancelNow", ...cancelled] as const

/** An overdue bill is paid after all (decision E8). */
const recover = [
  settle(),
  post("overdue_paid"),
  emit("charge.succeeded"),
  "recoverPeriod",
  emit("subscription.recovered"),
] as const
/** Unpaid for as long as the plan waits. */
const writeOff = [post("written_off"), "cancelUnpaid", ...cancelled] as const
export const subscriptionMachine = machine.createMachine({
  id: "subscription",
  context: ({ input }) => ({
    billingCycle: input.billingCycle,
    priceKobo: input.priceKobo,
    quantity: input.quantity,
    startAt: input.startAt,
    trialEnd: input.trialDays > 0 ? input.startAt + input.trialDays * DAY_MS : null,
    anchorAt: input.trialDays > 0 ? input.startAt + input.trialDays * DAY_MS : input.startAt,
    periodNo: -1,
    periodStart: input.startAt,
    periodEnd:
      input.trialDays > 0 ? input.startAt + input.trialDays * DAY_MS : boundary(input.billingCycle, input.startAt, 1),
    units: 0,
    cancelAtPeriodEnd: false,
    cancelReason: null,
    billsMade: 0,
    bill: null,
    dunning: null,
    escalation: null,
    cancelledAt: null,
    cancellationReason: null,
  }),
  initial: "created",
  on: {
    cancel: [
      { guard: "cancelsNow", target: ".cancelled", actions: ["cancelNow", ...cancelled] },
      { guard: "cancelsLater", actions: ["cancelLater", emit("subscription.updated")] },
    ],
    keep: { guard: "cancelling", actions: ["keep", emit("subscription.updated")] },
  },
  states: {
    created: {
      on: {
        create: [
          { guard: "startsLater", target: "scheduled", actions: emit("subscription.created") },
          { guard: "hasShortTrial", target: "trialing", actions: [emit("subscription.created"), ...shortTrial] },
          { guard: "hasTrial", target: "trialing", actions: [emit("subscription.created")] },
          { target: "opening" },
        ],
      },
    },

    scheduled: {
      after: {
        start: [
          { guard: "hasShortTrial", target: "trialing", actions: [emit("subscription.updated"), ...shortTrial] },
          { guard: "hasTrial", target: "trialing", actions: [emit("subscription.updated")] },
          { target: "starting", actions: ["billFirst", attempt] },
        ],
      },
    },

    /** The first payment, within the request that creates the subscription. */
    opening: {
      entry: ["billFirst", attempt],
      on: {
        "charge.succeeded": {
          target: "active",
          actions: [emit("subscription.created"), ...paid, "advancePeriod"],
        },
        "charge.failed": { target: "cancelled", actions: [emit("subscription.created"), ...neverStarted] },
        "charge.unsettled": { target: "starting", actions: emit("subscription.created") },
      },
    },

    /** A first payment that the rail takes its time over, or that came due at `start_at`. */
    starting: {
      on: {
        "charge.succeeded": {
          target: "active",
          actions: [...paid, "advancePeriod", emit("subscription.updated")],
        },
        "charge.failed": { target: "cancelled", actions: [...neverStarted] },
      },
    },

    trialing: {
      initial: "running",
      on: { units: { actions: "countUnits" } },
      states: {
        running: {
          after: {
            trialWillEnd: { actions: emit("subscription.trial_will_end") },
            trialEnd: [
              { guard: "cancelling", target: "#subscription.cancelled", actions: ["cancelNow", ...cancelled] },
              { target: "charging", actions: ["billTrialEnd", attempt] },
            ],
          },
        },
        charging: {
          on: {
            "charge.succeeded": {
              target: "#subscription.active",
              actions: [...paid, "advancePeriod", emit("subscription.updated")],
            },
            "charge.failed": { target: "#subscription.overdue", actions: [...fallOverdue] },
          },
        },
      },
    },

    active: {
      initial: "current",
      on: { units: { actions: "countUnits" } },
      states: {
        current: {
          after: {
            periodEnd: [
              { guard: "cancelling", target: "#subscription.cancelled", actions: ["cancelNow", ...cancelled] },
              { target: "charging", actions: ["billRenewal", attempt] },
            ],
          },
        },
        charging: {
          on: {
            "charge.succeeded": {
              target: "current",
              actions: [...paid, "advancePeriod", emit("subscription.renewed")],
            },
            "charge.failed": { target: "#subscription.overdue", actions: [...fallOverdue] },
          },
        },
      },
    },

    /** A bill is owed: dunning. The unpaid clock runs on through everything in here (decision E7). */
    overdue: {
      initial: "deciding",
      after: {
        billPeriodEnd: { guard: "cancellingAndNoAttemptUnderWay", target: "cancelled", actions: [...cancelOwing] },
        unpaidTooLong: { guard: "noAttemptUnderWay", target: "cancelled", actions: [...writeOff] },
      },
      on: {
        cancel: [
          { guard: "cancelsNow", target: "cancelled", actions: [...cancelOwing] },
          { guard: "billPeriodIsOver", target: "cancelled", actions: [...cancelOwing] },
          { guard: "cancelsLater", actions: ["cancelLater", emit("subscription.updated")] },
        ],
        units: { guard: "inService", actions: "countUnits" },
      },
      states: {
        deciding: {
          always: [
            { guard: "retryDue", target: "retrying" },
            { guard: "gaveUp", target: "waiting" },
            { guard: "escalated", target: "waiting" },
            {
              guard: "pauses",
              target: "waiting",
              actions: ["escalate", emit("subscription.escalated"), emit("subscription.paused")],
            },
            { guard: "escalatesSilently", target: "waiting", actions: "escalate" },
            { target: "waiting", actions: ["escalate", emit("subscription.escalated")] },
          ],
        },
        retrying: {
          entry: emit("charge.retry_scheduled"),
          after: { nextRetry: { target: "charging", actions: ["billAgain", attempt] } },
        },
        charging: {
          on: {
            "charge.succeeded": [
              {
                guard: "pausedByEscalation",
                target: "#subscription.active",
                actions: [...recover, emit("subscription.resumed")],
              },
              { target: "#subscription.active", actions: [...recover] },
            ],
            "charge.failed": [
              {
                guard: "unpaidTooLong",
                target: "#subscription.cancelled",
                actions: [settle(), emit("charge.failed"), ...writeOff],
              },
              {
                guard: "cancellingAndBillPeriodIsOver",
                target: "#subscription.cancelled",
                actions: [settle(), emit("charge.failed"), ...cancelOwing],
              },
              // Entered anew, so that the timers which this attempt held up are set again.
              {
                target: "#subscription.overdue",
                reenter: true,
                actions: ["recordFailure", settle(), emit("charge.failed")],
              },
            ],
          },
        },
        /** Nothing is left to try by ourselves: paid by hand, written off, or cancelled for non-payment. */
        waiting: {},
      },
    },

    /** For good. A payment that was on its way may still succeed: it is owed back (decision E15). */
    cancelled: {
      on: {
        "charge.succeeded": { actions: [settle(true), emit("charge.succeeded")] },
        "charge.failed": { actions: [settle(), emit("charge.failed")] },
      },
    },
  },
})

export type SubscriptionSnapshot = SnapshotFrom<typeof subscriptionMachine>
