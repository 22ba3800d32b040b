/**
 * The effects of a subscription's transitions, by name: effects with their parameters, groups of effects, and transitions that several
 * states share. machines/subscription.ts says when each happens.
 */

import { creditedIn } from "./billing.ts"
import type {
  AutomaticTemplate,
  Posting,
  ServiceEnd,
  ServiceEndReason,
  Settlement,
  SubscriptionEvent,
  SubscriptionEventType,
} from "./events.ts"
import { creditKobo, type SubscriptionContext } from "./periods.ts"
import { type Emission, foundBill, reminderOf } from "./subscription_setup.ts"

type WithContext = { readonly context: SubscriptionContext }
type Moment = WithContext & { readonly event: SubscriptionEvent }

export const emit = (type: SubscriptionEventType, state?: string) =>
  ({
    type: "emit",
    params: ({ context }: WithContext): Emission => ({ type, context, ...(state === undefined ? {} : { state }) }),
  }) as const
/** Settles a charge that was the last of its bill or of the subscription. */
export const settle = (refundDue = false) =>
  ({ type: "settleCharge", params: (): Settlement => ({ willRetry: false, nextRetryAt: null, refundDue }) }) as const
/** Settles a failed charge, with its next retry. */
const settleFailed = {
  type: "settleCharge",
  params: ({ context }: WithContext): Settlement => ({
    willRetry: context.dunning!.nextRetryAt !== null,
    nextRetryAt: context.dunning!.nextRetryAt,
    refundDue: false,
  }),
} as const
export const post = (posting: Posting) =>
  ({ type: "post", params: ({ context }: WithContext) => ({ posting, bill: context.bill! }) }) as const
export const attempt = { type: "attemptCharge", params: ({ context }: WithContext) => context.bill! } as const

/** Sends an automatic reminder (decisions E6, H4); src/outbound/nudge has the texts. */
export const nudge = (template: AutomaticTemplate) => ({ type: "nudge", params: { template } }) as const
export const remind = {
  type: "remind",
  params: ({ event }: { readonly event: SubscriptionEvent }) => reminderOf(event),
} as const

export const paid = [settle(), post("paid"), emit("charge.succeeded"), "payPeriod"] as const
/** When an event ends service: for a found attempt, at the start of the bill's period. */
const endedAt = (event: SubscriptionEvent): number => {
  if (event.type === "deliver") return event.deliveredAt
  return event.type === "charge.found" ? event.bill.periodStart : event.at
}

/** The credit of the period that ends; a found bill contains it. */
const creditOf = ({ context, event }: Moment): number => {
  if (event.type === "pause") return creditKobo(context, event.at, event.proRate ?? false)
  return event.type === "charge.found" ? creditedIn(event.bill.lines) : 0
}

/** Ends service: the paid part that is not credited is kept. */
export const endService = (reason: ServiceEndReason) =>
  ({
    type: "endService",
    params: (moment: Moment): ServiceEnd => ({ reason, at: endedAt(moment.event), creditKobo: creditOf(moment) }),
  }) as const
export const cancelled = ["cancelNow", emit("subscription.cancelled"), endService("cancelled")] as const
/** The last bill, over the units of the last period (decision E34). */
export const billUnits = ["billLast", attempt] as const
/** The same for an overdue subscription: the overdue bill is written off, and the units are owed instead. */
export const billUnitsOwing = [post("written_off"), "billLast", post("owed"), attempt] as const
/** Ends the subscription after the result of its last bill, paid or not. */
export const endPaid = [settle(), post("paid"), emit("charge.succeeded"), ...cancelled] as const
export const endUnpaid = [settle(), post("owed"), post("written_off"), emit("charge.failed"), ...cancelled] as const
export const endPaidOwing = [settle(), post("overdue_paid"), emit("charge.succeeded"), ...cancelled] as const
export const endUnpaidOwing = [settle(), post("written_off"), emit("charge.failed"), ...cancelled] as const
/** For a trial shorter than the notice, the notice is sent immediately. */
export const shortTrial = [emit("subscription.trial_will_end")] as const
/** A failed payment of the first bill ends the subscription (decision D5). */
export const neverStarted = [settle(), "cancelUnpaid", emit("charge.failed"), emit("subscription.cancelled")] as const
/** The first failure of a bill: it is owed from now on. */
export const fallOverdue = [
  "recordFailure",
  settleFailed,
  post("owed"),
  emit("charge.failed"),
  emit("subscription.past_due"),
] as const
/** Cancels an overdue subscription: immediately, or at a period end that has come. */
export const cancelOwing = [post("written_off"), "cancelNow", emit("subscription.cancelled")] as const
/** Cancels a subscription that is unpaid for longer than the plan allows. */
export const writeOff = [post("written_off"), "cancelUnpaid", emit("subscription.cancelled")] as const
/** A further attempt fails: the bill is owed as before. */
export const failAgain = ["recordFailure", settleFailed, emit("charge.failed")] as const
/** A new payment method waits for the result of the current attempt; a removed method is dropped. */
export const methods = {
  method: { actions: "keepMethodForNext" },
  "method.removed": { actions: "forgetMethod" },
} as const

/** The method that paid becomes the subscription's. */
export const adopt = {
  type: "adoptMethod",
  params: ({ context, event }: WithContext & { readonly event: SubscriptionEvent }) => ({
    methodId:
      event.type === "charge.succeeded" && event.methodId !== undefined ? event.methodId : context.bill!.methodId,
  }),
} as const

/** An overdue bill is paid (decision E8). */
export const recover = [
  settle(),
  post("overdue_paid"),
  emit("charge.succeeded"),
  adopt,
  "recoverPeriod",
  emit("subscription.recovered"),
] as const

/** Starts the trial when the checkout session is completed, not when it was opened. */
export const beginTrial = [
  "beginTrial",
  {
    type: "adoptMethod",
    params: ({ event }: { readonly event: SubscriptionEvent }) => ({
      methodId: event.type === "check_out" ? event.methodId : null,
    }),
  },
  emit("subscription.updated"),
] as const

/** Ends the paused period at the time of the pause (decision E11). */
const closePaused = { type: "closePeriod", params: ({ context }: WithContext) => ({ at: context.pause!.at }) } as const
/** A total that is too small to charge is waived (decision E2). */
export const resumeFree = ["billResume", post("waived"), "payPeriod", emit("subscription.resumed")] as const
export const resumePaying = ["billResume", emit("subscription.resumed"), attempt] as const
export const resumptions = [
  { guard: "resumesFree", target: "#subscription.active", actions: [closePaused, ...resumeFree] },
  { target: "#subscription.active.resuming", actions: [closePaused, ...resumePaying] },
] as const

/** Ends the period before a bill that was found at its rail, as the lost event did (decision F9). */
const closeBefore = {
  type: "closePeriod",
  params: ({ event }: { readonly event: SubscriptionEvent }) => ({ at: foundBill(event).periodStart }),
} as const
export const findResumption = [closeBefore, endService("paused"), "takeResumption", attempt] as const
export const findDelivery = [closeBefore, endService("delivered"), "takeBill", attempt] as const
/** The resumption of a pause that the database has. */
export const findResumed = [closePaused, "takeResumption", emit("subscription.resumed"), attempt] as const
export const findLastOwing = [post("written_off"), "takeBill", post("owed"), attempt] as const
export const findResumedAfterEscalation = [
  post("written_off"),
  "forgive",
  "takeResumption",
  emit("subscription.resumed"),
  attempt,
] as const
