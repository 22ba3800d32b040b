/** Renders the page of a nudge: whether it arrived, by which channel, and every channel that was tried. */
import type { Nudge, OutboxNudge } from "../../outbound/nudge/api.ts"
import { type Html, html } from "../html.ts"
import { idIn, nameIn } from "./expanded.ts"
import { CHANNEL_NAMES } from "./nudgeWords.ts"
import { facts, notice, pageHead, section, status, table, when, words } from "./parts.ts"

type Shown = typeof Nudge.Type

export interface NudgeView {
  readonly base: string
  readonly title: string
  /** With its customer. */
  readonly nudge: Shown
  /** The message that the sandbox's messenger got; null: it was not recorded. */
  readonly sent: typeof OutboxNudge.Type | null
}

const REASONS: Readonly<Record<string, string>> = {
  no_contact_details: "The customer has no phone number or e-mail address for these channels: add one.",
  not_on_whatsapp: "The number is not on WhatsApp.",
  number_unreachable: "The number cannot be reached.",
  address_rejected: "The e-mail address was rejected.",
  message_rejected: "The messenger rejected the message.",
  no_answer: "The messenger did not answer.",
  messenger_unavailable: "The messenger could not be reached.",
  messenger_misconfigured: "The messenger refused the credentials of the service.",
  channel_not_set_up: "This channel is not set up.",
  no_longer_needed: "It was not needed any more when it was due.",
}

const reason = (code: string): string => REASONS[code] ?? words(code)

const messageOf = ({ sent }: NudgeView): Html | false =>
  sent !== null &&
  section(
    "The message",
    html`<div class="card stack"><p class="quiet small">To ${sent.to}</p><p class="message">${sent.rendered_message}</p></div>`,
  )

export const nudgeMain = (view: NudgeView): Html => {
  const { base, title, nudge } = view
  const { customer, subscription } = nudge
  return html`${pageHead(title, status(nudge.status))}${nudge.failure_reason !== null && notice("error", html`<p>${reason(nudge.failure_reason)}</p>`)}${facts(
    [
      ["Customer", html`<a href="${`${base}/customers/${idIn(customer)}`}">${nameIn(customer)}</a>`],
      [
        "Subscription",
        subscription === null
          ? null
          : html`<a href="${`${base}/subscriptions/${idIn(subscription)}`}">${idIn(subscription)}</a>`,
      ],
      ["By", CHANNEL_NAMES[nudge.channel]],
      ["Sent from", words(nudge.source)],
      ["Sent", when(nudge.sent_at)],
      ["Delivered", when(nudge.delivered_at)],
      ["Counts towards the allowance", nudge.counts_toward_allowance ? "yes" : "no"],
      ["Billed as overage", nudge.billed_as_overage ? "yes" : "no"],
      ["ID", html`<code class="id">${nudge.id}</code>`],
      ["Created", when(nudge.created_at)],
    ],
  )}${messageOf(view)}
${
  nudge.attempts.length > 0 &&
  section(
    "Channels that were tried",
    table(
      "Channels that were tried",
      [
        { name: "Channel", cell: ({ channel }: Shown["attempts"][number]) => CHANNEL_NAMES[channel] },
        { name: "Status", cell: (row) => status(row.status) },
        { name: "Why", cell: ({ failure_reason }) => (failure_reason === null ? "–" : reason(failure_reason)) },
        { name: "When", cell: ({ at }) => when(at) },
      ],
      nudge.attempts,
    ),
  )
}`
}
