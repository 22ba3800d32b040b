/** Pages that say one thing: that a payment is looked for, or how something ended. */
import { formatKobo } from "../money.ts"
import { type Html, html } from "./html.ts"
import { layout } from "./layout.ts"
import type { MessageView, PendingView } from "./views.ts"
import { dayAndHour, paymentMethod } from "./words.ts"

/** Drawings of 24 by 24. */
const SIGNS: Readonly<Record<MessageView["tone"], string>> = {
  success: "M5 12.5l4.5 4.5L19 7.5",
  info: "M12 11.5v6.5M12 6.5v.01",
  warning: "M12 5.5v8M12 18v.01",
  error: "M7 7l10 10M17 7L7 17",
}

const sign = (tone: MessageView["tone"]): Html =>
  html`<p class="sign notice ${tone}" aria-hidden="true"><svg viewBox="0 0 24 24"><path d="${SIGNS[tone]}"/></svg></p>
`

export const messagePage = (view: MessageView): string => {
  const { business, simulated, tone, title, paragraphs, action, requestId } = view
  return layout(
    { business, simulated, title, width: "narrow", script: false },
    html`<div class="card stack says">
${sign(tone)}<h1>${title}</h1>
${paragraphs.map((paragraph) => html`<p>${paragraph}</p>`)}
${action !== null && html`<p><a class="button" href="${action.href}">${action.label}</a></p>`}
${requestId !== null && html`<p class="quiet small">If you ask about this, say the number <code>${requestId}</code>.</p>`}
</div>`,
  )
}

/** How a payment is waited for, by the kind of its method. */
const WAITING: Readonly<Record<PendingView["method"]["type"], string>> = {
  card: "Your bank has not answered yet.",
  bank_account: "Banks can take some time to confirm a transfer.",
  ussd: "Finish the payment on your phone, if you have not yet.",
}

export const pendingPage = (view: PendingView): string => {
  const { business, simulated, amountKobo, method, since, returnPath } = view
  const what = amountKobo === 0 ? "Your payment method" : `${formatKobo(amountKobo)} from ${paymentMethod(method)}`
  return layout(
    {
      business,
      simulated,
      title: "Waiting for your payment",
      width: "narrow",
      script: true,
      head: html`<noscript><meta http-equiv="refresh" content="5"></noscript>
`,
    },
    html`<div class="card stack says">
<div class="waiting" aria-hidden="true"></div>
<h1>Waiting for your payment</h1>
<p role="status" data-look="${returnPath}">${what} is being confirmed. ${WAITING[method.type]}</p>
<p>Please do not pay again: this page looks by itself what became of it. You may also close it, and ${business} learns of your payment all the same.</p>
<p class="quiet small">Started ${dayAndHour(since)}</p>
<p><a class="link" href="${returnPath}">Look again</a></p>
</div>`,
  )
}
