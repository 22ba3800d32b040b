/** Renders a timeline (decision S3) as a table: what happened, why, and what it brought about. */
import type { Transition } from "../../runtime/timelineApi.ts"
import { type Html, html } from "../html.ts"
import { happened } from "./happened.ts"
import { status, table, when, words } from "./parts.ts"

type Row = typeof Transition.Type

/** A transition with the pages of the objects that it names. */
export interface TransitionView {
  readonly transition: Row
  /** What it made: entries, refunds, nudges, events. A link without a page is null. */
  readonly made: ReadonlyArray<{ readonly id: string; readonly href: string | null }>
  /** The page of the request that caused it. */
  readonly request: string | null
}

export interface Upcoming {
  readonly name: string
  readonly at: string
  readonly means: string
}

const CAUSES: Readonly<Record<Row["cause"]["kind"], string>> = {
  api: "API",
  dashboard: "dashboard",
  page: "customer's page",
  timer: "time",
  clock: "test clock",
  rail: "payment rail",
  system: "system",
}

const stateOf = ({ status_before: before, status_after: after, to }: Row): Html =>
  after === null
    ? html`${words(to)}`
    : after === before
      ? status(after)
      : html`${before !== null && html`${words(before)} → `}${status(after)}`

const causeOf = ({ transition: { cause }, request }: TransitionView): Html =>
  html`${CAUSES[cause.kind]}${request !== null && html` <a href="${request}">request</a>`}`

const madeOf = ({ made }: TransitionView): Html =>
  made.length === 0
    ? html`–`
    : html`${made.map(({ id, href }) =>
        href === null
          ? html`<code class="id">${id}</code> `
          : html`<a href="${href}"><code class="id">${id}</code></a> `,
      )}`

export const transitionsTable = (views: ReadonlyArray<TransitionView>): Html =>
  table(
    "Timeline",
    [
      { name: "When", cell: ({ transition: { at } }: TransitionView) => when(at) },
      { name: "What", cell: ({ transition }) => happened(String(transition.event.type)) },
      { name: "Status", cell: ({ transition }) => stateOf(transition) },
      { name: "By", cell: causeOf },
      { name: "Made", cell: madeOf },
    ],
    views,
  )

/** The timers that wait, as a list; nothing if there is none. */
export const upcomingList = (upcoming: ReadonlyArray<Upcoming>): Html | false =>
  upcoming.length > 0 &&
  html`<p>What comes next:</p><ul>${upcoming.map(({ at, means }) => html`<li>${when(at)}: ${means}</li>`)}</ul>`
