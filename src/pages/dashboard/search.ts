/** Renders what a search found, or what can be searched. */
import { type Html, html } from "../html.ts"
import { pageHead, table } from "./parts.ts"

export interface Match {
  readonly kind: string
  readonly name: string
  readonly beside: string
  readonly href: string
}

export interface SearchView {
  readonly typed: string
  readonly matches: ReadonlyArray<Match>
}

const NOTHING = html`<div class="card empty stack"><h2>Nothing found</h2><p>Search here finds, in this environment:</p><ul>
<li>any object by its ID, such as <code>sub_…</code>, <code>chg_…</code> or <code>cus_…</code></li>
<li>an instalment plan by its code, such as <code>SB-01M7YYP0A6</code></li>
<li>a customer by the whole e-mail address or phone number</li>
<li>a charge by its reference or number at your payment rail</li>
</ul><p>Names are not searched. Is it in the other environment? Switch at the top of the menu.</p></div>
`

export const searchMain = ({ typed, matches }: SearchView): Html =>
  html`${pageHead("Search", typed === "" ? null : `For “${typed}”`)}${
    matches.length === 0
      ? NOTHING
      : table(
          "What was found",
          [
            { name: "Name", cell: ({ name, href }: Match) => html`<a href="${href}">${name}</a>` },
            { name: "What", cell: ({ kind }) => kind },
            { name: "More", cell: ({ beside }) => beside },
          ],
          matches,
        )
  }`
