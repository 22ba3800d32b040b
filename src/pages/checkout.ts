/** The checkout page: what is bought on what terms, and the form that pays for it. */
import { formatKobo } from "../money.ts"
import { type Html, html } from "./html.ts"
import { layout } from "./layout.ts"
import { errorSummary, paymentForm, titled } from "./paymentForm.ts"
import { testCards } from "./testCards.ts"
import type { CheckoutView, Offer } from "./views.ts"
import { dayAndHour, every, price, renewal, saving, statement, terms, units } from "./words.ts"

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

const fact = (word: string, what: Html | string, total = false): Html =>
  html`<div class="${total && "total"}"><dt>${word}</dt><dd>${what}</dd></div>
`

const facts = ({ offer, customerName, form }: CheckoutView): Html => html`<dl class="facts">
${customerName !== null && fact("For", customerName)}${offer !== null && offer.unitKobo !== null && fact("Usage", units(offer.unitKobo))}${
  offer !== null && fact("To pay today", formatKobo(form.amountKobo), true)
}</dl>
`

const what = (offer: Offer): Html => html`${offer.description !== null && html`<p>${offer.description}</p>`}
<p><span class="amount">${price(offer)}</span> ${every(offer.cycle)}</p>
<p>${terms(offer)}</p>
`

export const checkoutPage = (view: CheckoutView): string => {
  const { offer, business, simulated, form, cancelUrl } = view
  const offersTests = simulated && form.takesCards && !form.asksOtp
  const below = offer === null ? [saving(business)] : [renewal(business, offer), statement(business)]
  const title = titleOf(offer)
  return layout(
    { business, simulated, testCards: offersTests, title: titled(title, form), width: "wide", script: true },
    html`${errorSummary(view)}
<div class="columns">
<section class="stack" aria-labelledby="title">
<h1 id="title">${title}</h1>
${offer !== null && what(offer)}${facts(view)}${openUntil(view)}</section>
${paymentForm({ form, business, simulated, terms: below, cancelUrl })}
${offersTests && testCards(form)}</div>`,
  )
}
