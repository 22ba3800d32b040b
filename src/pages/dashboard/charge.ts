/** Renders the page of a charge: what was paid, by whom, when; why it failed and what to do; what happened. */
import type { Charge } from "../../billing/charge/api.ts"
import { type Html, html, type Value } from "../html.ts"
import { paymentMethod } from "../words.ts"
import { idIn, nameIn } from "./expanded.ts"
import { failureOf } from "./failures.ts"
import { type ActionLink, facts, naira, notice, pageHead, section, status, table, when, words } from "./parts.ts"
import { type TransitionView, transitionsTable, type Upcoming, upcomingList } from "./transitions.ts"

type Shown = typeof Charge.Type

/** An entry in the books: its ID, and what it records. */
export interface Entry {
  readonly id: string
  readonly event: string
}

export interface ChargeView {
  readonly base: string
  /** With its customer and its subscription. */
  readonly charge: Shown
  readonly entries: ReadonlyArray<Entry>
  readonly transitions: ReadonlyArray<TransitionView>
  readonly upcoming: ReadonlyArray<Upcoming>
  readonly actions: ReadonlyArray<ActionLink>
}

const failureNotice = ({ status, failure_code, next_retry_at }: Shown): Html | false => {
  if (status !== "failed") return false
  const { why, todo } = failureOf(failure_code)
  return notice(
    "error",
    html`<p><strong>${why}</strong></p><p>${next_retry_at === null ? todo : html`It is tried again on ${when(next_retry_at)}. ${todo}`}</p>`,
  )
}

const attentionNotice = ({ attention }: Shown): Html | false => {
  if (attention === null) return false
  const { kind, expected_amount, received_amount, currency } = attention
  const received = received_amount === null ? "another amount" : naira(received_amount)
  const difference =
    kind === "currency_differs"
      ? `The payment arrived in ${currency}.`
      : `${naira(expected_amount)} was asked for, and ${received} arrived.`
  return notice(
    "warning",
    html`<p><strong>${difference}</strong></p><p>Look up the payment at your payment rail. Refund it there, or have the rest paid.</p>`,
  )
}

const refundNotice = ({ refund_due }: Shown): Html | false =>
  refund_due &&
  notice(
    "warning",
    html`<p><strong>You owe this payment back.</strong></p><p>It arrived after its subscription was cancelled or its instalment plan ended.</p>`,
  )

const linesTable = ({ lines }: Shown): Html =>
  table(
    "Lines",
    [
      { name: "What", cell: ({ description }: Shown["lines"][number]) => description },
      { name: "Quantity", cell: ({ quantity }) => quantity, isNumber: true },
      { name: "Each", cell: ({ unit_amount }) => naira(unit_amount), isNumber: true },
      { name: "Amount", cell: ({ amount }) => naira(amount), isNumber: true },
    ],
    lines,
  )

const refundsIn = (views: ReadonlyArray<TransitionView>): ReadonlyArray<string> => [
  ...new Set(views.flatMap(({ transition }) => transition.refunds)),
]

const codes = (ids: ReadonlyArray<string>): Html | null =>
  ids.length === 0 ? null : html`${ids.map((id) => html`<code class="id">${id}</code> `)}`

const booked = (entries: ReadonlyArray<Entry>): Html | null =>
  entries.length === 0
    ? null
    : html`${entries.map(({ id, event }) => html`${words(event)} <code class="id">${id}</code> `)}`

/** The facts of the charge; those that do not apply are left out. */
const factsOf = ({ base, charge, entries, transitions }: ChargeView): ReadonlyArray<readonly [string, Value]> => {
  const { id, customer, subscription } = charge
  const all: ReadonlyArray<readonly [string, Value]> = [
    ["Customer", html`<a href="${`${base}/customers/${idIn(customer)}`}">${nameIn(customer)}</a>`],
    [
      "Subscription",
      subscription === null
        ? null
        : html`<a href="${`${base}/subscriptions/${idIn(subscription)}`}">${idIn(subscription)}</a>`,
    ],
    ["Created", when(charge.created_at)],
    ["Paid", charge.paid_at === null ? null : when(charge.paid_at)],
    ["Paid with", charge.payment_method === null ? null : paymentMethod(charge.payment_method)],
    ["By", words(charge.processor)],
    ["Try", String(charge.attempt_number)],
    ["Next try", charge.next_retry_at === null ? null : when(charge.next_retry_at)],
    ["Failure code", charge.failure_code === null ? null : html`<code>${charge.failure_code}</code>`],
    ["Message of the provider", charge.failure_message],
    ["Entries in the books", booked(entries)],
    ["Refunds", codes(refundsIn(transitions))],
    ["ID", html`<code class="id">${id}</code>`],
    ...Object.entries(charge.metadata),
  ]
  return all.filter(([, value]) => value !== null)
}

export const chargeMain = (view: ChargeView): Html => {
  const { charge, transitions, upcoming, actions } = view
  const { customer } = charge
  return html`${pageHead(
    html`${naira(charge.amount)} from ${nameIn(customer)}`,
    html`${status(charge.status)} ${charge.description ?? ""}`,
    actions,
  )}${failureNotice(charge)}${attentionNotice(charge)}${refundNotice(charge)}${facts(factsOf(view))}
${charge.lines.length > 0 && section("What it is for", linesTable(charge))}${section(
  "What happened",
  html`${upcomingList(upcoming)}${transitionsTable(transitions)}`,
)}`
}
