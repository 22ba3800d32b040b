/** Renders a timeline as lanes: what happened and why, charges, the books, messages, webhooks. */
import type { Transition } from "../../runtime/timelineApi.ts"
import { type Html, html, type Value } from "../html.ts"
import { happened } from "./happened.ts"
import { naira, status, table, when, words } from "./parts.ts"

type Item = typeof Transition.Type

/** What transitions brought about, by ID. */
export interface Brought {
  readonly charges: ReadonlyMap<
    string,
    { readonly amount_kobo: number; readonly status: string; readonly failure_message: string | null }
  >
  /** `kobo`: the sum of the debits. */
  readonly entries: ReadonlyMap<string, { readonly event: string; readonly kobo: number }>
  readonly nudges: ReadonlyMap<string, { readonly template: string; readonly status: string }>
  readonly events: ReadonlyMap<
    string,
    { readonly type: string; readonly pending: number; readonly succeeded: number; readonly failed: number }
  >
  readonly keys: ReadonlyMap<string, { readonly last4: string }>
  readonly members: ReadonlyMap<string, { readonly email: string }>
}

export interface LanesView {
  readonly base: string
  readonly items: ReadonlyArray<Item>
  readonly brought: Brought
  /** Whether the member may see requests. */
  readonly canDevelop: boolean
}

/** The charges that a transition is about: those that it brought about, and the one whose answer it is. */
export const chargesOf = ({ charges, event: { chargeId } }: Item): ReadonlyArray<string> => [
  ...charges,
  ...(typeof chargeId === "string" && !charges.includes(chargeId) ? [chargeId] : []),
]

/** Why it happened: which member, key, buyer, timer. */
export const causeText = ({ cause }: Item, { keys, members }: Brought): string => {
  const { kind, key, member } = cause
  switch (kind) {
    case "dashboard":
      return `by ${members.get(member ?? "")?.email ?? "a member"} in the dashboard`
    case "api":
      return key === null ? "by an API request" : `by the API key ending in ${keys.get(key)?.last4 ?? "…"}`
    case "page":
      return "by the buyer on a page"
    case "timer":
      return "by a timer"
    case "clock":
      return "by the test clock"
    case "rail":
      return "by the answer of the payment rail"
    case "system":
      return "by the service"
  }
}

const list = (items: ReadonlyArray<Value>): Value =>
  items.length === 0
    ? html`<span class="quiet">–</span>`
    : html`<ul class="lane">${items.map((item) => html`<li>${item}</li>`)}</ul>`

const charge = ({ base, brought }: LanesView, id: string): Html => {
  const found = brought.charges.get(id)
  const link = html`<a href="${`${base}/charges/${id}`}">${found === undefined ? id : naira(found.amount_kobo)}</a>`
  return html`${link} ${found !== undefined && status(found.status)}`
}

const nudge = ({ base, brought }: LanesView, id: string): Html => {
  const found = brought.nudges.get(id)
  const link = html`<a href="${`${base}/nudges/${id}`}">${found === undefined ? id : words(found.template)}</a>`
  return html`${link} ${found !== undefined && status(found.status)}`
}

const deliveriesText = ({
  pending,
  succeeded,
  failed,
}: {
  readonly pending: number
  readonly succeeded: number
  readonly failed: number
}): string =>
  [
    ...(succeeded > 0 ? [`${succeeded} delivered`] : []),
    ...(pending > 0 ? [`${pending} waiting`] : []),
    ...(failed > 0 ? [`${failed} failed`] : []),
  ].join(", ") || "no endpoint"

const event = ({ base, brought, canDevelop }: LanesView, id: string): Html => {
  const found = brought.events.get(id)
  const name = found?.type ?? id
  return html`${canDevelop ? html`<a href="${`${base}/events/${id}`}">${name}</a>` : name} ${
    found !== undefined && html`<span class="small quiet">${deliveriesText(found)}</span>`
  }`
}

const entry = ({ brought }: LanesView, id: string): Html => {
  const found = brought.entries.get(id)
  return found === undefined ? html`${id}` : html`${words(found.event)}: ${naira(found.kobo)}`
}

const request = ({ base, canDevelop }: LanesView, { cause }: Item): Html | false =>
  canDevelop &&
  cause.request_id !== null &&
  html` <a class="small" href="${`${base}/requests/${cause.request_id}`}">Request</a>`

/** The table of a page of transitions, newest first. */
export const lanes = (view: LanesView, path: string): Html =>
  table(
    "Timeline",
    [
      {
        name: "What happened",
        cell: (item: Item) =>
          html`<a href="${`${path}?version=${item.version}#machine`}">${happened(String(item.event.type))}</a><br><span class="small quiet">${when(item.at)}, ${causeText(item, view.brought)}</span>${request(view, item)}`,
      },
      {
        name: "Status",
        cell: ({ status_after: after, status_before: before }) =>
          after === null || after === before ? html`<span class="quiet">–</span>` : status(after),
      },
      { name: "Charges", cell: (item) => list(chargesOf(item).map((id) => charge(view, id))) },
      { name: "Books", cell: ({ ledger_entries }) => list(ledger_entries.map((id) => entry(view, id))) },
      { name: "Messages", cell: ({ nudges }) => list(nudges.map((id) => nudge(view, id))) },
      { name: "Webhooks", cell: ({ events }) => list(events.map((id) => event(view, id))) },
    ],
    view.items,
  )
