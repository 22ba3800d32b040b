/** Renders the page of an action: its fields, what it will do, and the button that does it. */
import { type Html, html } from "../html.ts"
import { errorSummary, type Field, fieldRows, hiddenField, type Typed, type Wrong } from "./fields.ts"
import { notice, pageHead } from "./parts.ts"
import { type Changes, changesMain } from "./review.ts"

export interface ActionView {
  readonly title: string
  readonly about: Html | string | null
  /** The path that the form is sent to. */
  readonly path: string
  readonly backTo: string
  readonly fields: ReadonlyArray<Field>
  readonly typed: Typed
  readonly wrong: Wrong
  readonly refusal: string | null
  /** The text of the button that does it. */
  readonly button: string
  readonly isDanger: boolean
  readonly formToken: string
  readonly attempt: string
  /** Whether it is reviewed before it is done. */
  readonly hasReview: boolean
  /** What it will do; null: it was not tried yet. */
  readonly review: { readonly changes: Changes; readonly reviewed: string } | null
  /** Whether the sums have changed since they were shown. */
  readonly hasChanged: boolean
}

const confirmButton = ({ button, isDanger }: ActionView): Html =>
  html`<button class="${isDanger ? "button danger" : "button"}" name="intent" value="confirm">${button}</button>`

const reviewCard = (view: ActionView): Html | false => {
  const { review, hasChanged } = view
  return (
    review !== null &&
    html`<section class="card stack review" aria-labelledby="review"><h2 id="review">What this does</h2>${
      hasChanged && notice("warning", "This has changed since you looked. Check it again.")
    }${changesMain(review.changes)}${hiddenField("reviewed", review.reviewed)}<p class="actions">${confirmButton(view)}</p></section>
`
  )
}

export const actionMain = (view: ActionView): Html => {
  const { title, about, path, backTo, fields, typed, wrong, refusal, formToken, attempt, hasReview, review } = view
  const reviewButton = html`<button class="${review === null ? "button" : "plain"}" name="intent" value="review">${review === null ? "Review" : "Review again"}</button>`
  return html`${pageHead(title, about)}<form method="post" action="${path}" class="form">${errorSummary(fields, wrong, refusal)}${hiddenField("form_token", formToken)}${hiddenField("attempt", attempt)}${
    fields.length > 0 &&
    html`<div class="card stack">${fieldRows(fields, typed, wrong)}<p class="actions">${hasReview ? reviewButton : confirmButton(view)}</p></div>
`
  }${fields.length === 0 && !hasReview && html`<p class="actions">${confirmButton(view)}</p>`}${reviewCard(view)}</form>
<p class="section"><a href="${backTo}">Back without doing this</a></p>`
}
