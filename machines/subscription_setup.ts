/** The actions, delays and guards of the machine in machines/subscription.ts. */
import { and, assign, not, or, setup, stateIn } from "xstate"
import { MIN_CHARGE_KOBO, NO_USAGE, totalOf, type Usage } from "./billing.ts"
import { afterFailure, type Dunning, ESCALATIONS, unpaidDeadline } from "./dunning.ts"
import type {
  AutomaticTemplate,
  PlanFacts,
  Posting,
  ServiceEnd,
  Settlement,
  SubscriptionEvent,
  SubscriptionEventType,
  SubscriptionInput,
} from "./events.ts"
import {
  type Bill,
  billFor,
  deliveryLines,
  endOfPeriod,
  firstPeriod,
  isShortTrial,
  lastLines,
  nextPeriod,
  paidPeriod,
  periodOf,
  planLines,
  recoveredPeriod,
  resumeLines,
  SETTLED,
  type SubscriptionContext,
  TRIAL_NOTICE_MS,
} from "./periods.ts"
import type { Reminder } from "./reminders.ts"

type Context = SubscriptionContext
type Moment = { readonly context: Context; readonly event: SubscriptionEvent }

/** An event to emit, with the context at that point of the transition. */
export interface Emission {
  readonly type: SubscriptionEventType
  readonly context: Context
  /** The state to show; by default the target state of the transition. */
  readonly state?: string
}

/** A due reminder of the plan's schedule. */
export interface Reminded {
  readonly template: AutomaticTemplate
  readonly rule: Reminder["rule"]
  readonly day: number
}

export const reminderOf = (event: SubscriptionEvent): Reminded => {
  if (event.type !== "reminder") throw new Error(`Not a reminder: ${event.type}`)
  const { rule, day } = event
  return { template: rule === "pre_due" ? "payment_due" : "payment_failed", rule, day }
}

/** The plan facts of an event; absent ones do not matter to it. */
const factsOf = (event: SubscriptionEvent): Required<PlanFacts> => ({
  unitKobo: ("unitKobo" in event ? event.unitKobo : undefined) ?? 0,
  proRate: ("proRate" in event ? event.proRate : undefined) ?? false,
})

const usageOf = (context: Context, event: SubscriptionEvent): Usage => ({
  units: context.units,
  unitKobo: factsOf(event).unitKobo,
})

const linesOfResume = ({ context, event }: Moment) =>
  resumeLines(context, factsOf(event).proRate, usageOf(context, event))

const failureOf = (context: Context, event: SubscriptionEvent): Dunning => {
  if (event.type !== "charge.failed") throw new Error(`Not a failure: ${event.type}`)
  const { attemptedAt: dueAt, origin } = context.bill!
  const { at: failedAt, attemptedAt = dueAt, retryable, retryNotBefore = null } = event
  return afterFailure(context.dunning, event.policy, { failedAt, attemptedAt, origin, retryable, retryNotBefore })
}

/** The due time of the retry that another attempt (by request, or with a new method) delays; Infinity if there is none. */
const postponedRetryAt = ({ bill, dunning }: Context, event: SubscriptionEvent): number => {
  const { origin, attemptedAt } = bill!
  const dueAt = dunning!.nextRetryAt ?? Number.POSITIVE_INFINITY
  const isWithMethod = origin === "method" && event.type === "charge.failed" && event.retryable && attemptedAt <= dueAt
  return origin === "request" || isWithMethod ? dueAt : Number.POSITIVE_INFINITY
}

/** Replaces the current bill. */
const bill = (made: Bill, over: Partial<Context> = {}): Partial<Context> => ({
  ...over,
  bill: made,
  billsMade: made.no,
  units: 0,
})

const furtherAttempt = ({ bill }: Context, at: number, how: Partial<Bill>): Bill => ({
  ...bill!,
  attempt: bill!.attempt + 1,
  attemptedAt: at,
  ...how,
})

/** Whether an event asks to cancel at the period's end, and no earlier event did. */
const asksForPeriodEnd = ({ cancelAtPeriodEnd }: Context, event: SubscriptionEvent): boolean =>
  !cancelAtPeriodEnd &&
  (event.type === "cancel" ? event.atPeriodEnd : event.type === "update" && event.cancelAtPeriodEnd === true)

/** The bill of an attempt that was found at its rail. */
export const foundBill = (event: SubscriptionEvent): Bill => {
  if (event.type !== "charge.found") throw new Error(`No attempt was found: ${event.type}`)
  return event.bill
}

/** Whether a found attempt belongs to a bill that the subscription has not made. */
const isOfNewBill = ({ context, event }: Moment): boolean =>
  event.type === "charge.found" && event.bill.no > context.billsMade

/** Whether a found attempt is a further attempt at the current bill. */
const isFurther = ({ context: { bill }, event }: Moment): boolean =>
  event.type === "charge.found" &&
  bill !== null &&
  event.bill.no === bill.no &&
  event.bill.attempt > bill.attempt &&
  event.bill.amountKobo === bill.amountKobo

const reasonOf = (event: SubscriptionEvent) => (event.type === "cancel" ? event.reason : "merchant_request")

/** Whether the units of the last period have to be charged (decision E34). */
const owesUnits = ({ context, event }: Moment): boolean => lastLines(context, usageOf(context, event)) !== undefined

/** An attempt in progress may still save the subscription: its failure decides (decision E21). */
const noAttemptUnderWay = not(stateIn({ overdue: "charging" }))

export const subscriptionSetup = setup({
  types: {} as { context: Context; events: SubscriptionEvent; input: SubscriptionInput },
  actions: {
    // Effects: named here, carried out by src/billing/subscription.
    attemptCharge: (_, _params: Bill) => {},
    settleCharge: (_, _params: Settlement) => {},
    emit: (_, _params: Emission) => {},
    nudge: (_, _params: { readonly template: AutomaticTemplate }) => {},
    remind: (_, _params: Reminded) => {},
    post: (_, _params: { readonly posting: Posting; readonly bill: Bill }) => {},
    /** Ends service of the paid or owed period (machines/events.ts). */
    endService: (_, _params: ServiceEnd) => {},
    /** Ends the paid period here: the rest is credited, or was delivered. */
    closePeriod: (_, _params: { readonly at: number }) => {},
    /** The method that paid an overdue bill becomes the subscription's (decision E16). */
    adoptMethod: (_, _params: { readonly methodId: string | null }) => {},
    // Bills.
    billFirst: assign(({ context }) => {
      const period = firstPeriod(context.billingCycle, context.startAt)
      const made = billFor(context, "first", period, context.startAt, planLines(context, NO_USAGE))
      return bill(made, { ...period, periodNo: -1 })
    }),
    /**
     * The first bill of a checkout, from the time of this try: the buyer does not pay for the time that the page was open. The period
     * becomes the subscription's when it is paid.
     */
    billCheckout: assign(({ context, event }) => {
      const period = firstPeriod(context.billingCycle, event.at)
      const made = billFor(context, "first", period, event.at, planLines(context, NO_USAGE))
      const methodId = event.type === "check_out" ? event.methodId : null
      const tried = context.bill
      const again = tried === null ? {} : { no: tried.no, attempt: tried.attempt + 1 }
      return bill({ ...made, ...again, origin: "request", methodId })
    }),
    beginTrial: assign(({ context, event }) => {
      const trialEnd = event.at + (context.trialEnd! - context.startAt)
      return { trialEnd, anchorAt: trialEnd, periodStart: event.at, periodEnd: trialEnd }
    }),
    billTrialEnd: assign(({ context }) => {
      const period = firstPeriod(context.billingCycle, context.trialEnd!)
      // Units reported during a trial are free (decision E1).
      return bill(billFor(context, "trial_end", period, context.trialEnd!, planLines(context, NO_USAGE)))
    }),
    billRenewal: assign(({ context, event }) => {
      const lines = planLines(context, usageOf(context, event))
      return bill(billFor(context, "renewal", nextPeriod(context), context.periodEnd, lines))
    }),
    billDelivery: assign(({ context, event }) => {
      if (event.type !== "deliver") throw new Error(`Not a delivery: ${event.type}`)
      const period = firstPeriod(context.billingCycle, event.deliveredAt)
      return bill(billFor(context, "renewal", period, event.at, deliveryLines(context, event.deliveries)))
    }),
    /** The bill for the units of the last period, after its end (decision E34). */
    billLast: assign(({ context, event }) => {
      const lines = lastLines(context, usageOf(context, event)) ?? []
      const made = billFor(context, "last", endOfPeriod(context), event.at, lines)
      return bill({ ...made, methodId: context.bill?.standIn ?? null })
    }),
    /** A new period, on a new grid, from the instant of resuming (decision E11). */
    billResume: assign(({ context, event }) => {
      const period = firstPeriod(context.billingCycle, event.at)
      const made = billFor(context, "resume", period, event.at, linesOfResume({ context, event }))
      return bill(made, { ...period, periodQuantity: context.quantity, pause: null, dunning: null, escalation: null })
    }),
    /** Runs at its due time, or after the failure of an attempt that delayed it. */
    billAgain: assign(({ context, event }) => ({
      bill: furtherAttempt(context, event.at, { origin: "schedule", methodId: context.bill!.standIn }),
    })),
    billAtRequest: assign(({ context, event }) => {
      const methodId = event.type === "retry" ? (event.methodId ?? context.bill!.standIn) : null
      return { bill: furtherAttempt(context, event.at, { origin: "request", methodId }) }
    }),
    billWithMethod: assign(({ context, event }) => {
      const methodId = event.type === "method" ? event.methodId : null
      return { bill: furtherAttempt(context, event.at, { origin: "method", methodId, standIn: methodId }) }
    }),
    keepMethodForNext: assign(({ context, event }) => ({
      bill: { ...context.bill!, nextMethod: event.type === "method" ? { methodId: event.methodId } : null },
    })),
    forgetMethod: assign(({ context, event }) => {
      if (event.type !== "method.removed") return {}
      const { nextMethod, standIn } = context.bill!
      const gone = event.methodId
      return {
        bill: {
          ...context.bill!,
          nextMethod: nextMethod?.methodId === gone ? null : nextMethod,
          standIn: standIn === gone ? null : standIn,
        },
      }
    }),
    billWithNextMethod: assign(({ context, event }) => {
      const { methodId } = context.bill!.nextMethod!
      return {
        bill: furtherAttempt(context, event.at, { origin: "method", methodId, standIn: methodId, nextMethod: null }),
      }
    }),
    // Bills of attempts that were found at their rail (decision F9).
    takeBill: assign(({ event }) => bill(foundBill(event))),
    /** The first bill: the subscription gets its period, which is not paid yet. */
    takeFirst: assign(({ event }) => {
      const made = foundBill(event)
      return bill(made, { ...periodOf(made), periodNo: -1 })
    }),
    takeResumption: assign(({ event }) => {
      const made = foundBill(event)
      return bill(made, { ...periodOf(made), periodQuantity: made.quantity, pause: null })
    }),
    takeAttempt: assign(({ context, event }) => {
      const { attempt, attemptedAt, origin, methodId } = foundBill(event)
      const standIn = origin === "method" ? methodId : context.bill!.standIn
      return { bill: { ...context.bill!, attempt, attemptedAt, origin, methodId, standIn, nextMethod: null } }
    }),
    // Payments.
    payPeriod: assign(({ context }) => ({ ...paidPeriod(context.bill!), ...SETTLED })),
    recoverPeriod: assign(({ context, event }) => ({ ...recoveredPeriod(context, event.at), ...SETTLED })),
    forgive: assign(SETTLED),
    recordFailure: assign(({ context, event }) => ({ dunning: failureOf(context, event) })),
    escalate: assign(({ context, event }) => ({
      escalation: { action: ESCALATIONS[context.dunning!.policy.escalation], triggeredAt: event.at },
    })),
    // Everything else.
    /** Units of a trial are free, also while its payment is in progress (decision E1). */
    dropUnits: assign({ units: 0 }),
    countUnits: assign(({ context, event }) => {
      if (event.type !== "units") return {}
      return { units: event.action === "set" ? event.quantity : context.units + event.quantity }
    }),
    pause: assign(({ event }) => ({
      pause: event.type === "pause" ? { at: event.at, resumesAt: event.resumesAt } : null,
    })),
    update: assign(({ context, event }) => {
      if (event.type !== "update") return {}
      const { quantity = context.quantity, cancelAtPeriodEnd = context.cancelAtPeriodEnd } = event
      const asked = cancelAtPeriodEnd !== context.cancelAtPeriodEnd
      const cancelReason = cancelAtPeriodEnd ? reasonOf(event) : null
      return { quantity, ...(asked ? { cancelAtPeriodEnd, cancelReason } : {}) }
    }),
    cancelLater: assign(({ event }) => ({ cancelAtPeriodEnd: true, cancelReason: reasonOf(event) })),
    cancelNow: assign(({ context, event }) => ({
      cancelledAt: event.at,
      cancellationReason: event.type === "cancel" || event.type === "update" ? reasonOf(event) : context.cancelReason,
      bill: null,
      dunning: null,
      pause: null,
    })),
    cancelExpired: assign(({ event }) => ({
      cancelledAt: event.at,
      cancellationReason: "checkout_expired" as const,
      bill: null,
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
    periodEnd: ({ context, event }) => context.periodEnd - event.at,
    pausedPeriodEnd: ({ context, event }) => context.periodEnd - event.at,
    resume: ({ context, event }) => (context.pause!.resumesAt ?? Number.POSITIVE_INFINITY) - event.at,
    nextRetry: ({ context, event }) => context.dunning!.nextRetryAt! - event.at,
    billPeriodEnd: ({ context, event }) => context.bill!.periodEnd - event.at,
    unpaidTooLong: ({ context, event }) => unpaidDeadline(context.dunning!) - event.at,
  },
  guards: {
    waitsForCheckout: ({ event }) => event.type === "create" && event.checkout === true,
    startsLater: ({ context, event }) => context.startAt > event.at,
    hasTrial: ({ context }) => context.trialEnd !== null,
    hasShortTrial: ({ context }) => context.trialEnd !== null && isShortTrial(context),
    /** A delivery plan has no calendar: its period's end only ends a cancelled subscription (decision D8). */
    billedByCalendar: ({ context }) => context.billingCycle !== "per_delivery",
    resumesFree: (moment) => totalOf(linesOfResume(moment)) < MIN_CHARGE_KOBO,
    resumesFreeAfterEscalation: (moment) =>
      moment.context.escalation?.action === "pause" && totalOf(linesOfResume(moment)) < MIN_CHARGE_KOBO,
    cancelling: ({ context }) => context.cancelAtPeriodEnd && context.cancelledAt === null,
    owesUnits,
    cancellingAndOwesUnits: and(["cancelling", "owesUnits"]),
    owes: ({ context }) => context.dunning !== null,
    cancelsNowAndOwes: and(["cancelsNow", "owes"]),
    findsBill: isOfNewBill,
    findsLast: (moment) => isOfNewBill(moment) && foundBill(moment.event).purpose === "last",
    findsFirstBill: (moment) => isOfNewBill(moment) || isFurther(moment),
    findsFurther: isFurther,
    findsResumption: (moment) => isOfNewBill(moment) && foundBill(moment.event).purpose === "resume",
    findsDelivery: (moment) => isOfNewBill(moment) && moment.context.billingCycle === "per_delivery",
    findsResumptionAfterEscalation: (moment) => isOfNewBill(moment) && moment.context.escalation?.action === "pause",
    retryDue: ({ context }) => context.dunning!.nextRetryAt !== null,
    triedAtRequest: ({ context }) => context.bill!.origin === "request",
    triedAtRequestAndRetryDue: ({ context }) =>
      context.bill!.origin === "request" && context.dunning!.nextRetryAt !== null,
    hasNextMethod: ({ context }) => context.bill!.nextMethod !== null,
    /** This failure scheduled a retry, and a new method makes it immediately. */
    hasNextMethodAndRetryDue: ({ context }) =>
      context.bill!.nextMethod !== null && context.bill!.origin !== "request" && context.dunning!.nextRetryAt !== null,
    gaveUp: ({ context }) => context.dunning!.gaveUp,
    escalated: ({ context }) => context.escalation !== null,
    pauses: ({ context }) => context.dunning!.policy.escalation === "pause_service",
    escalatesSilently: ({ context }) => context.dunning!.policy.escalation === "none",
    pausedByEscalation: ({ context }) => context.escalation?.action === "pause",
    inService: ({ context }) => context.escalation?.action !== "pause",
    /**
     * The unpaid clock ran out during the attempt, and nothing is left to try. Attempts planned before the deadline come first: a waiting
     * method, or a retry delayed by an attempt by request or with a new method (decision E21). At the exact deadline the timer cancels (E19).
     */
    unpaidTooLongAndNothingToTry: ({ context, event }) => {
      const { bill, dunning } = context
      const deadline = unpaidDeadline(dunning!)
      return event.at > deadline && bill!.nextMethod === null && postponedRetryAt(context, event) > deadline
    },
    cancelsNow: ({ context, event }) => event.type === "cancel" && !event.atPeriodEnd && context.cancelledAt === null,
    cancelsLater: ({ context }) => !context.cancelAtPeriodEnd && context.cancelledAt === null,
    /** Requested again, with another reason (decision E13). */
    changesReason: ({ context, event }) =>
      event.type === "cancel" &&
      event.atPeriodEnd &&
      context.cancelAtPeriodEnd &&
      context.cancelledAt === null &&
      event.reason !== context.cancelReason,
    notOver: ({ context }) => context.cancelledAt === null,
    /** Cancelling at the end of a period that has already ended is immediate cancellation (decision E12). */
    periodIsOver: ({ context, event }) => asksForPeriodEnd(context, event) && context.periodEnd <= event.at,
    periodIsOverAndOwesUnits: and(["periodIsOver", "owesUnits"]),
    /**
     * An unpaid subscription uses the period of its bill, when no attempt is in progress (decision E21); a paused one uses its last
     * period.
     */
    billedPeriodIsOver: and([
      or([noAttemptUnderWay, ({ context }: Moment) => context.escalation?.action === "pause"]),
      ({ context, event }: Moment) =>
        asksForPeriodEnd(context, event) &&
        (context.escalation?.action === "pause" ? context.periodEnd : context.bill!.periodEnd) <= event.at,
    ]),
    billedPeriodIsOverAndOwesUnits: and(["billedPeriodIsOver", noAttemptUnderWay, "owesUnits"]),
    cancellingAndBillPeriodIsOver: ({ context, event }) =>
      context.cancelAtPeriodEnd && context.bill!.periodEnd <= event.at,
    cancellingAndBillPeriodIsOverAndOwesUnits: and(["cancellingAndBillPeriodIsOver", "owesUnits"]),
    noAttemptUnderWay,
    cancellingAndNoAttemptUnderWay: and(["cancelling", noAttemptUnderWay]),
    cancellingAndOwesUnitsAndNoAttemptUnderWay: and(["cancellingAndOwesUnits", noAttemptUnderWay]),
  },
})
