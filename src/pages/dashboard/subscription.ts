/** Renders the page of a subscription: what it is now, what can be done, what comes, its machine, and what happened (decision R10). */
import type { PaymentMethod } from "../../billing/payment_method/api.ts"
import type { Subscription } from "../../billing/subscription/api.ts"
import type { Forecast, ForecastItem } from "../../billing/subscription/forecastApi.ts"
import { type Html, html, type Value } from "../html.ts"
import { paymentMethod, price } from "../words.ts"
import { idIn, nameIn } from "./expanded.ts"
import { type LanesView, lanes } from "./lanes.ts"
import { type LifeView, lifeMain } from "./life.ts"
import { type ActionLink, facts, naira, pageHead, pager, section, status, when, words } from "./parts.ts"

type Shown = typeof Subscription.Type

export interface Upcoming {
  readonly name: string
  readonly at: string
  readonly means: string
}

export interface SubscriptionView {
  readonly base: string
  readonly title: string
  /** The path of the page. */
  readonly path: string
  /** With its customer, plan and latest charge. */
  readonly subscription: Shown
  readonly priceKobo: number
  /** The payment method that is charged; null: there is none. */
  readonly method: typeof PaymentMethod.Type | null
  readonly actions: ReadonlyArray<ActionLink>
  readonly upcoming: ReadonlyArray<Upcoming>
  /** What comes if all payments succeed, and if all fail; null: it cannot be foreseen now. */
  readonly forecasts: { readonly success: typeof Forecast.Type | null; readonly failure: typeof Forecast.Type | null }
  readonly life: LifeView
  readonly lanes: LanesView
  readonly pages: { readonly first: string | null; readonly next: string | null }
}

/** The status in a sentence. */
export const statusText = (subscription: Shown): Html => {
  const { status: now, cancel_at_period_end: isEnding } = subscription
  const end = isEnding ? html` It ends on ${when(subscription.current_period_end)}, as was asked.` : false
  switch (now) {
    case "incomplete":
      return html`It waits for its first payment.${end}`
    case "trialing":
      return html`The trial is running until ${when(subscription.trial_end)}. Nothing is charged before.${end}`
    case "active":
      return subscription.next_charge_at === null
        ? html`It is paid.${end}`
        : html`It is paid until ${when(subscription.current_period_end)}.${end}`
    case "past_due":
      return html`The last payment failed, and the bill is not paid yet.${end}`
    case "paused":
      return subscription.resumes_at === null
        ? html`It is paused until someone resumes it.${end}`
        : html`It is paused until ${when(subscription.resumes_at)}.${end}`
    case "cancelled":
      return html`It ended on ${when(subscription.cancelled_at)}${subscription.cancellation_reason !== null && ` (${words(subscription.cancellation_reason)})`}.`
  }
}

const retryText = ({ retry }: Shown): Value =>
  retry === null
    ? null
    : html`${retry.attempt} of ${retry.max_attempts} made${retry.next_retry_at !== null && html`, the next on ${when(retry.next_retry_at)}`}`

const present = (view: SubscriptionView): Html => {
  const { base, subscription, priceKobo, method } = view
  const { customer, plan, quantity, latest_charge: latest } = subscription
  return facts([
    ["Status", html`${status(subscription.status)} ${statusText(subscription)}`],
    ["Customer", html`<a href="${`${base}/customers/${idIn(customer)}`}">${nameIn(customer)}</a>`],
    ["Plan", html`<a href="${`${base}/plans/${idIn(plan)}`}">${nameIn(plan)}</a>`],
    ["Price", `${price({ priceKobo, quantity })} for each period`],
    ["Period", html`${when(subscription.current_period_start)} to ${when(subscription.current_period_end)}`],
    ["Next charge", when(subscription.next_charge_at)],
    ["Pays with", method === null ? "no payment method" : paymentMethod(method)],
    ["Retries", retryText(subscription)],
    [
      "Latest charge",
      latest === null ? null : html`<a href="${`${base}/charges/${idIn(latest)}`}">${idIn(latest)}</a>`,
    ],
    ...Object.entries(subscription.metadata),
  ])
}

/** How many lines a forecast shows. */
const MAX_FORESEEN = 12

const foreseen = (item: ForecastItem): Html | false => {
  switch (item.kind) {
    case "charge":
      return html`${naira(item.amount)} is ${item.outcome === "succeeded" ? "paid" : "declined"}${item.attempt_number > 1 && ` (attempt ${item.attempt_number})`}`
    case "nudge":
      return html`A message: ${words(item.template)} by ${item.channel}`
    case "status":
      return html`It is ${status(item.to)}`
    case "cancellation":
      return html`It ends${item.reason !== null && ` (${words(item.reason)})`}`
    case "event":
      return false
  }
}

const forecast = (title: string, found: typeof Forecast.Type | null): Html => {
  const lines = (found?.items ?? []).flatMap((item) => {
    const text = foreseen(item)
    return text === false ? [] : [html`<li>${when(item.at)}: ${text}</li>`]
  })
  const sums =
    found === null
      ? "This cannot be foreseen now."
      : `${found.totals.charges} payments, ${naira(found.totals.amount)} until then.`
  return html`<div class="card stack"><h3>${title}</h3>${
    lines.length === 0
      ? html`<p class="quiet">${found === null ? sums : "Nothing happens."}</p>`
      : html`<ol class="foreseen">${lines.slice(0, MAX_FORESEEN)}</ol>${lines.length > MAX_FORESEEN && html`<p class="quiet">And ${lines.length - MAX_FORESEEN} more.</p>`}<p class="quiet">${sums}</p>`
  }</div>`
}

const ahead = ({ upcoming, forecasts: { success, failure }, subscription }: SubscriptionView): Html | false =>
  subscription.status !== "cancelled" &&
  section(
    "What comes",
    html`${
      upcoming.length > 0 &&
      html`<ul class="foreseen">${upcoming.map(({ at, means }) => html`<li>${when(at)}: ${means}</li>`)}</ul>`
    }<div class="aside-by-side">${forecast("If all pay", success)}${forecast("If all fail", failure)}</div>${
      success !== null && html`<p class="quiet small">Until ${when(success.until)}, by the terms of now.</p>`
    }`,
  )

export const subscriptionMain = (view: SubscriptionView): Html => {
  const { title, subscription, actions, path, pages } = view
  return html`${pageHead(title, html`<code>${subscription.id}</code>`, actions)}${present(view)}${ahead(view)}${lifeMain(view.life)}
${section("What happened", html`${lanes(view.lanes, path)}${pager({ ...pages, csv: null })}`)}`
}
