/** Renders the page of a checkout session: its link to copy, what it is for, and what happened. */
import type { CheckoutSession } from "../../buying/checkout/api.ts"
import { type Html, html } from "../html.ts"
import { idIn, nameIn } from "./expanded.ts"
import { facts, pageHead, section, status, when } from "./parts.ts"
import { type TransitionView, transitionsTable, type Upcoming, upcomingList } from "./transitions.ts"

type Shown = typeof CheckoutSession.Type

export const MODE_WORDS: Readonly<Record<Shown["mode"], string>> = {
  subscription: "Subscribes to a plan",
  setup: "Adds a payment method",
}

export interface CheckoutSessionView {
  readonly base: string
  /** With its customer and its plan. */
  readonly session: Shown
  readonly transitions: ReadonlyArray<TransitionView>
  readonly upcoming: ReadonlyArray<Upcoming>
  readonly canOperate: boolean
}

const link = ({ url, status }: Shown): Html | false =>
  url !== null &&
  status === "open" &&
  html`<div class="card stack"><h2>The link for the buyer</h2><p class="copied"><code id="checkout-link">${url}</code> <button class="plain" type="button" data-copy="#checkout-link" hidden="${true}">Copy</button></p><p class="quiet small">Treat it like a password: send it to the buyer only.</p></div>
`

export const checkoutSessionMain = (view: CheckoutSessionView): Html => {
  const { base, session, transitions, upcoming, canOperate } = view
  const { id, customer, plan, subscription } = session
  const actions =
    canOperate && session.status === "open"
      ? [{ href: `${base}/checkout-sessions/${id}/expire`, label: "Expire", isDanger: true }]
      : []
  return html`${pageHead("Checkout session", status(session.status), actions)}${link(session)}${facts([
    ["The buyer", MODE_WORDS[session.mode]],
    ["Plan", plan === null ? null : html`<a href="${`${base}/plans/${idIn(plan)}`}">${nameIn(plan)}</a>`],
    ["Quantity", session.quantity === null ? null : String(session.quantity)],
    [
      "Customer",
      customer === null ? null : html`<a href="${`${base}/customers/${idIn(customer)}`}">${nameIn(customer)}</a>`,
    ],
    [
      "Subscription",
      subscription === null
        ? null
        : html`<a href="${`${base}/subscriptions/${idIn(subscription)}`}">${idIn(subscription)}</a>`,
    ],
    ["Expires", when(session.expires_at)],
    ["Address after it is done", session.success_url],
    ["Address to go back", session.cancel_url],
    ["ID", html`<code class="id">${id}</code>`],
    ["Created", when(session.created_at)],
    ...Object.entries(session.metadata),
  ])}
${section("What happened", html`${upcomingList(upcoming)}${transitionsTable(transitions)}`)}`
}
