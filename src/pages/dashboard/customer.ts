/** Renders the page of a customer: who it is, how they pay, what they have, and what they paid. */
import type { Charge } from "../../billing/charge/api.ts"
import type { Customer } from "../../billing/customer/api.ts"
import type { PaymentMethod } from "../../billing/payment_method/api.ts"
import type { Subscription } from "../../billing/subscription/api.ts"
import type { Nudge } from "../../outbound/nudge/api.ts"
import { type Html, html } from "../html.ts"
import { expiry, paymentMethod } from "../words.ts"
import { idIn, nameIn } from "./expanded.ts"
import { CHANNEL_NAMES, TEMPLATE_NAMES } from "./nudgeWords.ts"
import { type ActionLink, facts, naira, pageHead, section, status, table, when } from "./parts.ts"

export interface CustomerView {
  readonly base: string
  readonly customer: typeof Customer.Type
  readonly methods: ReadonlyArray<typeof PaymentMethod.Type>
  /** With their plans. */
  readonly subscriptions: ReadonlyArray<typeof Subscription.Type>
  readonly charges: ReadonlyArray<typeof Charge.Type>
  readonly nudges: ReadonlyArray<typeof Nudge.Type>
  readonly canOperate: boolean
}

const nothing = (text: string): Html => html`<p class="quiet">${text}</p>`

const methodsSection = ({ base, customer, methods, canOperate }: CustomerView): Html => {
  const path = `${base}/customers/${customer.id}`
  const isDefault = (id: string) => id === customer.default_payment_method?.id
  const act = ({ id }: typeof PaymentMethod.Type): Html =>
    html`${!isDefault(id) && html`<a href="${`${path}/default-method?method=${id}`}">Make it the default</a> · `}<a href="${`${path}/payment-methods/${id}/remove`}">Remove</a>`
  const rows =
    methods.length === 0
      ? nothing("None yet: let the customer add one at a checkout (Collect a payment method).")
      : table(
          "Payment methods",
          [
            { name: "Method", cell: (row: typeof PaymentMethod.Type) => paymentMethod(row) },
            { name: "Expires", cell: (row) => expiry(row) ?? "–" },
            { name: "Default", cell: ({ id }) => (isDefault(id) ? "yes" : "no") },
            ...(canOperate ? [{ name: "Actions", cell: act }] : []),
          ],
          methods,
        )
  return html`${rows}${canOperate && html`<p class="pager"><a href="${`${path}/default-method`}">Choose how the customer pays</a></p>`}`
}

export const customerMain = (view: CustomerView): Html => {
  const { base, customer, subscriptions, charges, nudges, canOperate } = view
  const { id } = customer
  const actions: ReadonlyArray<ActionLink> = [
    { href: `${base}/subscriptions/new?customer=${id}`, label: "New subscription", isMain: true },
    { href: `${base}/charges/new?customer=${id}`, label: "Charge once" },
    { href: `${base}/nudges/new?customer=${id}`, label: "Send a nudge" },
    { href: `${base}/checkout-sessions/new?mode=setup&customer=${id}`, label: "Collect a payment method" },
    { href: `${base}/customers/${id}/edit`, label: "Change" },
  ]
  return html`${pageHead(customer.name, html`<code>${id}</code>`, canOperate ? actions : [])}${facts([
    ["E-mail", customer.email],
    ["Phone", customer.phone],
    ["Pays with", customer.default_payment_method === null ? null : paymentMethod(customer.default_payment_method)],
    [
      "Test clock",
      customer.test_clock === null
        ? null
        : html`<a href="${`${base}/clocks/${idIn(customer.test_clock)}`}">${idIn(customer.test_clock)}</a>`,
    ],
    ["Since", when(customer.created_at)],
    ...Object.entries(customer.metadata),
  ])}
${section(
  "Subscriptions",
  subscriptions.length === 0
    ? nothing("None.")
    : table(
        "Subscriptions",
        [
          {
            name: "Plan",
            cell: ({ id, plan }: typeof Subscription.Type) =>
              html`<a href="${`${base}/subscriptions/${id}`}">${nameIn(plan)}</a>`,
          },
          { name: "Status", cell: (row) => status(row.status) },
          { name: "Next charge", cell: (row) => when(row.next_charge_at) },
        ],
        subscriptions,
      ),
)}${section("Payment methods", methodsSection(view))}${section(
  "Charges",
  charges.length === 0
    ? nothing("None.")
    : html`${table(
        "Charges",
        [
          {
            name: "Charge",
            cell: ({ id, created_at }: typeof Charge.Type) =>
              html`<a href="${`${base}/charges/${id}`}">${when(created_at)}</a>`,
          },
          { name: "Status", cell: (row) => status(row.status) },
          { name: "Why", cell: (row) => row.failure_message ?? row.description ?? "–" },
          { name: "Amount", cell: (row) => naira(row.amount), isNumber: true },
        ],
        charges,
      )}<p class="pager"><a href="${`${base}/charges?customer=${id}`}">All charges</a></p>`,
)}${section(
  "Nudges",
  nudges.length === 0
    ? nothing("None.")
    : table(
        "Nudges",
        [
          {
            name: "Nudge",
            cell: ({ id, template }: typeof Nudge.Type) =>
              html`<a href="${`${base}/nudges/${id}`}">${TEMPLATE_NAMES[template]}</a>`,
          },
          { name: "By", cell: (row) => CHANNEL_NAMES[row.channel] },
          { name: "Status", cell: (row) => status(row.status) },
          { name: "When", cell: (row) => when(row.created_at) },
        ],
        nudges,
      ),
)}`
}
