/** A list of what is paid, with its sum. */
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

/** What is owed, after what is bought; `totalKobo`: the sum of all of it. */
export const bills = (owed: ReadonlyArray<Owed>, totalKobo: number, bought: Bought | null = null): Html =>
  html`<dl class="facts bills">
${bought !== null && boughtRow(bought)}${owed.map(owedRow)}<div class="total"><dt>To pay today</dt><dd>${formatKobo(totalKobo)}</dd></div>
</dl>
`
