/** Renders the page of one entry of the books: its lines, what it is about, and why it was booked. */
import { type Html, html } from "../html.ts"
import { happened } from "./happened.ts"
import { facts, pageHead, section, side, table, when, words } from "./parts.ts"

interface EntryView {
  readonly base: string
  readonly id: string
  readonly event: string
  readonly meaning: string
  readonly effective_on: string
  readonly occurred_on: string
  readonly posted_at: number
  readonly bill_no: number | null
  readonly corrects: string | null
  readonly reverses: string | null
  readonly reason: string | null
  readonly about: ReadonlyArray<{ readonly name: string; readonly id: string; readonly path: string | null }>
  readonly lines: ReadonlyArray<{ readonly account: string; readonly detail: string | null; readonly kobo: number }>
  readonly transitions: ReadonlyArray<{
    readonly actor: string
    readonly version: number
    readonly at: string
    readonly event: string
    readonly from: string
    readonly to: string
  }>
}

const otherEntry = (base: string, id: string | null): Html | null =>
  id === null ? null : html`<a href="${`${base}/books/entries/${id}`}"><code>${id}</code></a>`

export const entryMain = (view: EntryView): Html => {
  const { base, id, event, meaning, about, lines, transitions } = view
  return html`${pageHead("Entry of the books", html`<code>${id}</code>`)}<p>${meaning}</p>
${table(
  "Lines of the entry",
  [
    {
      name: "Ledger account",
      cell: ({ account }: EntryView["lines"][number]) =>
        html`<a href="${`${base}/books/${account}/${view.effective_on}`}">${words(account)}</a>`,
    },
    { name: "Detail", cell: ({ detail }) => detail ?? "–" },
    { name: "Debit", cell: ({ kobo }) => side(kobo), isNumber: true },
    { name: "Credit", cell: ({ kobo }) => side(-kobo), isNumber: true },
  ],
  lines,
)}${section(
  "What it is about",
  facts([
    ["Rule", words(event)],
    ["Booked on", view.effective_on],
    ...(view.occurred_on === view.effective_on ? [] : [["Happened on", view.occurred_on] as const]),
    ["Written", when(view.posted_at)],
    ...about.map(({ name, id: object, path }): readonly [string, Html] => [
      name,
      path === null ? html`<code>${object}</code>` : html`<a href="${path}"><code>${object}</code></a>`,
    ]),
    ...(view.bill_no === null ? [] : [["Bill", view.bill_no] as const]),
    ...(view.corrects === null ? [] : [["Corrects", otherEntry(base, view.corrects)] as const]),
    ...(view.reverses === null ? [] : [["Reverses", otherEntry(base, view.reverses)] as const]),
    ...(view.reason === null ? [] : [["Reason", view.reason] as const]),
  ]),
)}${section(
  "Why it was booked",
  transitions.length === 0
    ? html`<p class="quiet">No single event made it: it is booked by day, or a person booked it.</p>`
    : table(
        "Why it was booked",
        [
          { name: "What happened", cell: ({ event }: EntryView["transitions"][number]) => happened(event) },
          { name: "To", cell: ({ actor }) => html`<code>${actor}</code>` },
          { name: "From state", cell: ({ from }) => from },
          { name: "To state", cell: ({ to }) => to },
          { name: "When", cell: ({ at }) => when(at) },
        ],
        transitions,
      ),
)}`
}
