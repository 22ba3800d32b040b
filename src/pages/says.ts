/** Renders pages with one message: a payment in progress, or a result. */
import { formatAmount, formatKobo } from "../base/money.ts"
import type { PaymentMethodType } from "../rails/rail/PaymentRail.ts"
import { type Html, html } from "./html.ts"
import { layout } from "./layout.ts"
import type { MessageView, PendingView } from "./views.ts"
import { dayAndHour, paymentMethod } from "./words.ts"

/** SVG paths in a box of 24 by 24. */
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

/** What the buyer waits for, by type of payment method. */
const WAITING: Readonly<Record<PaymentMethodType, string>> = {
  card: "Your bank has not answered yet.",
  bank_account: "Banks can take some time to confirm a transfer.",
  ussd: "Finish the payment on your phone, if you have not yet.",
}

const progressInWords = ({ amountKobo, method, goOn }: PendingView): string => {
  if (goOn !== null) return `A payment of ${formatKobo(amountKobo)} is under way at the payment company’s own page.`
  const what = method === null ? formatKobo(amountKobo) : `${formatKobo(amountKobo)} from ${paymentMethod(method)}`
  return `${what} is being confirmed. ${method === null ? "The payment company has not answered yet." : WAITING[method.type]}`
}

/** Describes a received amount that is not the requested one. */
const receivedInWords = ({ amountKobo }: PendingView, received: NonNullable<PendingView["received"]>): string =>
  received.amountKobo === null
    ? `The payment company received another amount than ${formatKobo(amountKobo)}.`
    : `The payment company received ${formatAmount(received.amountKobo, received.currency)}. ${formatKobo(amountKobo)} was asked for.`

/** Renders what the buyer should do, and what happens meanwhile. */
const nextSteps = ({ business, received, goOn }: PendingView): Html =>
  received === null
    ? html`${
        goOn !== null &&
        html`<p><a class="button" href="${goOn}">Go on to pay</a></p>
`
      }<p>Please do not pay a second time: this page checks for the result automatically. You may also close it: ${business} is notified of your payment anyway.</p>`
    : html`<p>${business} has been notified, and sends the money back or agrees with you on the rest. Please do not pay a second time.</p>`

export const pendingPage = (view: PendingView): string => {
  const { business, simulated, since, returnPath, received } = view
  // A poll is marked, so that it does not count as the buyer's return.
  const look = `${returnPath}?look`
  const title = received === null ? "Waiting for your payment" : "Your payment needs a look"
  return layout(
    {
      business,
      simulated,
      title,
      width: "narrow",
      script: true,
      head: html`<noscript><meta http-equiv="refresh" content="5"></noscript>
`,
    },
    html`<div class="card stack says">
${received === null ? html`<div class="waiting" aria-hidden="true"></div>` : sign("warning")}
<h1>${title}</h1>
<p role="status" data-look="${look}">${received === null ? progressInWords(view) : receivedInWords(view, received)}</p>
${nextSteps(view)}
<p class="quiet small">Started ${dayAndHour(since)}</p>
<p><a class="link" href="${look}">Look again</a></p>
</div>`,
  )
}
