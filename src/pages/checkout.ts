/** Renders the checkout page: the offer with its terms, and the form that pays for it. */
import { formatKobo } from "../base/money.ts"
import { bills } from "./bills.ts"
import { type Html, html } from "./html.ts"
import { layout } from "./layout.ts"
import { errorSummary, paymentForm, titled } from "./paymentForm.ts"
import { testCards } from "./testCards.ts"
import type { CheckoutView, Offer } from "./views.ts"
import { alsoCharged as alsoInWords, dayAndHour, renewal, saving, terms, units } from "./words.ts"

const titleOf = (offer: Offer | null): string => {
  if (offer === null) return "Save a payment method"
  return offer.trialEndsAt === null ? `Subscribe to ${offer.plan}` : `Try ${offer.plan} for free`
}

const openUntil = ({ expiresAt, now, onTestClock }: CheckoutView): Html =>
  html`<p class="quiet small">Open until ${dayAndHour(expiresAt)}${
    !onTestClock &&
    expiresAt > now &&
    html`<span data-left="${expiresAt - now}"></span><span class="unseen" aria-live="polite" data-announced></span>`
  }</p>
`

const fact = (label: string, value: string): Html => html`<div><dt>${label}</dt><dd>${value}</dd></div>
`

const facts = ({ offer, customerName }: CheckoutView): Html => html`<dl class="facts">
${offer !== null && fact("Price", terms(offer))}${offer !== null && offer.unitKobo !== null && fact("Usage", units(offer.unitKobo))}${
  customerName !== null && fact("For", customerName)
}</dl>
`

const descriptionOf = ({ description }: Offer): Html | false =>
  description !== null &&
  html`<p class="quiet">${description}</p>
`

/** Renders what is paid today, bill by bill if it is more than the purchase. */
const today = ({ offer, dueKobo, alsoCharged, form: { amountKobo } }: CheckoutView): Html => {
  const bought = offer === null || dueKobo === 0 ? null : { plan: offer.plan, amountKobo: dueKobo }
  return html`${
    (offer !== null || amountKobo > 0) &&
    html`<p><span class="amount">${formatKobo(amountKobo)}</span> to pay today</p>
`
  }${
    alsoCharged.length > 0 &&
    html`${bills(alsoCharged, amountKobo, bought)}<p class="notice">${alsoInWords(alsoCharged)}</p>
`
  }`
}

export const checkoutPage = (view: CheckoutView): string => {
  const { offer, business, simulated, form, cancelUrl, alsoCharged, saves } = view
  const offersTests = simulated && form.takesCards && !form.asksOtp
  const below =
    offer === null ? [saving(business, alsoCharged.length > 0 || !form.takesCards, saves)] : [renewal(business, offer)]
  const title = titleOf(offer)
  return layout(
    { business, simulated, testCards: offersTests, title: titled(title, form), width: "wide", script: true },
    html`${errorSummary(view)}
<div class="columns">
<section class="stack" aria-labelledby="title">
<h1 id="title">${title}</h1>
${offer !== null && descriptionOf(offer)}${today(view)}${facts(view)}${openUntil(view)}</section>
${paymentForm({ form, business, simulated, terms: below, cancelUrl })}
${offersTests && testCards(form)}</div>`,
  )
}
