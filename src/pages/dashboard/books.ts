/** Renders the pages of the books. All amounts are in naira; the same sums are in the finance views. */
import type { BookDay, BookLine, RuleChecked } from "../../ledger/accountBooks.ts"
import type { ClosedState } from "../../ledger/accountClosing.ts"
import { type Html, html } from "../html.ts"
import {
  empty,
  naira,
  notice,
  type Pages,
  pageHead,
  pager,
  section,
  side,
  status,
  table,
  when,
  words,
} from "./parts.ts"

export interface TrialRow {
  readonly code: string
  readonly name: string
  readonly kind: string
  readonly debit_kobo: number
  readonly credit_kobo: number
}

export interface BooksView {
  readonly base: string
  /** The day of the trial balance; null: the end of the books. */
  readonly at: string | null
  readonly today: string
  readonly rows: ReadonlyArray<TrialRow>
  /** `YYYY-MM`, the newest first. */
  readonly months: ReadonlyArray<string>
  readonly closed: ClosedState
  readonly closedThrough: string | null
  readonly lastClosable: string
}

const total = <Row>(rows: ReadonlyArray<Row>, kobo: (row: Row) => number): number =>
  rows.reduce((sum, row) => sum + kobo(row), 0)

const dayForm = ({ base, at, today }: BooksView): Html =>
  html`<form class="filters" action="${`${base}/books`}"><div class="field"><label for="at">Balances at the end of</label><input id="at" name="at" type="date" value="${at ?? today}" required="${true}"></div><button class="plain">Show</button>${
    at !== null && html`<a href="${`${base}/books`}">Show the newest</a>`
  }</form>
`

const trialBalance = (view: BooksView): Html => {
  const { base, rows, at } = view
  const sums = {
    code: "",
    name: "Total",
    kind: "",
    debit_kobo: total(rows, ({ debit_kobo }) => debit_kobo),
    credit_kobo: total(rows, ({ credit_kobo }) => credit_kobo),
  }
  return html`${table(
    "Trial balance",
    [
      {
        name: "Ledger account",
        cell: ({ code, name }: TrialRow) =>
          code === "" ? name : html`<a href="${`${base}/books/${code}`}">${name}</a>`,
      },
      { name: "Kind", cell: ({ kind }) => kind },
      { name: "Debits", cell: ({ debit_kobo }) => naira(debit_kobo), isNumber: true },
      { name: "Credits", cell: ({ credit_kobo }) => naira(credit_kobo), isNumber: true },
      { name: "Balance", cell: ({ debit_kobo, credit_kobo }) => naira(debit_kobo - credit_kobo), isNumber: true },
    ],
    [...rows, sums],
  )}${pager({ first: null, next: null, csv: `${base}/books.csv${at === null ? "" : `?at=${at}`}` })}`
}

const monthAction = ({ base, closed, closedThrough, lastClosable }: BooksView, month: string): Html | string => {
  const isClosed = closedThrough !== null && month <= closedThrough
  if (!isClosed && month > lastClosable) return "Not over yet"
  if (!isClosed) return html`<a class="act" href="${`${base}/books/months/${month}/close`}">Close ${month}</a>`
  if (closed.byService !== null && month <= closed.byService) return "Closed by the service"
  return html`<a class="act" href="${`${base}/books/months/${month}/reopen`}">Open ${month} again</a>`
}

const months = (view: BooksView): Html =>
  section(
    "Months",
    html`<p class="quiet">A closed month does not change any more: what is found later is booked in the first open month, as a correction.</p>${table(
      "Months",
      [
        { name: "Month", cell: (month: string) => month },
        {
          name: "State",
          cell: (month) => status(view.closedThrough !== null && month <= view.closedThrough ? "closed" : "open"),
        },
        { name: "What to do", cell: (month) => monthAction(view, month) },
      ],
      view.months,
    )}${
      view.closed.closings.length > 0 &&
      html`<details><summary>Closings until now</summary>${table(
        "Closings until now",
        [
          { name: "When", cell: ({ at }: ClosedState["closings"][number]) => when(at) },
          { name: "What", cell: ({ action, month }) => `${action} ${month}` },
          { name: "Why", cell: ({ reason }) => reason ?? "–" },
        ],
        view.closed.closings,
      )}</details>`
    }`,
  )

const FORMATS = [
  { value: "csv", label: "CSV, all columns" },
  { value: "hledger", label: "hledger journal" },
  { value: "quickbooks", label: "QuickBooks" },
  { value: "sage", label: "Sage 50" },
  { value: "zoho", label: "Zoho Books" },
]

const exportForm = ({ base, months }: BooksView): Html =>
  section(
    "Export",
    html`<form class="filters" action="${`${base}/books/export`}"><div class="field"><label for="month">Month</label><select id="month" name="month"><option value="">all months</option>${months.map(
      (month) => html`<option value="${month}">${month}</option>`,
    )}</select></div><div class="field"><label for="format">Format</label><select id="format" name="format">${FORMATS.map(
      ({ value, label }) => html`<option value="${value}">${label}</option>`,
    )}</select></div><button class="plain">Download</button></form>`,
  )

export const booksMain = (view: BooksView): Html => {
  const { base, rows } = view
  const head = pageHead("Books", "Every kobo in double entry, balanced by the database.", [
    { href: `${base}/books/rules`, label: "Check the rules" },
  ])
  if (rows.length === 0 && view.at === null)
    return html`${head}${empty("No entries yet", "The first payment makes the first entry. The service then books every charge, fee, refund and payout here.")}`
  return html`${head}${dayForm(view)}${trialBalance(view)}${months(view)}${exportForm(view)}`
}

interface AccountView {
  readonly base: string
  readonly code: string
  readonly name: string
  readonly kind: string
  readonly days: ReadonlyArray<BookDay>
  readonly pages: Pages
}

export const accountMain = ({ base, code, name, kind, days, pages }: AccountView): Html =>
  html`${pageHead(name, html`<code>${code}</code> · ${kind} · debit balances are positive`, [
    { href: `${base}/books`, label: "All accounts" },
  ])}${
    days.length === 0
      ? empty("No entries", "Nothing is booked on this account.")
      : html`${table(
          name,
          [
            { name: "Day", cell: ({ day }: BookDay) => html`<a href="${`${base}/books/${code}/${day}`}">${day}</a>` },
            { name: "Lines", cell: ({ lines }) => lines.toLocaleString("en"), isNumber: true },
            { name: "Debits", cell: ({ debit_kobo }) => side(debit_kobo), isNumber: true },
            { name: "Credits", cell: ({ credit_kobo }) => side(credit_kobo), isNumber: true },
            { name: "Balance", cell: ({ balance_kobo }) => naira(balance_kobo), isNumber: true },
          ],
          days,
        )}${pager(pages)}`
  }`

interface Line extends BookLine {
  readonly about: string | null
  readonly aboutPath: string | null
}

interface DayView {
  readonly base: string
  readonly title: string
  readonly code: string
  readonly rows: ReadonlyArray<Line>
  readonly pages: Pages
}

export const dayMain = ({ base, title, code, rows, pages }: DayView): Html =>
  html`${pageHead(title, null, [{ href: `${base}/books/${code}`, label: "All days" }])}${
    rows.length === 0
      ? empty("No entries", "Nothing is booked on this day.")
      : html`${table(
          title,
          [
            {
              name: "Entry",
              cell: ({ entry, event }: Line) => html`<a href="${`${base}/books/entries/${entry}`}">${words(event)}</a>`,
            },
            {
              name: "About",
              cell: ({ about, aboutPath }) =>
                aboutPath === null ? (about ?? "–") : html`<a href="${aboutPath}"><code>${about}</code></a>`,
            },
            { name: "Detail", cell: ({ detail }) => detail ?? "–" },
            { name: "Debit", cell: ({ amount_kobo }) => side(amount_kobo), isNumber: true },
            { name: "Credit", cell: ({ amount_kobo }) => side(-amount_kobo), isNumber: true },
          ],
          rows,
        )}${pager(pages)}`
  }`

export const rulesMain = ({
  base,
  rows,
}: {
  readonly base: string
  /** Null: the books are too large to check them for a page. */
  readonly rows: ReadonlyArray<RuleChecked> | null
}): Html => {
  const head = (about: string) => pageHead("Rules of the books", about, [{ href: `${base}/books`, label: "Books" }])
  if (rows === null)
    return html`${head("These books are too large to be checked while a page loads.")}${notice(
      "note",
      html`<p>Closing a month checks the rules. At any time <code>SELECT * FROM finance.breaches</code> lists what breaks one, and the command <code>ledger check</code> checks all books of the service.</p>`,
    )}`
  const broken = rows.filter(({ problem }) => problem !== null)
  return html`${head("Checked just now on every entry.")}${
    broken.length === 0
      ? notice("good", html`<p>All rules hold.</p>`)
      : notice("error", html`<p>${broken.length} ${broken.length === 1 ? "problem" : "problems"}.</p>`)
  }${table(
    "Rules of the books",
    [
      { name: "Rule", cell: ({ rule }: RuleChecked) => words(rule) },
      { name: "What it says", cell: ({ meaning }) => meaning },
      {
        name: "Result",
        cell: ({ problem }) => (problem === null ? html`<span class="status good">holds</span>` : problem),
      },
    ],
    rows,
  )}`
}
