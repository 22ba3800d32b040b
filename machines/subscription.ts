/**
 * The lifecycle of a subscription (decisions D and E): trial, first payment, renewals, pauses, dunning, cancellation.
 *
 * Pure: every event has its time (`at`) and the facts that the decision needs (machines/events.ts); every effect is a named action with
 * parameters. The effects of transitions are in machines/subscription_effects.ts; the actions, delays and guards are in
 * machines/subscription_setup.ts, the context is in machines/periods.ts, the API's status in machines/status.ts.
 */
import { boundary } from "./calendar.ts"
import {
  adopt,
  attempt,
  beginTrial,
  billUnits,
  billUnitsOwing,
  cancelled,
  cancelOwing,
  emit,
  endPaid,
  endPaidOwing,
  endService,
  endUnpaid,
  endUnpaidOwing,
  failAgain,
  fallOverdue,
  findDelivery,
  findLastOwing,
  findResumed,
  findResumedAfterEscalation,
  findResumption,
  methods,
  neverStarted,
  nudge,
  paid,
  post,
  recover,
  remind,
  resumeFree,
  resumePaying,
  resumptions,
  settle,
  shortTrial,
  writeOff,
} from "./subscription_effects.ts"
import { subscriptionSetup } from "./subscription_setup.ts"
import { DAY_MS } from "./time.ts"

export const subscriptionMachine = subscriptionSetup.createMachine({
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
    periodQuantity: input.quantity,
    units: 0,
    cancelAtPeriodEnd: false,
    cancelReason: null,
    billsMade: 0,
    bill: null,
    dunning: null,
    escalation: null,
    pause: null,
    cancelledAt: null,
    cancellationReason: null,
  }),
  initial: "created",
  on: {
    cancel: [
      { guard: "cancelsNow", target: ".cancelled", actions: [...cancelled] },
      { guard: "cancelsLater", actions: ["cancelLater", emit("subscription.updated")] },
      { guard: "changesReason", actions: "cancelLater" },
    ],
    update: { guard: "notOver", actions: ["update", emit("subscription.updated")] },
  },
  states: {
    created: {
      on: {
        create: [
          { guard: "waitsForCheckout", target: "checkout", actions: emit("subscription.created") },
          { guard: "startsLater", target: "scheduled", actions: emit("subscription.created") },
          { guard: "hasShortTrial", target: "trialing", actions: [emit("subscription.created"), ...shortTrial] },
          { guard: "hasTrial", target: "trialing", actions: [emit("subscription.created")] },
          { target: "opening" },
        ],
      },
    },

    /** Starts, with its first payment or its trial, when the buyer completes its checkout session (decisions G2, G3). */
    checkout: {
      initial: "open",
      on: {
        checkout_expired: { target: "cancelled", actions: ["cancelExpired", emit("subscription.cancelled")] },
      },
      states: {
        open: {
          on: {
            "charge.found": { guard: "findsFirstBill", target: "charging", actions: ["takeBill", attempt] },
            check_out: [
              { guard: "hasShortTrial", target: "#subscription.trialing", actions: [...beginTrial, ...shortTrial] },
              { guard: "hasTrial", target: "#subscription.trialing", actions: [...beginTrial] },
              { target: "charging", actions: ["billCheckout", attempt] },
            ],
          },
        },
        charging: {
          on: {
            "charge.succeeded": {
              target: "#subscription.active",
              actions: [
                settle(),
                post("paid"),
                emit("charge.succeeded"),
                adopt,
                "payPeriod",
                emit("subscription.updated"),
              ],
            },
            // The buyer may try again for as long as the session is open.
            "charge.failed": { target: "open", actions: [settle(), emit("charge.failed")] },
          },
        },
      },
    },

    scheduled: {
      on: {
        reminder: { actions: remind },
        "charge.found": { guard: "findsBill", target: "starting", actions: ["takeFirst", attempt] },
      },
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
        // No event has been emitted for it yet.
        cancel: [
          {
            guard: "cancelsNow",
            target: "cancelled",
            actions: [emit("subscription.created", "starting"), ...cancelled],
          },
          { guard: "cancelsLater", actions: "cancelLater" },
          { guard: "changesReason", actions: "cancelLater" },
        ],
        update: { actions: "update" },
        // The event shows the resulting state (decision E20).
        "charge.succeeded": {
          target: "active",
          actions: [settle(), post("paid"), "payPeriod", emit("subscription.created"), emit("charge.succeeded")],
        },
        "charge.failed": {
          target: "cancelled",
          actions: [
            settle(),
            "cancelUnpaid",
            emit("subscription.created"),
            emit("charge.failed"),
            emit("subscription.cancelled"),
          ],
        },
        "charge.unsettled": { target: "starting", actions: emit("subscription.created") },
      },
    },

    /** A first payment that the rail has not decided yet, or that came due at `start_at`. */
    starting: {
      on: {
        "charge.succeeded": { target: "active", actions: [...paid, emit("subscription.updated")] },
        "charge.failed": { target: "cancelled", actions: [...neverStarted] },
      },
    },

    trialing: {
      initial: "running",
      exit: "dropUnits",
      on: { units: { actions: "countUnits" } },
      states: {
        running: {
          on: {
            reminder: { actions: remind },
            "charge.found": { guard: "findsBill", target: "charging", actions: ["takeBill", attempt] },
          },
          after: {
            trialWillEnd: { actions: emit("subscription.trial_will_end") },
            trialEnd: [
              { guard: "cancelling", target: "#subscription.cancelled", actions: [...cancelled] },
              { target: "charging", actions: ["billTrialEnd", attempt] },
            ],
          },
        },
        charging: {
          on: {
            ...methods,
            "charge.succeeded": {
              target: "#subscription.active",
              actions: [...paid, emit("subscription.updated")],
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
          on: {
            reminder: { actions: remind },
            cancel: [
              {
                guard: "periodIsOverAndOwesUnits",
                target: "#subscription.ending",
                actions: ["cancelLater", ...billUnits],
              },
              { guard: "periodIsOver", target: "#subscription.cancelled", actions: ["cancelLater", ...cancelled] },
            ],
            update: [
              { guard: "periodIsOverAndOwesUnits", target: "#subscription.ending", actions: ["update", ...billUnits] },
              { guard: "periodIsOver", target: "#subscription.cancelled", actions: ["update", ...cancelled] },
            ],
            pause: {
              target: "#subscription.paused",
              actions: [endService("paused"), "pause", emit("subscription.paused")],
            },
            "charge.found": [
              { guard: "findsLast", target: "#subscription.ending", actions: ["takeBill", attempt] },
              { guard: "findsResumption", target: "resuming", actions: [...findResumption] },
              { guard: "findsDelivery", target: "charging", actions: [...findDelivery] },
              { guard: "findsBill", target: "charging", actions: ["takeBill", attempt] },
            ],
            deliver: [
              { guard: "cancelling", target: "#subscription.cancelled", actions: [...cancelled] },
              {
                target: "charging",
                actions: [
                  { type: "closePeriod", params: ({ event }) => ({ at: event.deliveredAt }) },
                  endService("delivered"),
                  "billDelivery",
                  attempt,
                ],
              },
            ],
          },
          after: {
            periodEnd: [
              { guard: "cancellingAndOwesUnits", target: "#subscription.ending", actions: [...billUnits] },
              { guard: "cancelling", target: "#subscription.cancelled", actions: [...cancelled] },
              { guard: "billedByCalendar", target: "charging", actions: ["billRenewal", attempt] },
            ],
          },
        },
        charging: {
          on: {
            ...methods,
            "charge.succeeded": { target: "current", actions: [...paid, emit("subscription.renewed")] },
            "charge.failed": { target: "#subscription.overdue", actions: [...fallOverdue] },
          },
        },
        /** Resumed; the charge for its new period is in progress. */
        resuming: {
          on: {
            ...methods,
            "charge.succeeded": { target: "current", actions: [...paid] },
            "charge.failed": { target: "#subscription.overdue", actions: [...fallOverdue] },
          },
        },
      },
    },

    /** Paused by request: nothing is charged. (A pause by escalation is a state of `overdue`.) */
    paused: {
      on: {
        resume: [...resumptions],
        "charge.found": [
          { guard: "findsLast", target: "ending", actions: ["takeBill", attempt] },
          { guard: "findsBill", target: "#subscription.active.resuming", actions: [...findResumed] },
        ],
        cancel: [
          { guard: "periodIsOverAndOwesUnits", target: "ending", actions: ["cancelLater", ...billUnits] },
          { guard: "periodIsOver", target: "cancelled", actions: ["cancelLater", ...cancelled] },
        ],
        update: [
          { guard: "periodIsOverAndOwesUnits", target: "ending", actions: ["update", ...billUnits] },
          { guard: "periodIsOver", target: "cancelled", actions: ["update", ...cancelled] },
          { actions: ["update", emit("subscription.updated")] },
        ],
      },
      after: {
        pausedPeriodEnd: [
          { guard: "cancellingAndOwesUnits", target: "ending", actions: [...billUnits] },
          { guard: "cancelling", target: "cancelled", actions: [...cancelled] },
        ],
        resume: [...resumptions],
      },
    },

    /** A bill is owed: dunning. The unpaid clock runs through all states in here (decision E7). */
    overdue: {
      initial: "deciding",
      after: {
        billPeriodEnd: [
          { guard: "cancellingAndOwesUnitsAndNoAttemptUnderWay", target: "ending", actions: [...billUnitsOwing] },
          { guard: "cancellingAndNoAttemptUnderWay", target: "cancelled", actions: [...cancelOwing] },
        ],
        unpaidTooLong: { guard: "noAttemptUnderWay", target: "cancelled", actions: [...writeOff] },
      },
      on: {
        cancel: [
          { guard: "cancelsNow", target: "cancelled", actions: [...cancelOwing] },
          { guard: "billedPeriodIsOverAndOwesUnits", target: "ending", actions: ["cancelLater", ...billUnitsOwing] },
          { guard: "billedPeriodIsOver", target: "cancelled", actions: ["cancelLater", ...cancelOwing] },
        ],
        update: [
          { guard: "billedPeriodIsOverAndOwesUnits", target: "ending", actions: ["update", ...billUnitsOwing] },
          { guard: "billedPeriodIsOver", target: "cancelled", actions: ["update", ...cancelOwing] },
          { actions: ["update", emit("subscription.updated")] },
        ],
        units: { guard: "inService", actions: "countUnits" },
        // Tries the bill now: by request (decision E16), or with a new payment method (decision E6).
        retry: { target: ".charging", actions: ["billAtRequest", attempt] },
        method: { target: ".charging", actions: ["billWithMethod", attempt] },
        "method.removed": { actions: "forgetMethod" },
        "charge.found": [
          { guard: "findsLast", target: "ending", actions: [...findLastOwing] },
          { guard: "findsFurther", target: ".charging", actions: ["takeAttempt", attempt] },
        ],
      },
      states: {
        deciding: {
          always: [
            {
              guard: "hasNextMethodAndRetryDue",
              target: "charging",
              actions: [emit("charge.retry_scheduled"), "billWithNextMethod", attempt],
            },
            { guard: "hasNextMethod", target: "charging", actions: ["billWithNextMethod", attempt] },
            { guard: "triedAtRequestAndRetryDue", target: "retrying" },
            { guard: "triedAtRequest", target: "waiting" },
            { guard: "retryDue", target: "retrying", actions: emit("charge.retry_scheduled") },
            { guard: "gaveUp", target: "waiting", actions: nudge("update_payment_method") },
            { guard: "escalated", target: "waiting" },
            {
              guard: "pauses",
              target: "waiting",
              actions: [
                "escalate",
                endService("escalated"),
                emit("subscription.escalated"),
                emit("subscription.paused"),
                nudge("service_paused"),
              ],
            },
            { guard: "escalatesSilently", target: "waiting", actions: "escalate" },
            { target: "waiting", actions: ["escalate", emit("subscription.escalated")] },
          ],
        },
        retrying: {
          on: { reminder: { actions: remind } },
          after: { nextRetry: { target: "charging", actions: ["billAgain", attempt] } },
        },
        charging: {
          on: {
            // One attempt at a time: the next waits for this one's failure.
            retry: {},
            "charge.found": {},
            ...methods,
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
                guard: "unpaidTooLongAndNothingToTry",
                target: "#subscription.cancelled",
                actions: [settle(), emit("charge.failed"), ...writeOff],
              },
              {
                guard: "cancellingAndBillPeriodIsOverAndOwesUnits",
                target: "#subscription.ending",
                actions: [settle(), emit("charge.failed"), ...billUnitsOwing],
              },
              {
                guard: "cancellingAndBillPeriodIsOver",
                target: "#subscription.cancelled",
                actions: [settle(), emit("charge.failed"), ...cancelOwing],
              },
              // Enters the state again, so that the timers delayed by this attempt are set again.
              { target: "#subscription.overdue", reenter: true, actions: [...failAgain] },
            ],
          },
        },
        /** No automatic attempt is left: it is paid by request, forgiven, written off, or cancelled for non-payment. */
        waiting: {
          on: {
            reminder: { actions: remind },
            "charge.found": [
              { guard: "findsLast", target: "#subscription.ending", actions: [...findLastOwing] },
              { guard: "findsFurther", target: "charging", actions: ["takeAttempt", attempt] },
              {
                guard: "findsResumptionAfterEscalation",
                target: "#subscription.active.resuming",
                actions: [...findResumedAfterEscalation],
              },
            ],
            // Forgiveness (decision E9): the debt is given up, and a new period starts, with the credit of an earlier resumption (E24).
            resume: [
              {
                guard: "resumesFreeAfterEscalation",
                target: "#subscription.active",
                actions: [post("written_off"), ...resumeFree],
              },
              {
                guard: "pausedByEscalation",
                target: "#subscription.active.resuming",
                actions: [post("written_off"), ...resumePaying],
              },
            ],
          },
        },
      },
    },

    /**
     * Its last period has ended, and the units of that period are charged, once (decision E34). It is cancelled after the result, paid or not;
     * until then it keeps its earlier status.
     */
    ending: {
      on: {
        cancel: { guard: "cancelsNowAndOwes", target: "cancelled", actions: [...cancelOwing] },
        "charge.succeeded": [
          { guard: "owes", target: "cancelled", actions: [...endPaidOwing] },
          { target: "cancelled", actions: [...endPaid] },
        ],
        "charge.failed": [
          { guard: "owes", target: "cancelled", actions: [...endUnpaidOwing] },
          { target: "cancelled", actions: [...endUnpaid] },
        ],
      },
    },

    /** Final. A pending payment may still succeed: it is owed back (decision E15). */
    cancelled: {
      on: {
        "charge.succeeded": { actions: [settle(true), emit("charge.succeeded")] },
        "charge.failed": { actions: [settle(), emit("charge.failed")] },
      },
    },
  },
})
