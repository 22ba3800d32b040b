/** Renders the pages that close a month of the books and open it again. */
import { type Html, html } from "../html.ts"
import { hiddenField } from "./fields.ts"
import { naira, notice, pageHead, table } from "./parts.ts"

interface OpenShown {
  readonly text: string
  readonly day: string | null
  readonly kobo: number | null
  readonly path: string | null
  readonly about: string | null
}

/** What stands in the way of a closing. */
export interface Obstacles {
  readonly items: ReadonlyArray<OpenShown>
  /** Whether the rules were checked, are checked on confirming, or cannot be checked in the time of a page. */
  readonly rules: "checked" | "later" | "too large"
}

/** Whether a closing needs a reason. */
export const isHindered = ({ items, rules }: Obstacles): boolean => items.length > 0 || rules === "too large"

export interface CloseView extends Obstacles {
  readonly base: string
  readonly month: string
  readonly action: "close" | "reopen"
  readonly refusal: string | null
  readonly reason: string
  readonly formToken: string
  readonly path: string
}

const CONSEQUENCES = {
  close: (month: string) =>
    html`<p>All days through the end of ${month} are closed, in this account and environment only. Nothing can be booked there any more. What is found later is booked on the first open day, as a correction that names the entry it corrects.</p>`,
  reopen: (month: string) =>
    html`<p>${month} and the closed months after it are open again. Entries can be dated there, so that sums that you may have reported already can change.</p>`,
}

const RULES = {
  checked: null,
  later: notice(
    "note",
    html`<p>The rules of the books are checked when you close the month. This takes some seconds.</p>`,
  ),
  "too large": notice(
    "warning",
    html`<p>The books are too large for the rules to be checked on this page. The operator of the service checks them.</p>`,
  ),
}

export const closeMain = (view: CloseView): Html => {
  const { base, month, action, items, rules, refusal, reason, formToken, path } = view
  const isClosing = action === "close"
  const needsReason = !isClosing || isHindered(view)
  const title = isClosing ? `Close ${month}` : `Open ${month} again`
  return html`${pageHead(title)}${refusal !== null && html`<div class="notice error" role="alert" tabindex="-1"><p>${refusal}</p></div>`}${
    isClosing &&
    (items.length > 0
      ? html`${notice("warning", html`<p>${items.length} ${items.length === 1 ? "item stands" : "items stand"} in the way. Settle them first, or close with a reason, which is kept.</p>`)}${table(
          "What stands in the way",
          [
            { name: "What", cell: ({ text }: OpenShown) => text },
            {
              name: "About",
              cell: ({ about, path }) =>
                path === null ? (about ?? "–") : html`<a href="${path}"><code>${about}</code></a>`,
            },
            { name: "Day", cell: ({ day }) => html`<span class="whole">${day ?? "–"}</span>` },
            { name: "Amount", cell: ({ kobo }) => (kobo === null ? "–" : naira(kobo)), isNumber: true },
          ],
          items,
        )}`
      : rules === "checked" && notice("good", html`<p>Nothing stands in the way.</p>`))
  }${RULES[rules]}<form method="post" action="${path}" class="form section"><div class="card stack"><h2>What this does</h2>${CONSEQUENCES[action](month)}${hiddenField("form_token", formToken)}${
    needsReason &&
    html`<div class="field"><label for="field-reason">Reason</label><textarea id="field-reason" name="reason" rows="3" maxlength="500" required="${true}">${reason}</textarea></div>`
  }<p class="actions"><button class="${isClosing ? "button" : "button danger"}" name="intent" value="confirm">${title}</button></p></div></form>
<p class="section"><a href="${`${base}/books`}">Back without doing this</a></p>`
}
