/** Renders a list of bills with their sum. */
import { formatKobo } from "../base/money.ts"
import { type Html, html } from "./html.ts"
import type { Owed } from "./views.ts"
import { day } from "./words.ts"

interface Bought {
  readonly plan: string
  readonly amountKobo: number
}

const boughtRow = ({ plan, amountKobo }: Bought): Html =>
  html`<div><dt>${plan}</dt><dd>${formatKobo(amountKobo)}</dd></div>
`

const owedRow = ({ plan, amountKobo, since }: Owed): Html =>
  html`<div><dt>${plan}<small>not paid since ${day(since)}</small></dt><dd>${formatKobo(amountKobo)}</dd></div>
`

/** Renders the purchase, if any, and then the overdue bills. `totalKobo`: the sum of all. */
export const bills = (owed: ReadonlyArray<Owed>, totalKobo: number, bought: Bought | null = null): Html =>
  html`<dl class="facts bills">
${bought !== null && boughtRow(bought)}${owed.map(owedRow)}<div class="total"><dt>To pay today</dt><dd>${formatKobo(totalKobo)}</dd></div>
</dl>
`
