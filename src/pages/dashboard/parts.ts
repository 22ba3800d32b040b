/** The parts that pages of the dashboard are made of: headings, tables, pairs, states, links to pages, empty lists. */
import { formatKobo } from "../../base/money.ts"
import { LAGOS_OFFSET_MS, parseInstant } from "../../base/time.ts"
import { type Html, html, type Value } from "../html.ts"

const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]

const two = (value: number): string => String(value).padStart(2, "0")

/** Such as "3 Mar 2027", in Lagos. */
export const dayText = (at: number): string => {
  const lagos = new Date(at + LAGOS_OFFSET_MS)
  return `${lagos.getUTCDate()} ${MONTHS[lagos.getUTCMonth()]} ${lagos.getUTCFullYear()}`
}

/** Such as "3 Mar 2027, 14:05", in Lagos. */
export const instantText = (at: number): string => {
  const lagos = new Date(at + LAGOS_OFFSET_MS)
  return `${dayText(at)}, ${two(lagos.getUTCHours())}:${two(lagos.getUTCMinutes())}`
}

/** An instant (ms since the epoch, or as the API writes it) in Lagos time; null: a dash. */
export const when = (instant: number | string | null): Html => {
  const at = typeof instant === "string" ? parseInstant(instant) : instant
  if (at === null || at === undefined) return html`<span class="quiet">–</span>`
  return html`<time datetime="${new Date(at).toISOString()}">${instantText(at)}</time>`
}

export const naira = (kobo: number): string => formatKobo(kobo)

/** An amount on the debit or the credit side; empty if it is on the other one. */
export const side = (kobo: number): string => (kobo > 0 ? naira(kobo) : "")

/** Makes words of a literal: `past_due` is "past due". */
export const words = (literal: string): string => literal.replaceAll("_", " ")

const TONES: Readonly<Record<string, "good" | "bad" | "warn" | "note">> = {
  active: "good",
  succeeded: "good",
  completed: "good",
  delivered: "good",
  enabled: "good",
  ready: "good",
  paid: "good",
  approved: "good",
  trialing: "note",
  pending: "note",
  queued: "note",
  sent: "note",
  open: "note",
  advancing: "note",
  incomplete: "note",
  scheduled: "note",
  pending_review: "note",
  past_due: "bad",
  failed: "bad",
  overdue: "bad",
  missed: "bad",
  internal_failure: "bad",
  rejected: "bad",
  suspended: "bad",
  paused: "warn",
  disabled: "warn",
  rolled: "warn",
}

/** A status as the API names it, in words and with a colour. */
export const status = (literal: string): Html =>
  html`<span class="${`status ${TONES[literal] ?? ""}`.trim()}">${words(literal)}</span>`

export interface ActionLink {
  readonly href: string
  readonly label: string
  readonly isMain?: boolean
  readonly isDanger?: boolean
}

const actionLink = ({ href, label, isMain = false, isDanger = false }: ActionLink): Html =>
  html`<a class="${`act${isMain ? " main" : ""}${isDanger ? " danger" : ""}`}" href="${href}">${label}</a>`

/** The heading of a page: its `h1`, what stands beside it, and what can be done here. */
export const pageHead = (title: Value, beside: Value = null, actions: ReadonlyArray<ActionLink> = []): Html =>
  html`<div class="page-head"><div><h1>${title}</h1>${beside !== null && html`<p class="quiet">${beside}</p>`}</div>${
    actions.length > 0 && html`<p class="actions">${actions.map(actionLink)}</p>`
  }</div>
`

export interface Column<Row> {
  readonly name: string
  readonly cell: (row: Row) => Value
  /** Aligned to the right, as amounts are. */
  readonly isNumber?: boolean
}

/** A table that becomes cards on a phone. The first column names the row. */
export const table = <Row>(label: string, columns: ReadonlyArray<Column<Row>>, rows: ReadonlyArray<Row>): Html =>
  html`<div class="rows" tabindex="0" role="region" aria-label="${label}"><table><thead><tr>${columns.map(
    ({ name, isNumber = false }) => html`<th scope="col" class="${isNumber ? "number" : null}">${name}</th>`,
  )}</tr></thead><tbody>${rows.map(
    (row) =>
      html`<tr>${columns.map(({ name, cell, isNumber = false }, at) =>
        at === 0
          ? html`<th scope="row" data-label="${name}">${cell(row)}</th>`
          : html`<td data-label="${name}" class="${isNumber ? "number" : null}">${cell(row)}</td>`,
      )}</tr>
`,
  )}</tbody></table></div>
`

/** Pairs of a name and a value. */
export const facts = (pairs: ReadonlyArray<readonly [string, Value]>): Html =>
  html`<dl class="facts">${pairs.map(
    ([name, value]) => html`<div><dt>${name}</dt><dd>${value ?? html`<span class="quiet">–</span>`}</dd></div>
`,
  )}</dl>
`

/** An empty list: what would be here, and the first step to it. */
export const empty = (title: string, text: Value, action: ActionLink | null = null): Html =>
  html`<div class="card empty stack"><h2>${title}</h2><p>${text}</p>${action !== null && html`<p>${actionLink(action)}</p>`}</div>
`

export interface Pages {
  /** null: this is the first page. */
  readonly first: string | null
  /** null: there are no more. */
  readonly next: string | null
  /** The whole list as CSV; null: it has no export. */
  readonly csv: string | null
}

/** The links under a list. */
export const pager = ({ first, next, csv }: Pages): Html =>
  html`<p class="pager">${first !== null && html`<a href="${first}">First page</a>`}${
    next !== null && html`<a href="${next}" rel="next">Next page</a>`
  }${csv !== null && html`<a href="${csv}">Export as CSV</a>`}</p>
`

export const section = (title: string, content: Value): Html => html`<section class="section"><h2>${title}</h2>
${content}</section>
`

/** A notice in a tone. */
export const notice = (tone: "good" | "warning" | "error" | "note", content: Value): Html =>
  html`<div class="${`notice ${tone === "good" ? "success" : tone === "note" ? "" : tone}`}">${content}</div>
`
