/** Renders the sandbox's test cards and other test payment methods, which fill in the form. */
import { TEST_CARDS, TEST_METHODS, type TestCard } from "../rails/rail/simulator/methods.ts"
import { errorId, wrong } from "./fields.ts"
import { type Html, html } from "./html.ts"
import { FORM_ID, TEST_METHOD_ID } from "./paymentForm.ts"
import type { PaymentForm } from "./views.ts"

const testCard = ({ number, does }: TestCard): Html =>
  html`<li><button class="test-card" type="button" data-card="${number}"><span class="number">${number}</span><span>${does}</span></button></li>
`

/** Returns what a method does, without the code that its ID ends with. */
const groupOf = (id: string, does: string): string => {
  const code = /: ([a-z_]+)\.$/.exec(does)?.[1]
  return code !== undefined && id.endsWith(code) ? does.replace(`: ${code}.`, ".") : does
}

/** The IDs of methods by their behaviour. */
const GROUPS: ReadonlyMap<string, ReadonlyArray<string>> = Map.groupBy(TEST_METHODS.keys(), (id) =>
  groupOf(id, TEST_METHODS.get(id)!.does),
)

const OPTIONS = [...GROUPS].map(
  ([does, ids]) => html`<optgroup label="${does}">${ids.map((id) => html`<option>${id}</option>`)}</optgroup>
`,
)

export const testCards = ({ saved, errors }: PaymentForm): Html => {
  // If there are saved methods, the message is shown there.
  const error = saved.length === 0 && wrong(errors, "payment_method")
  return html`<section id="test-cards" class="stack" aria-labelledby="test-cards-title">
<h2 id="test-cards-title">Test cards</h2>
<p class="quiet small">Choose one to fill in the form. Any later expiry date and any CVC work.</p>
<ul class="test-cards">
${TEST_CARDS.map(testCard)}
</ul>
<details open="${error && true}">
<summary>Other test payment methods</summary>
<label for="${TEST_METHOD_ID}">Pay with</label>
<select id="${TEST_METHOD_ID}" name="payment_method" form="${FORM_ID}" aria-invalid="${error && "true"}" aria-describedby="${error && errorId("payment_method")}">
<option value="">As the form says</option>
${OPTIONS}</select>
${error}</details>
</section>
`
}
