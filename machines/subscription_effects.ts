/**
 * What the transitions of a subscription do, by name: the effects with their parameters, those that go together, and transitions
 * that several states have in common. Which happens where is in machines/subscription.ts.
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

type Known = { readonly context: SubscriptionContext }
type Moment = Known & { readonly event: SubscriptionEvent }

export const emit = (type: SubscriptionEventType, state?: string) =>
  ({
    type: "emit",
    params: ({ context }: Known): Emission => ({ type, context, ...(state === undefined ? {} : { state }) }),
  }) as const
/** A charge that was the last of its bill, or of the subscription. */
export const settle = (refundDue = false) =>
  ({ type: "settleCharge", params: (): Settlement => ({ willRetry: false, nextRetryAt: null, refundDue }) }) as const
/** A failed charge, with the retry that its failure leads to. */
const settleFailed = {
  type: "settleCharge",
  params: ({ context }: Known): Settlement => ({
    willRetry: context.dunning!.nextRetryAt !== null,
    nextRetryAt: context.dunning!.nextRetryAt,
    refundDue: false,
  }),
} as const
export const post = (posting: Posting) =>
  ({ type: "post", params: ({ context }: Known) => ({ posting, bill: context.bill! }) }) as const
export const attempt = { type: "attemptCharge", params: ({ context }: Known) => context.bill! } as const

/** The customer is reminded by itself (decisions E6, H4): src/outbound/nudge has the words. */
export const nudge = (template: AutomaticTemplate) => ({ type: "nudge", params: { template } }) as const
export const remind = {
  type: "remind",
  params: ({ event }: { readonly event: SubscriptionEvent }) => reminderOf(event),
} as const

export const paid = [settle(), post("paid"), emit("charge.succeeded"), "payPeriod"] as const
/** When service ends by an event: by that of a found attempt, where the bill's period begins. */
const endedAt = (event: SubscriptionEvent): number => {
  if (event.type === "deliver") return event.deliveredAt
  return event.type === "charge.found" ? event.bill.periodStart : event.at
}

/** What is credited of the period that ends: a found bill says it itself. */
const creditOf = ({ context, event }: Moment): number => {
  if (event.type === "pause") return creditKobo(context, event.at, event.proRate ?? false)
  return event.type === "charge.found" ? creditedIn(event.bill.lines) : 0
}

/** Nothing more is served: what was paid for and is not credited is kept. */
export const endService = (reason: ServiceEndReason) =>
  ({
    type: "endService",
    params: (moment: Moment): ServiceEnd => ({ reason, at: endedAt(moment.event), creditKobo: creditOf(moment) }),
  }) as const
export const cancelled = ["cancelNow", emit("subscription.cancelled"), endService("cancelled")] as const
/** The last bill, over the units of the last period (decision E34). */
export const billUnits = ["billLast", attempt] as const
/** The same of what is overdue: that is given up, and what the units cost is owed in its place. */
export const billUnitsOwing = [post("written_off"), "billLast", post("owed"), attempt] as const
/** The subscription ends once its last bill is answered, paid or not. */
export const endPaid = [settle(), post("paid"), emit("charge.succeeded"), ...cancelled] as const
export const endUnpaid = [settle(), post("owed"), post("written_off"), emit("charge.failed"), ...cancelled] as const
export const endPaidOwing = [settle(), post("overdue_paid"), emit("charge.succeeded"), ...cancelled] as const
export const endUnpaidOwing = [settle(), post("written_off"), emit("charge.failed"), ...cancelled] as const
/** A trial shorter than the notice: it is given at once. */
export const shortTrial = [emit("subscription.trial_will_end")] as const
/** A payment of the first bill that fails ends the subscription (decision D5). */
export const neverStarted = [settle(), "cancelUnpaid", emit("charge.failed"), emit("subscription.cancelled")] as const
/** The first failure of a bill: it is owed from now on. */
export const fallOverdue = [
  "recordFailure",
  settleFailed,
  post("owed"),
  emit("charge.failed"),
  emit("subscription.past_due"),
] as const
/** Immediate cancellation, or at a period end that has come, of what is owed. */
export const cancelOwing = [post("written_off"), "cancelNow", emit("subscription.cancelled")] as const
/** Unpaid for as long as the plan waits. */
export const writeOff = [post("written_off"), "cancelUnpaid", emit("subscription.cancelled")] as const
/** A further attempt fails: the bill is owed as before. */
export const failAgain = ["recordFailure", settleFailed, emit("charge.failed")] as const
/** A new payment method waits for the attempt under way; one that is removed is not waited for. */
export const methods = {
  method: { actions: "keepMethodForNext" },
  "method.removed": { actions: "forgetMethod" },
} as const

/** The method that pays is the subscription's from then on. */
export const adopt = {
  type: "adoptMethod",
  params: ({ context, event }: Known & { readonly event: SubscriptionEvent }) => ({
    methodId:
      event.type === "charge.succeeded" && event.methodId !== undefined ? event.methodId : context.bill!.methodId,
  }),
} as const

/** An overdue bill is paid after all (decision E8). */
export const recover = [
  settle(),
  post("overdue_paid"),
  emit("charge.succeeded"),
  adopt,
  "recoverPeriod",
  emit("subscription.recovered"),
] as const

/** The trial begins when the checkout session is completed, however long that was open. */
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

/** The period that was paused ends where it was (decision E11). */
const closePaused = { type: "closePeriod", params: ({ context }: Known) => ({ at: context.pause!.at }) } as const
/** A total that is too small to charge is waived (decision E2). */
export const resumeFree = ["billResume", post("waived"), "payPeriod", emit("subscription.resumed")] as const
export const resumePaying = ["billResume", emit("subscription.resumed"), attempt] as const
export const resumptions = [
  { guard: "resumesFree", target: "#subscription.active", actions: [closePaused, ...resumeFree] },
  { target: "#subscription.active.resuming", actions: [closePaused, ...resumePaying] },
] as const

/** What a bill that was found at its rail begins ends the period before it, as the lost event did (decision F9). */
const closeBefore = {
  type: "closePeriod",
  params: ({ event }: { readonly event: SubscriptionEvent }) => ({ at: foundBill(event).periodStart }),
} as const
export const findResumption = [closeBefore, endService("paused"), "takeResumption", attempt] as const
export const findDelivery = [closeBefore, endService("delivered"), "takeBill", attempt] as const
/** The pause that it ends is known. */
export const findResumed = [closePaused, "takeResumption", emit("subscription.resumed"), attempt] as const
export const findLastOwing = [post("written_off"), "takeBill", post("owed"), attempt] as const
export const findResumedAfterEscalation = [
  post("written_off"),
  "forgive",
  "takeResumption",
  emit("subscription.resumed"),
  attempt,
] as const
