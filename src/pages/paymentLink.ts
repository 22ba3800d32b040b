/** Renders the page behind a payment link: the bills due, what happens if they stay unpaid, and the form that pays or saves a payment method. */
import { formatKobo } from "../base/money.ts"
import { bills } from "./bills.ts"
import { type Html, html } from "./html.ts"
import { layout } from "./layout.ts"
import { errorSummary, paymentForm, titled } from "./paymentForm.ts"
import { testCards } from "./testCards.ts"
import type { Consequence, PaymentLinkView } from "./views.ts"
import { alsoCharged as alsoInWords, consequence, dayAndHour, halt, kept, saving, upcoming } from "./words.ts"

const step = (next: Consequence): Html =>
  html`<li><strong>${dayAndHour(next.at)}</strong><br>${consequence(next)}</li>
`

const ifNothing = (consequences: ReadonlyArray<Consequence>): Html | false =>
  consequences.length > 0 &&
  html`<h2>If you do nothing</h2>
<ol class="steps">
${consequences.map(step)}</ol>
`

/** Says that nothing is owed, and what happens next. */
const nothingOwed = ({ about, upcoming: next }: PaymentLinkView): Html =>
  html`<p>${about === null ? "Nothing is owed." : `Nothing is owed for ${about}.`} ${next !== null && `${upcoming(next)} `}You can save a payment method for what is to come.</p>`

const halted = ({ halts, business }: PaymentLinkView): Html | false =>
  halts.length > 0 &&
  html`<div class="notice warning stack">${halts.map((one) => html`<p>${halt(one, business)}</p>`)}</div>
`

export const paymentLinkPage = (view: PaymentLinkView): string => {
  const { business, simulated, form, owed, customerName, remark, alsoCharged, saves } = view
  const total = owed.reduce((sum, { amountKobo }) => sum + amountKobo, 0)
  const offersTests = simulated && form.takesCards && !form.asksOtp
  const title = owed.length === 0 ? "Nothing to pay" : `${formatKobo(total)} to pay`
  const below =
    form.purpose === "save" ? [saving(business, alsoCharged.length > 0 || !form.takesCards, saves)] : [kept(business)]
  return layout(
    { business, simulated, testCards: offersTests, title: titled(title, form), width: "wide", script: true },
    html`${errorSummary(view)}${remark !== null && html`<p class="notice" role="status">${remark}</p>`}
<div class="columns">
<section class="stack" aria-labelledby="title">
<h1 id="title" class="${owed.length > 0 && "amount"}">${title}</h1>
<p class="quiet">For ${customerName}</p>
${halted(view)}${owed.length === 0 ? nothingOwed(view) : bills(owed, total)}${alsoCharged.length > 0 && html`<p class="notice">${alsoInWords(alsoCharged)}</p>`}${ifNothing(view.consequences)}</section>
${paymentForm({ form, business, simulated, terms: below, cancelUrl: null })}
${offersTests && testCards(form)}</div>`,
  )
}
