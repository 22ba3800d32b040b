/** The pages on which buyers pay for their instalment plans. */
import { Effect } from "effect"
import { isSaving } from "../../../machines/instalment.ts"
import { dueKobo, isPaidUp, missedKobo, mostKobo, nextOf, payableKobo } from "../../../machines/instalment_schedule.ts"
import { formatKobo } from "../../base/money.ts"
import type { ChargeRow } from "../../billing/charge/charge.ts"
import { orMade } from "../../http/failures.ts"
import { instalmentPaymentPage } from "../../pages/instalments.ts"
import { day } from "../../pages/words.ts"
import { type Declined, lateOf } from "../payment_page/declines.ts"
import { type FormState, formOf } from "../payment_page/form.ts"
import { openPageOf } from "../payment_page/hosted.ts"
import { payingRoutes, type SubmissionResult } from "../payment_page/routes.ts"
import { beginBy, cancelledDocument, completedDocument } from "./page.ts"
import { depositedKobo, instalmentPlans, naira, renderInstalmentPlan } from "./plan.ts"
import { type ReadPlan, readPlan } from "./read.ts"
import { cameTooLate, closedBecause, type Paid, submitInstalment } from "./submit.ts"

/** Returns the payment in progress, even of a cancelled plan, for which it is too late. */
const underWay = ({ plan, charge }: ReadPlan): ChargeRow | undefined =>
  plan.paying_charge_id !== null && charge?.status === "pending" ? charge : undefined

/** Whether a payment counts towards the plan. */
const counts = (charge: ChargeRow | undefined): boolean => charge?.status === "succeeded" && !charge.refund_due

const declineOf = (charge: ChargeRow): Declined | null =>
  charge.status === "failed"
    ? { code: charge.failure_code!, paidKobo: 0, pendingKobo: 0, failedKobo: charge.amount_kobo, ...lateOf([charge]) }
    : null

/** Returns the result of a submission; a program gets the plan as it is now. */
const endOf = Effect.fnUntraced(function* ({ path, token }: ReadPlan, paid: Paid) {
  if (paid.kind === "too_late") return paid satisfies SubmissionResult
  const page = openPageOf(paid.charge)
  if (paid.kind === "busy" && page === null)
    return { kind: "busy", since: paid.charge.created_at } satisfies SubmissionResult
  const declined = declineOf(paid.charge)
  if (declined !== null) return { kind: "declined", ...declined } satisfies SubmissionResult
  const reading = Effect.map(readPlan(token), (latest) => latest.plan)
  const plan = paid.kind === "tried" ? yield* orMade(reading, () => paid.plan) : yield* reading
  if (paid.charge.refund_due)
    return { kind: "too_late", refusal: cameTooLate(plan, paid.charge) } satisfies SubmissionResult
  const answer = {
    status: paid.charge.status === "succeeded" ? "paid" : "pending",
    amount: naira(paid.charge.amount_kobo),
    plan: renderInstalmentPlan(plan),
    ...(page === null ? {} : { redirect_url: page }),
  }
  // The rail's page is not open yet, so the buyer is not returning from it.
  const waiting = `${path}/pay/return${paid.charge.hosted ? "?look" : ""}`
  const goesTo = page ?? (paid.charge.status === "succeeded" ? `${path}?paid` : waiting)
  return { kind: "done", goesTo, answer } satisfies SubmissionResult
})

/** Describes the amount due now. */
const dueInWords = ({ plan }: ReadPlan): string => {
  const savings = instalmentPlans.contextOf(plan)
  const least = dueKobo(plan.mode, savings)
  const next = nextOf(savings)
  const fees = plan.pending_fee_kobo > 0 ? `, ${formatKobo(plan.pending_fee_kobo)} of it late fees` : ""
  const more = mostKobo(savings) > least ? " You can pay more, up to the rest." : ""
  if (missedKobo(savings) > 0) return `${formatKobo(least)} is late${fees}.${more}`
  if (plan.mode === "flexible" || next === undefined)
    return `Pay as much as you like, until ${day(plan.deadline_at)}: ${formatKobo(payableKobo(savings))} is left${fees}.`
  return `${formatKobo(least)} is due on ${day(next.dueAt)}${fees}.${more}`
}

const formPage = (read: ReadPlan, state: FormState): string => {
  const { plan, customer, context, saved, path } = read
  const savings = instalmentPlans.contextOf(plan)
  const [least, most] = [dueKobo(plan.mode, savings), mostKobo(savings)]
  const content = {
    amountKobo: least,
    purpose: "pay",
    details: null,
    saved,
    takesCards: context.simulated,
    asksEmail: !context.simulated && customer.email === null,
    chooses: {
      value: plan.mode === "flexible" && missedKobo(savings) === 0 ? "" : String(naira(least)),
      leastKobo: least,
      mostKobo: most,
      seenKobo: depositedKobo(plan),
    },
  } as const
  return instalmentPaymentPage({
    ...context,
    goods: plan.product_name,
    customerName: customer.name,
    paidKobo: plan.paid_kobo,
    targetKobo: plan.target_kobo,
    feeKobo: plan.pending_fee_kobo,
    beginBy: beginBy(plan, context.now),
    due: dueInWords(read),
    backPath: path,
    form: formOf(`${path}/pay`, content, state),
  })
}

export const instalmentPaymentRoutes = payingRoutes({
  prefix: "/save",
  suffix: "/pay",
  amountsIn: "naira",
  find: readPlan,
  context: ({ context }) => context,
  pageState: (read) => {
    if (!isSaving(read.plan.state)) return { kind: "over", status: read.plan.status === "cancelled" ? 410 : 200 }
    const charge = underWay(read)
    return charge === undefined ? { kind: "form" } : { kind: "under_way", charge }
  },
  status: (read) => {
    if (isSaving(read.plan.state)) return underWay(read) === undefined ? "open" : "pending"
    return isPaidUp(instalmentPlans.contextOf(read.plan)) ? "paid" : "closed"
  },
  // After a successful payment the buyer returns to the plan, which shows the progress.
  goesTo: (read) => (underWay(read) === undefined && counts(read.charge) ? `${read.path}?paid` : null),
  asksDetails: () => false,
  asksEmail: ({ customer }) => customer.email === null,
  underWay,
  leadsTo: () => [],
  form: (read, state) => Effect.succeed(formPage(read, state)),
  over: (read) => Effect.succeed(read.plan.status === "cancelled" ? cancelledDocument(read) : completedDocument(read)),
  refusal: ({ plan }) => Effect.succeed(closedBecause(plan)!),
  lastDecline: ({ charge }) => Effect.succeed(charge === undefined ? null : declineOf(charge)),
  submit: (read, submitted) =>
    Effect.flatMap(submitInstalment(read.plan, submitted, read.context.hostedBy), (paid) => endOf(read, paid)),
})
