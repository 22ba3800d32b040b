/** Renders the page of a test clock: its time, what comes next, and what came (decisions M1, S2). */
import type { Channel } from "../../../machines/nudge.ts"
import type { TestClock } from "../../billing/clock/api.ts"
import type { Customer } from "../../billing/customer/api.ts"
import type { Subscription } from "../../billing/subscription/api.ts"
import type { ForecastItem } from "../../billing/subscription/forecastApi.ts"
import type { Event } from "../../outbound/event/api.ts"
import { type Html, html } from "../html.ts"
import { errorSummary, type Field, fieldRow, hiddenField } from "./fields.ts"
import { followed } from "./live.ts"
import { CHANNEL_NAMES } from "./nudgeWords.ts"
import { facts, naira, notice, pageHead, section, status, table, when, words } from "./parts.ts"

/** What a subscription does at one instant. */
export interface Step {
  readonly at: string
  readonly subscription: string
  readonly customer: string
  readonly items: ReadonlyArray<ForecastItem>
}

/** A subscription with its plan and its customer. */
export interface SubscriptionOfClock {
  readonly id: string
  readonly plan: string
  readonly customer: string
  readonly status: (typeof Subscription.Type)["status"]
  readonly nextChargeAt: string | null
}

/** An event, with its object and the path of its page; null: it has none. */
export interface EventOfClock extends Pick<typeof Event.Type, "id" | "type" | "created_at"> {
  readonly objectId: string | null
  readonly objectPath: string | null
}

export interface ClockPartView {
  readonly base: string
  readonly clock: typeof TestClock.Type
  /** In order of time. */
  readonly steps: ReadonlyArray<Step>
  /** Newest first. */
  readonly events: ReadonlyArray<EventOfClock>
  readonly subscriptions: ReadonlyArray<SubscriptionOfClock>
  readonly customers: ReadonlyArray<typeof Customer.Type>
}

export interface ClockView extends ClockPartView {
  readonly formToken: string
  readonly refusal: string | null
}

const itemText = (item: ForecastItem): Html => {
  switch (item.kind) {
    case "charge":
      return html`a charge of ${naira(item.amount)} ${item.outcome === "succeeded" ? "succeeds" : "fails"}${item.attempt_number > 1 && ` (try ${item.attempt_number})`}`
    case "nudge":
      return html`the message “${words(item.template)}” goes out by ${CHANNEL_NAMES[item.channel as Channel]}`
    case "status":
      return html`it becomes ${words(item.to)}`
    case "cancellation":
      return html`it ends${item.reason !== null && ` (${words(item.reason)})`}`
    case "event":
      return html`event <code>${item.type}</code>`
  }
}

/** The items that say what happens; events only if there is nothing else. */
const saying = (items: ReadonlyArray<ForecastItem>): ReadonlyArray<ForecastItem> => {
  const others = items.filter(({ kind }) => kind !== "event")
  return others.length === 0 ? items : others
}

const stepsTable = ({ base, clock, steps }: ClockPartView): Html => {
  if (clock.status === "advancing")
    return html`<p class="quiet">The clock advances: what comes next is shown when it is ready.</p>`
  if (steps.length === 0)
    return html`<p class="quiet">Nothing in the next three months. Subscribe a customer of this clock to a plan.</p>`
  return table(
    "What comes next",
    [
      { name: "When", cell: ({ at }: Step) => when(at) },
      {
        name: "Subscription",
        cell: ({ subscription, customer }) =>
          html`<a href="${`${base}/subscriptions/${subscription}`}">${customer}</a>`,
      },
      {
        name: "What",
        cell: ({ items }) => html`${saying(items).map((item, at) => html`${at > 0 && "; "}${itemText(item)}`)}`,
      },
    ],
    steps,
  )
}

const eventsTable = ({ base, clock, events }: ClockPartView): Html =>
  events.length === 0
    ? html`<p class="quiet">Nothing yet: advance the clock.</p>`
    : html`${table(
        "What came",
        [
          {
            name: "Event",
            cell: ({ id, type }: EventOfClock) => html`<a href="${`${base}/events/${id}`}">${type}</a>`,
          },
          {
            name: "Object",
            cell: ({ objectId, objectPath }) =>
              objectPath === null ? (objectId ?? "–") : html`<a href="${objectPath}">${objectId}</a>`,
          },
          { name: "When", cell: ({ created_at }) => when(created_at) },
        ],
        events,
      )}<p class="pager"><a href="${`${base}/events?test_clock=${clock.id}`}">All events of this clock</a></p>`

const subscriptionsTable = ({ base, subscriptions }: ClockPartView): Html =>
  subscriptions.length === 0
    ? html`<p class="quiet">None.</p>`
    : table(
        "Subscriptions of this clock",
        [
          {
            name: "Subscription",
            cell: ({ id, plan, customer }: SubscriptionOfClock) =>
              html`<a href="${`${base}/subscriptions/${id}`}">${plan} for ${customer}</a>`,
          },
          { name: "Status", cell: (row) => status(row.status) },
          { name: "Next charge", cell: ({ nextChargeAt }) => when(nextChargeAt) },
        ],
        subscriptions,
      )

const customersTable = ({ base, customers }: ClockPartView): Html =>
  customers.length === 0
    ? html`<p class="quiet">None: add a customer to this clock, then subscribe them to a plan.</p>`
    : table(
        "Customers of this clock",
        [
          {
            name: "Customer",
            cell: ({ id, name }: typeof Customer.Type) => html`<a href="${`${base}/customers/${id}`}">${name}</a>`,
          },
          {
            name: "Subscribe",
            cell: ({ id, name }) =>
              html`<a href="${`${base}/subscriptions/new?customer=${id}`}">New subscription<span class="unseen"> for ${name}</span></a>`,
          },
        ],
        customers,
      )

/** The part that follows the clock while it advances. */
export const clockPart = (view: ClockPartView): Html => {
  const { clock } = view
  return html`${facts([
    ["Time", when(clock.frozen_time)],
    ["Status", status(clock.status)],
    ["Customers", String(clock.customer_count)],
    ["Deleted on", when(clock.deletes_at)],
  ])}
${clock.status === "internal_failure" && notice("error", html`<p>The clock has failed. It can only be deleted.</p>`)}${section(
  "What comes next, if payments succeed",
  stepsTable(view),
)}${section("What came", eventsTable(view))}${section("Subscriptions", subscriptionsTable(view))}${section(
  "Customers",
  customersTable(view),
)}`
}

const DATE_FIELD: Field = {
  name: "frozen_time",
  label: "New time",
  kind: "instant",
  hint: "In Lagos, at most a year ahead",
  isRequired: true,
}

const BUTTONS = [
  ["next", "To the next step"],
  ["day", "A day"],
  ["week", "A week"],
  ["month", "A month"],
] as const

const advanceForms = ({ base, clock, formToken, refusal }: ClockView): Html => {
  const action = `${base}/clocks/${clock.id}/advance`
  return html`${errorSummary([], new Map(), refusal)}<form method="post" action="${action}" class="form">${hiddenField("form_token", formToken)}<p class="actions">${BUTTONS.map(
    ([by, label], at) =>
      html`<button class="${at === 0 ? "button" : "plain"}" name="by" value="${by}">${label}</button>`,
  )}</p></form>
<details><summary>To a time</summary><form method="post" action="${action}" class="form card">${hiddenField("form_token", formToken)}${fieldRow(DATE_FIELD, new Map(), new Map())}<p class="actions"><button class="button" name="by" value="time">Advance to this time</button></p></form></details>`
}

export const clockMain = (view: ClockView): Html => {
  const { base, clock } = view
  const path = `${base}/clocks/${clock.id}`
  return html`${pageHead(clock.name ?? "Test clock", html`<code>${clock.id}</code>`, [
    { href: `${path}/customers/new`, label: "Add a customer" },
    { href: `${path}/delete`, label: "Delete", isDanger: true },
  ])}<section class="card stack" aria-labelledby="advance"><h2 id="advance">Advance the clock</h2>${advanceForms(view)}</section>
${followed(`${path}/live`, clockPart(view))}`
}
