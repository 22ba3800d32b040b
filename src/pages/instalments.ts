/** Renders the pages of a buyer's instalment plan: its progress and next payment, paying, and cancelling. */
import { formatKobo } from "../base/money.ts"
import { type Html, html } from "./html.ts"
import { layout } from "./layout.ts"
import { errorSummary, paymentForm, titled } from "./paymentForm.ts"
import { testCards } from "./testCards.ts"
import type { CancelInstalmentsView, InstalmentPaymentView, InstalmentShown, InstalmentView } from "./views.ts"
import { day, dayAndHour, kept } from "./words.ts"

const percent = (paidKobo: number, targetKobo: number): number => Math.floor((paidKobo / targetKobo) * 100)

/** Renders the progress, as a bar and in words. */
const progress = ({
  paidKobo,
  targetKobo,
  feeKobo,
}: Pick<InstalmentView, "paidKobo" | "targetKobo" | "feeKobo">): Html => {
  const late = feeKobo > 0 ? `, ${formatKobo(feeKobo)} of it for being late` : ""
  const left = `${formatKobo(targetKobo - paidKobo + feeKobo)} to go${late}`
  return html`<div class="progress">
<p><strong>${formatKobo(paidKobo)}</strong> of ${formatKobo(targetKobo)}<span class="quiet">${percent(paidKobo, targetKobo)} %</span></p>
<progress max="${targetKobo}" value="${paidKobo}" aria-label="Paid so far">${percent(paidKobo, targetKobo)} %</progress>
<p class="quiet small">${paidKobo === 0 ? "Your first payment begins it." : `${left}, and it is yours.`}</p>
</div>
`
}

const STATUS: Readonly<Record<InstalmentShown["status"], string>> = {
  paid: "Paid",
  missed: "Late",
  scheduled: "To come",
}

const row = ({ index, dueAt, amountKobo, status, isNext }: InstalmentShown): Html =>
  html`<tr class="${isNext && "next"}"><th scope="row">${index}</th><td>${day(dueAt)}</td><td>${formatKobo(amountKobo)}</td><td class="${status}">${isNext && status === "scheduled" ? "Next" : STATUS[status]}</td></tr>
`

/** Most instalments that a page shows: daily plans have hundreds. */
const SHOWN = 24

/** Returns the instalments around the next one, if there are many. */
const window = (all: ReadonlyArray<InstalmentShown>): ReadonlyArray<InstalmentShown> => {
  const next = Math.max(
    0,
    all.findIndex(({ isNext }) => isNext),
  )
  const from = Math.max(0, Math.min(next - 3, all.length - SHOWN))
  return all.slice(from, from + SHOWN)
}

const schedule = (all: ReadonlyArray<InstalmentShown>): Html | false => {
  if (all.length === 0) return false
  const shown = window(all)
  const first = shown[0]!.index
  const note =
    shown.length < all.length ? `Instalments ${first} to ${first + shown.length - 1} of ${all.length}.` : undefined
  return html`<h2>Schedule</h2>
<table class="schedule">
<thead><tr><th scope="col"><span class="unseen">Number</span>#</th><th scope="col">Due</th><th scope="col">Amount</th><th scope="col">Status</th></tr></thead>
<tbody>
${shown.map(row)}</tbody>
</table>
${note !== undefined && html`<p class="quiet small">${note}</p>`}`
}

/** Renders the deadline of the first payment; nothing if that is made. */
const beginning = (beginBy: number | null): Html | false =>
  beginBy !== null &&
  html`<p class="notice">Make your first payment by <strong>${dayAndHour(beginBy)}</strong>, or your place is given up.</p>
`

const due = ({ dueKobo, dueAt, missedKobo, feeKobo, deadlineAt }: InstalmentView): Html => {
  if (dueKobo === null)
    return html`<p>Pay as much as you like, whenever you like, until <strong>${day(deadlineAt)}</strong>.${
      feeKobo > 0 && ` ${formatKobo(feeKobo)} for being late comes first.`
    }</p>
`
  const fees = feeKobo > 0 ? ` ${formatKobo(feeKobo)} of it is for being late.` : ""
  return missedKobo > 0
    ? html`<p class="notice warning"><strong>${formatKobo(dueKobo)}</strong> is late.${fees} Pay it to be back on track.</p>
`
    : html`<p><strong>${formatKobo(dueKobo)}</strong> is due on <strong>${day(dueAt)}</strong>.${fees}</p>
`
}

export const instalmentPlanPage = (view: InstalmentView): string => {
  const { business, simulated, goods, customerName, paidNowKobo, isPaying } = view
  return layout(
    { business, simulated, title: `Saving for ${goods}`, width: "wide", script: false },
    html`${paidNowKobo !== null && html`<p class="notice success" role="status">Thank you: ${formatKobo(paidNowKobo)} is paid.</p>`}
<div class="columns">
<section class="stack" aria-labelledby="title">
<h1 id="title">Saving for ${goods}</h1>
<p class="quiet">For ${customerName}</p>
${progress(view)}${schedule(view.schedule)}</section>
<section class="card stack" aria-label="What is next">
<h2>What is next</h2>
${beginning(view.beginBy)}${due(view)}<p><a class="button" href="${view.payPath}">${isPaying ? "See your payment" : "Pay now"}</a></p>
<p class="quiet small">Keep the address of this page secret: anyone who has it can pay and cancel. ${business} delivers once all is paid, by ${day(view.deadlineAt)}.</p>
<p class="small"><a class="link" href="${view.cancelPath}">Cancel this plan</a></p>
</section>
</div>`,
  )
}

export const instalmentPaymentPage = (view: InstalmentPaymentView): string => {
  const { business, simulated, form, goods, customerName } = view
  const offersTests = simulated && form.takesCards && !form.asksOtp
  return layout(
    {
      business,
      simulated,
      testCards: offersTests,
      title: titled(`Pay for ${goods}`, form),
      width: "wide",
      script: true,
    },
    html`${errorSummary(view)}
<div class="columns">
<section class="stack" aria-labelledby="title">
<h1 id="title">Pay for ${goods}</h1>
<p class="quiet">For ${customerName}</p>
${progress(view)}${beginning(view.beginBy)}<p>${view.due}</p>
<p class="small"><a class="link" href="${view.backPath}">Back to your plan</a></p>
</section>
${paymentForm({ form, business, simulated, terms: [kept(business)], cancelUrl: null })}
${offersTests && testCards(form)}</div>`,
  )
}

const refund = ({ paidKobo, feeKobo, refundKobo, business }: CancelInstalmentsView): string => {
  if (paidKobo === 0) return "You have paid nothing yet, so there is nothing to pay back."
  const whole = `You have paid ${formatKobo(paidKobo)}.`
  return feeKobo === 0
    ? `${whole} ${business} owes you ${formatKobo(refundKobo)} back.`
    : `${whole} ${formatKobo(feeKobo)} of it is kept for late payments, and ${business} owes you ${formatKobo(refundKobo)} back.`
}

export const cancelInstalmentsPage = (view: CancelInstalmentsView): string => {
  const { business, simulated, goods, refundKobo, isPaying, hasChanged, action, backPath } = view
  return layout(
    { business, simulated, title: "Cancel this plan?", width: "narrow", script: true },
    html`<div class="card stack says">
${hasChanged && html`<p class="notice warning" role="alert">What you get back has changed since you opened this page: nothing is cancelled yet.</p>`}<h1>Cancel your plan for ${goods}?</h1>
<p>${refund(view)}</p>
${
  isPaying &&
  html`<p>A payment of yours is under way: if it goes through after all, it is owed back to you as well.</p>
`
}<p>This cannot be undone, and another buyer may take your place.</p>
<form method="post" action="${action}">
<button class="button danger" type="submit" data-busy="Cancelling…">${refundKobo > 0 ? `Cancel, and get ${formatKobo(refundKobo)} back` : "Cancel the plan"}</button>
</form>
<p><a class="link" href="${backPath}">Keep saving</a></p>
</div>`,
  )
}
