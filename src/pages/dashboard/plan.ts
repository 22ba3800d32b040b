/** Renders the page of a plan: its terms, its rules in words, and its subscriptions. */
import type { Plan } from "../../billing/plan/api.ts"
import type { Subscription } from "../../billing/subscription/api.ts"
import { type Html, html } from "../html.ts"
import { every } from "../words.ts"
import { nameIn } from "./expanded.ts"
import { type ActionLink, facts, naira, pageHead, section, status, table, when } from "./parts.ts"
import { reminderText, retryText } from "./planWords.ts"

export interface PlanView {
  readonly base: string
  readonly plan: typeof Plan.Type
  /** With their customers. */
  readonly subscriptions: ReadonlyArray<typeof Subscription.Type>
  readonly canOperate: boolean
}

const actionsOn = ({ base, plan: { id, status } }: PlanView): ReadonlyArray<ActionLink> => [
  ...(status === "active"
    ? [
        { href: `${base}/subscriptions/new?plan=${id}`, label: "New subscription", isMain: true },
        { href: `${base}/checkout-sessions/new?plan=${id}`, label: "New checkout session" },
      ]
    : []),
  { href: `${base}/plans/${id}/edit`, label: "Change" },
  status === "active"
    ? { href: `${base}/plans/${id}/archive`, label: "Archive" }
    : { href: `${base}/plans/${id}/unarchive`, label: "Unarchive", isMain: true },
]

/** A longer configuration is shown in part: its form has all of it. */
const MAX_SHOWN = 1_000

const config = (value: object): Html | null => {
  const text = JSON.stringify(value)
  if (text === "{}") return null
  return html`<code class="id">${text.length > MAX_SHOWN ? `${text.slice(0, MAX_SHOWN)}…` : text}</code>`
}

export const planMain = (view: PlanView): Html => {
  const { base, plan, subscriptions, canOperate } = view
  return html`${pageHead(plan.name, plan.description ?? html`<code>${plan.id}</code>`, canOperate ? actionsOn(view) : [])}${facts(
    [
      ["Price", `${naira(plan.amount)} ${every(plan.billing_cycle)}`],
      ["Status", status(plan.status)],
      ["Trial", plan.trial_days === 0 ? "none" : `${plan.trial_days} days`],
      ["Reported units", plan.overage_per_unit === null ? "free" : `${naira(plan.overage_per_unit)} each`],
      ["Can be paused", plan.pause_enabled ? "yes" : "no"],
      ["Unused rest of a paused period", plan.pro_rate ? "credited" : "not credited"],
      ["Category", plan.category],
      ["Service configuration", config(plan.service_config)],
      ["ID", html`<code>${plan.id}</code>`],
      ["Since", when(plan.created_at)],
      ...Object.entries(plan.metadata),
    ],
  )}
${section("When a payment fails", html`<p class="why">${retryText(plan.retry_logic)}</p>`)}${section(
  "Reminders",
  html`<p class="why">${reminderText(plan.reminders)}</p>`,
)}${section(
  "Subscriptions",
  subscriptions.length === 0
    ? html`<p class="quiet">None yet.</p>`
    : html`${table(
        "Subscriptions",
        [
          {
            name: "Customer",
            cell: ({ id, customer }: typeof Subscription.Type) =>
              html`<a href="${`${base}/subscriptions/${id}`}">${nameIn(customer)}</a>`,
          },
          { name: "Status", cell: (row) => status(row.status) },
          { name: "Next charge", cell: (row) => when(row.next_charge_at) },
        ],
        subscriptions,
      )}<p class="pager"><a href="${`${base}/subscriptions?plan=${plan.id}`}">All subscriptions</a></p>`,
)}`
}
