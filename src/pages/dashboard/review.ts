/** Renders what an action will do, from its dry run (decision S1): money first, then what is sent, the books, and what waits. */
import { type Html, html } from "../html.ts"
import { naira, status, table, when, words } from "./parts.ts"

/** `meta.changes` of a dry run. */
export interface Changes {
  readonly charges: ReadonlyArray<{
    readonly amount: number
    readonly status: string
    readonly description: string | null
    readonly failure_message: string | null
  }>
  readonly refunds: ReadonlyArray<object>
  readonly events: ReadonlyArray<{ readonly type: string }>
  readonly ledger_entries: ReadonlyArray<{
    readonly kind: string
    readonly lines: ReadonlyArray<{ readonly account: string; readonly debit: number; readonly credit: number }>
  }>
  readonly nudges: ReadonlyArray<{ readonly template: string; readonly channel: string; readonly at: string }>
  readonly timers: ReadonlyArray<{ readonly name: string; readonly at: string }>
}

export const NO_CHANGES: Changes = { charges: [], refunds: [], events: [], ledger_entries: [], nudges: [], timers: [] }

const sum = (numbers: ReadonlyArray<number>): number => numbers.reduce((total, one) => total + one, 0)

/** The money that an action takes, in one sentence. */
const moneyText = ({ charges }: Changes): string => {
  const taken = sum(charges.filter(({ status }) => status === "succeeded").map(({ amount }) => amount))
  const pending = sum(charges.filter(({ status }) => status === "pending").map(({ amount }) => amount))
  const failed = sum(charges.filter(({ status }) => status === "failed").map(({ amount }) => amount))
  const parts = [
    ...(taken > 0 ? [`${naira(taken)} is charged now.`] : []),
    ...(pending > 0 ? [`${naira(pending)} is charged, and the answer comes later.`] : []),
    ...(failed > 0 ? [`A charge of ${naira(failed)} is declined.`] : []),
  ]
  return parts.length === 0 ? "No money is taken." : parts.join(" ")
}

const list = (title: string, items: ReadonlyArray<Html>): Html | false =>
  items.length > 0 &&
  html`<h3>${title}</h3><ul>${items.map((item) => html`<li>${item}</li>`)}</ul>
`

interface Line {
  readonly kind: string
  readonly account: string
  readonly debit: number
  readonly credit: number
}

const amount = (kobo: number): string => (kobo === 0 ? "" : naira(kobo))

const entries = ({ ledger_entries }: Changes): Html | false => {
  const lines: ReadonlyArray<Line> = ledger_entries.flatMap(({ kind, lines }) =>
    lines.map((line) => ({ kind, ...line })),
  )
  return (
    lines.length > 0 &&
    html`<details><summary>In the books: ${ledger_entries.length} ${ledger_entries.length === 1 ? "entry" : "entries"}</summary>${table(
      "Entries in the books",
      [
        { name: "Entry", cell: ({ kind }: Line) => words(kind) },
        { name: "Account", cell: ({ account }) => words(account) },
        { name: "Debit", cell: ({ debit }) => amount(debit), isNumber: true },
        { name: "Credit", cell: ({ credit }) => amount(credit), isNumber: true },
      ],
      lines,
    )}</details>
`
  )
}

/** Renders the changes of a dry run. */
export const changesMain = (changes: Changes): Html => {
  const { charges, events, nudges, timers } = changes
  return html`<p class="amount">${moneyText(changes)}</p>
${list(
  "Charges",
  charges.map(
    ({ amount, status: literal, description, failure_message }) =>
      html`${naira(amount)} ${status(literal)}${description !== null && html` ${description}`}${failure_message !== null && html` <span class="quiet">${failure_message}</span>`}`,
  ),
)}${list(
  "Messages to the customer",
  nudges.map(({ template, channel, at }) => html`${words(template)} by ${channel}, ${when(at)}`),
)}${list(
  "What happens next",
  timers.map(({ name, at }) => html`${timerText(name)}: ${when(at)}`),
)}${list(
  "Events that your webhooks get",
  events.map(({ type }) => html`<code>${type}</code>`),
)}${entries(changes)}`
}

/** The name of a timer in words: `periodEnd` is "period end". */
export const timerText = (name: string): string =>
  words(name.replaceAll(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`)).trim()
